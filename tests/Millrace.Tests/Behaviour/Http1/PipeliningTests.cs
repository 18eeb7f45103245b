// Requests that do not wait for the answers before them. RFC 9112 §9.3.2.

using System.Text;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Http1;

public sealed class PipeliningTests
{
    private const string Plain = "GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n";

    [Fact]
    public void Sixteen_requests_in_one_segment_are_answered_in_order_with_one_send_RFC9112_9_3_2() => HttpBench.Run(static bench =>
    {
        HttpPeer peer = bench.Connect();
        bench.Send(peer, string.Concat(Enumerable.Range(0, 16).Select(static i => $"GET /{i} HTTP/1.1\r\nHost: a\r\n\r\n")));
        Assert.Equal(Enumerable.Range(0, 16).Select(static i => $"GET /{i}"), peer.Answers.Select(static answer => answer.BodyText.Split('\n')[0]));
        Assert.Equal(peer.BytesRead, peer.Socket.LargestSend);
    });

    [Fact]
    public void Requests_with_bodies_may_be_pipelined_RFC9112_9_3_2()
    {
        byte[] three = Encoding.ASCII.GetBytes(
            "POST /one HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
            + "POST /two HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndefg\r\n0\r\nX-T: 1\r\n\r\n"
            + "GET /three HTTP/1.1\r\nHost: a\r\n\r\n");
        HttpBench.HoweverCut(three, static (_, peer) =>
        {
            Assert.Equal(["POST /one", "POST /two", "GET /three"], peer.Answers.Select(static answer => answer.BodyText.Split('\n')[0]));
            Assert.Equal([$"body 3 {Call.Sum("abc"u8)}", $"body 4 {Call.Sum("defg"u8)}", "body 0 0"], peer.Answers.Select(static answer => answer.BodyText.Split('\n')[5]));
        });
    }

    [Fact]
    public void A_thousand_pipelined_requests_are_answered_and_the_answers_do_not_grow_without_bound_when_nobody_reads() => HttpBench.Run(
        static (request, response) =>
        {
            response.Write(new byte[10_000]);
            return default;
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.Reads = false;
            bench.Send(peer, string.Concat(Enumerable.Repeat(Plain, 1_000)));
            Assert.InRange(bench.Simulation.Handler.Started, 10, 100);
            bench.Reads = true;
            bench.Settle();
            Assert.Equal(1_000, peer.Answers.Count);
            bench.StillServes(peer);
        });

    // A web server has the whole response, or all but its end, and has begun to send the next request, somebody else's: what is missing of it still comes.
    [Theory]
    [InlineData(null, true)]
    [InlineData(null, false)]
    [InlineData("http://unix:/run/simulated.sock", true)]
    [InlineData("http://unix:/run/simulated.sock", false)]
    public void A_next_request_of_which_a_part_has_come_before_the_end_of_the_handler_is_answered_in_a_drain_RFC9112_9_3(string? address, bool hasWhole)
    {
        byte[] next = Encoding.ASCII.GetBytes("POST /second HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789");
        for (int cut = 1; cut < next.Length; cut += 10)
        {
            var pause = new TaskCompletionSource();
            HttpBench.Run(
                async (request, response) =>
                {
                    if (request.Path == "/first")
                    {
                        response.ContentLength = hasWhole ? 5 : null;       // otherwise its last chunk comes with the end of the handler
                        await response.WriteAsync("first"u8.ToArray());
                        await response.FlushAsync();
                        await pause.Task;
                        return;
                    }

                    await PlainCall.Echo(request, response);
                },
                bench =>
                {
                    HttpPeer peer = bench.Connect();
                    bench.Send(peer, "GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
                    bench.Send(peer, next.AsSpan(0, cut));
                    bench.Drain();
                    bench.Settle();
                    pause.SetResult();
                    bench.Settle();
                    Assert.Equal("first", Assert.Single(peer.Answers).BodyText);
                    bench.Send(peer, next.AsSpan(cut));
                    Assert.False(peer.Socket.RefusedToClient);
                    Assert.StartsWith("POST /second", peer.Answers[^1].BodyText, StringComparison.Ordinal);
                    Assert.Equal(2, peer.Answers.Count);
                    Assert.True(peer.IsAtEnd);
                },
                address: address);
        }
    }

    [Fact]
    public void An_answer_behind_one_that_takes_its_time_waits_for_it_RFC9112_9_3_2()
    {
        var gate = new TaskCompletionSource();
        HttpBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/slow")
                {
                    await gate.Task;
                }

                response.WriteText(request.Path);
            },
            bench =>
            {
                HttpPeer peer = bench.Connect();
                bench.Send(peer, "GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET /behind HTTP/1.1\r\nHost: a\r\n\r\n");
                Assert.Equal(["/first"], peer.Answers.Select(static answer => answer.BodyText));
                gate.SetResult();
                bench.Settle();
                Assert.Equal(["/first", "/slow", "/behind"], peer.Answers.Select(static answer => answer.BodyText));
            });
    }

    [Fact]
    public void A_request_that_is_given_up_takes_no_answer_before_it_along_RFC9112_9_6() => HttpBench.Run(
        static async (request, response) =>
        {
            response.WriteText(request.Path);
            if (request.Path == "/given-up")
            {
                await Bench.Cancelled(request.Aborted);
                throw new OperationCanceledException();
            }
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.Reads = false;
            peer.Socket.ClientSend("GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET /second HTTP/1.1\r\nHost: a\r\n\r\nGET /given-up HTTP/1.1\r\nHost: a\r\n\r\n"u8);
            peer.Socket.ClientFinish();
            bench.Settle();
            Assert.Equal(0, bench.Connections);
            bench.Reads = true;
            bench.Settle();
            Assert.Equal(["/first", "/second"], peer.Answers.Select(static answer => answer.BodyText));
            Assert.Null(peer.Begun);
            Assert.Equal((true, false), (peer.IsAtEnd, peer.Socket.WasReset));
        });

    [Theory]
    [InlineData("GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200)]
    [InlineData("GET /last HTTP/1.0\r\n\r\n", 200)]
    [InlineData("GET /bad HTTP/1.1\r\n\r\n", 400)]
    [InlineData("GET /bad HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400)]
    public void What_comes_behind_the_last_request_is_not_looked_at_RFC9112_9_6(string last, int status) =>
        HttpBench.HoweverCut(Encoding.ASCII.GetBytes(Plain + last + Plain + Plain), (_, peer) =>
        {
            Assert.Equal([200, status], peer.Answers.Select(static answer => answer.Status));
            Assert.True(peer.Answers[1].Closes);
            Assert.True(peer.IsAtEnd);
        });

    // It has more on its way: closed over that, its connection would be reset over the answer.
    [Theory]
    [InlineData("GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")]
    [InlineData("GET /last HTTP/1.0\r\n\r\n")]
    public void A_client_that_goes_on_asking_behind_its_last_request_has_no_reset_over_the_answer_RFC9112_9_6(string last) => HttpBench.Run(bench =>
    {
        HttpPeer peer = bench.Connect();
        bench.Send(peer, last + Plain);
        Assert.Equal(200, Assert.Single(peer.Answers).Status);
        Assert.True(peer.IsAtEnd);
        bench.Send(peer, Plain);
        Assert.False(peer.Socket.WasReset);
        bench.Pass(TimeSpan.FromSeconds(3));
        Assert.Equal((1, 0), (bench.Simulation.Handler.Started, bench.Connections));
    });
}
