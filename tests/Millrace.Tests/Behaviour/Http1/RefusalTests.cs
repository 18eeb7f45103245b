// Answers that no handler gives: a client must be able to read them although it is still sending, and nothing it has sent
// behind them may be taken for a request. RFC 9112 §9.6, RFC 9110 §15.5.

using System.Text;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Http1;

public sealed class RefusalTests
{
    [Theory]
    [InlineData("BAD\r\n", 400)]
    [InlineData("GET / HTTP/1.1\r\n\r\n", 400)]
    [InlineData("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505)]
    [InlineData("get / HTTP/1.1\r\nHost: a\r\n\r\n", 501)]
    [InlineData("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501)]
    [InlineData("POST / HTTP/1.1\r\nHost: a\r\nExpect: gold\r\n\r\n", 417)]
    public void A_refusal_has_no_body_says_close_and_reaches_a_client_that_is_still_sending_RFC9112_9_6(string request, int status) => HttpBench.Run(bench =>
    {
        HttpPeer peer = bench.Connect();
        bench.Reads = false;
        bench.Send(peer, request);
        for (int i = 0; i < 20; i++)
        {
            bench.Send(peer, new byte[10_000]);
            Assert.False(peer.Socket.ServerClosed);
        }

        bench.Reads = true;
        bench.Settle();
        HttpAnswer answer = Assert.Single(peer.Answers);
        Assert.Equal((status, "close", "0"), (answer.Status, answer.Field("Connection"), answer.Field("Content-Length")));
        Assert.False(peer.Socket.AnswersLost);
        Assert.Equal(0, bench.Simulation.Handler.Started);
        peer.Socket.ClientClose();
        bench.Settle();
        Assert.Equal(0, bench.Connections);
    });

    [Fact]
    public void A_client_that_sends_on_and_on_behind_a_refusal_is_closed_MaxDiscardBytes() => HttpBench.Run(
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            Assert.Equal(400, bench.Ask(peer, "BAD\r\n").Status);
            for (int i = 0; i < 10; i++)
            {
                bench.Send(peer, new byte[10_000]);
            }

            Assert.False(peer.Socket.ServerClosed);
            bench.Send(peer, new byte[1]);
            Assert.True(peer.Socket.ServerClosed);
            Assert.Equal(1, bench.Refused("discard-limit"));
            Assert.Equal(0, bench.Connections);
        },
        static options => options.MaxDiscardBytes = 100_000);

    [Fact]
    public void A_client_that_does_not_close_behind_a_refusal_is_closed_after_two_seconds_RFC9112_9_6() => HttpBench.Run(static bench =>
    {
        HttpPeer peer = bench.Connect();
        Assert.Equal(400, bench.Ask(peer, "BAD\r\n").Status);
        bench.Pass(TimeSpan.FromMilliseconds(1_900));
        Assert.Equal(1, bench.Connections);
        bench.Pass(TimeSpan.FromMilliseconds(400));
        Assert.Equal(0, bench.Connections);
    });

    [Fact]
    public void An_early_answer_to_a_large_upload_reaches_a_client_that_is_still_sending_RFC9112_9_6() => HttpBench.Run(
        static (request, response) =>
        {
            response.StatusCode = 401;
            return default;
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.Reads = false;
            bench.Send(peer, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n");
            for (int i = 0; i < 20; i++)
            {
                bench.Send(peer, new byte[10_000]);
            }

            bench.Reads = true;
            bench.Settle();
            HttpAnswer answer = Assert.Single(peer.Answers);
            Assert.Equal((401, true), (answer.Status, answer.Closes));
            Assert.False(peer.Socket.AnswersLost);
        },
        static options => options.MaxDiscardBytes = 1_000_000);

    [Fact]
    public void A_head_that_does_not_come_in_time_is_408_RFC9110_15_5_9() => HttpBench.Run(
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.Send(peer, "GET / HTTP/1.1\r\nHost:");
            bench.Pass(TimeSpan.FromSeconds(4));
            Assert.Empty(peer.Answers);
            bench.Pass(TimeSpan.FromSeconds(2));
            Assert.Equal((408, true), (Assert.Single(peer.Answers).Status, peer.Answers[0].Closes));
            Assert.True(peer.IsAtEnd);
            Assert.Equal(1, bench.Refused("head-timeout"));
        },
        static options => options.HeadTimeout = TimeSpan.FromSeconds(5));

    [Fact]
    public void A_client_that_never_said_anything_is_closed_without_a_word_RFC9112_9_5() => HttpBench.Run(
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.Pass(TimeSpan.FromSeconds(6));
            Assert.True(peer.IsAtEnd);
            Assert.Equal(0, peer.BytesRead);
        },
        static options => options.HeadTimeout = TimeSpan.FromSeconds(5));

    [Fact]
    public void The_time_for_a_head_counts_from_its_first_byte_on_a_kept_connection_HeadTimeout() => HttpBench.Run(
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.StillServes(peer);
            bench.Pass(TimeSpan.FromSeconds(60));
            byte[] request = "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"u8.ToArray();
            bench.Send(peer, request.AsSpan(0, 10));
            bench.Pass(TimeSpan.FromSeconds(4));
            bench.Send(peer, request.AsSpan(10));
            Assert.Equal([200, 200], peer.Answers.Select(static answer => answer.Status));
            bench.Pass(TimeSpan.FromSeconds(60));
            bench.StillServes(peer);
            bench.Send(peer, request.AsSpan(0, 10));
            bench.Pass(TimeSpan.FromSeconds(6));
            Assert.Equal(408, peer.Answers[^1].Status);
        },
        static options => options.HeadTimeout = TimeSpan.FromSeconds(5));

    [Fact]
    public void Too_many_requests_are_503_and_the_connection_ends_RFC9110_15_6_4()
    {
        var gate = new TaskCompletionSource();
        HttpBench.Run(
            async (request, response) => await gate.Task,
            bench =>
            {
                HttpPeer running = bench.Connect();
                bench.Send(running, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                HttpPeer refused = bench.Connect();
                HttpAnswer answer = bench.Ask(refused, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
                Assert.Equal((503, true), (answer.Status, answer.Closes));
                Assert.Equal(1, bench.Refused("too-many-requests"));
                gate.SetResult();
                bench.Settle();
                Assert.Equal(200, Assert.Single(running.Answers).Status);
            },
            static options =>
            {
                options.MaxConcurrentRequests = 1;
                options.RequestQueueLimit = 0;
            });
    }
}
