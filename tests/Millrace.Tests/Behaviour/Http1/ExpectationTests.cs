// Expect: 100-continue. RFC 9110 §10.1.1.

using System.IO.Pipelines;
using System.Text;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Http1;

public sealed class ExpectationTests
{
    private static string Head(string length = "Content-Length: 5", string more = "", string version = "1.1") =>
        $"POST / HTTP/{version}\r\nHost: a\r\n{length}\r\nExpect: 100-continue\r\n{more}\r\n";

    [Theory]
    [InlineData("Content-Length: 5", "hello")]
    [InlineData("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n")]
    public void The_client_is_told_to_continue_when_the_body_is_read_and_once_RFC9110_10_1_1(string length, string body) => HttpBench.Run(bench =>
    {
        HttpPeer peer = bench.Connect();
        bench.Send(peer, Head(length));
        Assert.Equal([100], peer.Interims);
        Assert.Empty(peer.Answers);
        bench.Send(peer, body);
        Assert.Contains("\nbody 5 ", Assert.Single(peer.Answers).BodyText, StringComparison.Ordinal);
        Assert.Equal([100], peer.Interims);
        bench.StillServes(peer);
    });

    [Fact]
    public void Each_request_of_a_connection_is_told_to_continue_by_itself_RFC9110_10_1_1() => HttpBench.Run(static bench =>
    {
        HttpPeer peer = bench.Connect();
        for (int i = 1; i <= 3; i++)
        {
            bench.Send(peer, Head());
            Assert.Equal(i, peer.Interims.Count);
            bench.Send(peer, "hello");
            Assert.Equal(i, peer.Answers.Count);
        }
    });

    [Fact]
    public void A_read_that_was_given_up_and_begins_again_tells_the_client_nothing_new_RFC9110_10_1_1() => HttpBench.RunHosted(
        static async context =>
        {
            PipeReader reader = context.Request.BodyReader;
            for (int i = 0; i < 3; i++)
            {
                Task<ReadResult> read = reader.ReadAsync().AsTask();
                Assert.False(read.IsCompleted);
                reader.CancelPendingRead();
                Assert.True((await read).IsCanceled);
            }

            await context.Request.Body.CopyToAsync(context.Response.Body);
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.Send(peer, Head());
            Assert.Equal([100], peer.Interims);
            bench.Send(peer, "hello");
            Assert.Equal("hello", Assert.Single(peer.Answers).BodyText);
            Assert.Equal([100], peer.Interims);
        });

    [Fact]
    public void Memory_that_waits_for_the_body_stays_in_the_response_RFC9110_10_1_1() => HttpBench.RunHosted(
        static async context =>
        {
            await context.Response.StartAsync();
            await context.Request.Body.CopyToAsync(context.Response.BodyWriter, context.RequestAborted);    // GetMemory, read, Advance
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.Send(peer, Head());
            Assert.Empty(peer.Answers);
            Assert.NotEqual(0, peer.BytesRead);     // the head: the client sends its body when it sees something
            bench.Send(peer, "hello");
            Assert.Equal("hello", Assert.Single(peer.Answers).BodyText);
        });

    [Fact]
    public void Nothing_is_said_before_the_handler_reads_RFC9110_10_1_1()
    {
        var gate = new TaskCompletionSource();
        HttpBench.Run(
            async (request, response) =>
            {
                await gate.Task;
                await PlainCall.Echo(request, response);
            },
            bench =>
            {
                HttpPeer peer = bench.Connect();
                bench.Send(peer, Head());
                Assert.Equal(0, peer.BytesRead);
                gate.SetResult();
                bench.Settle();
                Assert.Equal([100], peer.Interims);
                bench.Send(peer, "hello");
                Assert.Equal(200, Assert.Single(peer.Answers).Status);
            });
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(5)]
    public void Nothing_is_said_when_the_body_comes_unasked_RFC9110_10_1_1(int there)
    {
        var gate = new TaskCompletionSource();
        HttpBench.Run(
            async (request, response) =>
            {
                await gate.Task;
                await PlainCall.Echo(request, response);
            },
            bench =>
            {
                HttpPeer peer = bench.Connect();
                bench.Send(peer, Head() + "hello"[..there]);
                gate.SetResult();
                bench.Settle();
                Assert.Equal(there == 0 ? [100] : [], peer.Interims);
                bench.Send(peer, "hello"[there..]);
                Assert.Contains("\nbody 5 ", Assert.Single(peer.Answers).BodyText, StringComparison.Ordinal);
                bench.StillServes(peer);
            });
    }

    [Theory]
    [InlineData("Content-Length: 5")]
    [InlineData("Transfer-Encoding: chunked")]
    public void An_answer_without_reading_comes_instead_and_the_connection_ends_RFC9110_10_1_1(string length) => HttpBench.Run(
        static (request, response) =>
        {
            response.StatusCode = 403;
            return default;
        },
        bench =>
        {
            HttpPeer peer = bench.Connect();
            HttpAnswer answer = bench.Ask(peer, Head(length));
            Assert.Equal((403, true), (answer.Status, answer.Closes));
            Assert.Empty(peer.Interims);
            Assert.True(peer.IsAtEnd);
        });

    [Fact]
    public void That_an_earlier_request_was_told_to_continue_is_nothing_to_the_next_RFC9110_10_1_1()
    {
        int requests = 0;
        HttpBench.Run(
            async (request, response) =>
            {
                if (++requests == 1)
                {
                    await PlainCall.Echo(request, response);
                }
            },
            static bench =>
            {
                HttpPeer peer = bench.Connect();
                bench.Send(peer, Head());
                bench.Send(peer, "hello");
                HttpAnswer answer = bench.Ask(peer, Head());
                Assert.True(answer.Closes);
                Assert.Equal([100], peer.Interims);
                Assert.True(peer.IsAtEnd);
            });
    }

    [Fact]
    public void An_answer_without_reading_does_not_end_the_connection_when_the_body_is_there_RFC9110_10_1_1() => HttpBench.Run(
        static (request, response) => default,
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            Assert.False(bench.Ask(peer, Head() + "hello").Closes);
            bench.StillServes(peer);
        });

    [Fact]
    public void Once_the_answer_has_begun_nothing_is_said_any_more_RFC9110_15_2() => HttpBench.Run(
        static async (request, response) =>
        {
            response.WriteText("begun ");
            await response.FlushAsync();
            byte[] buffer = new byte[10];
            int count = await request.ReadAsync(buffer);
            response.WriteText(Encoding.ASCII.GetString(buffer, 0, count));
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.Send(peer, Head());
            Assert.Equal("begun ", peer.Begun!.BodyText);
            bench.Send(peer, "hello");
            Assert.Equal("begun hello", Assert.Single(peer.Answers).BodyText);
            Assert.Empty(peer.Interims);
        });

    [Fact]
    public void A_body_that_is_too_large_is_refused_instead_RFC9110_10_1_1() => HttpBench.Run(
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            HttpAnswer answer = bench.Ask(peer, Head("Content-Length: 1001"));
            Assert.Equal((413, true), (answer.Status, answer.Closes));
            Assert.Empty(peer.Interims);
        },
        static options => options.MaxRequestBodySize = 1000);

    [Fact]
    public void HTTP_1_0_knows_no_expectation_RFC9110_10_1_1() => HttpBench.Run(static bench =>
    {
        HttpPeer peer = bench.Connect();
        peer.Expect("POST", is10: true);
        bench.Send(peer, Head(version: "1.0"));
        Assert.Equal(0, peer.BytesRead);
        bench.Send(peer, "hello");
        Assert.Equal(200, Assert.Single(peer.Answers).Status);
        Assert.Empty(peer.Interims);
    });

    [Theory]
    [InlineData("Content-Length: 0")]
    [InlineData("X-No: body")]
    public void Without_a_body_there_is_nothing_to_continue_RFC9110_10_1_1(string length) => HttpBench.Run(bench =>
    {
        HttpPeer peer = bench.Connect();
        Assert.Equal(200, bench.Ask(peer, Head(length)).Status);
        Assert.Empty(peer.Interims);
        bench.StillServes(peer);
    });

    [Fact]
    public void A_pipelined_expectation_is_answered_behind_the_request_before_it_RFC9112_9_3_2()
    {
        var gate = new TaskCompletionSource();
        HttpBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/first")
                {
                    await gate.Task;
                }

                await PlainCall.Echo(request, response);
            },
            bench =>
            {
                HttpPeer peer = bench.Connect();
                bench.Send(peer, "GET /first HTTP/1.1\r\nHost: a\r\n\r\n" + Head());
                Assert.Equal(0, peer.BytesRead);
                gate.SetResult();
                bench.Settle();
                Assert.Equal((1, 1), (peer.Answers.Count, peer.Interims.Count));
                bench.Send(peer, "hello");
                Assert.Equal(2, peer.Answers.Count);
            });
    }
}
