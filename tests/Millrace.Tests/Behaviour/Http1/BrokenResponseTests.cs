// Responses that fail after their first byte over HTTP/1.1: every byte that was sent arrives, and nothing of what follows can be
// taken for the end of the response. RFC 9112 §8, §9.6. What web servers make of it is in Millrace.Interop.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Http1;

public sealed class BrokenResponseTests
{
    private const string Unix = "http://unix:/run/simulated.sock";

    private static readonly TimeSpan s_pause = TimeSpan.FromMilliseconds(200);

    /// <summary>Sends so many bytes, and then fails; its path says how it does.</summary>
    private static async ValueTask Fail(Request request, Response response, int size)
    {
        if (request.Path == "/whole")
        {
            response.WriteText("whole");
            return;
        }

        response.ContentLength = request.Path.Contains("length", StringComparison.Ordinal) ? size + 100 : null;
        await response.WriteAsync(Plan.Bytes("part", 0, size));
        await response.FlushAsync();
        if (request.Path.EndsWith("-abort", StringComparison.Ordinal))
        {
            response.Abort();
            return;
        }

        throw new InvalidOperationException();
    }

    private static void Run(int size, Action<HttpBench, HttpPeer> test, string? address = null, Action<MillraceOptions>? options = null) =>
        HttpBench.Run((request, response) => Fail(request, response, size), bench => test(bench, bench.Connect()), options, address);

    private static string Get(string path, string version = "HTTP/1.1") => $"GET {path} {version}\r\nHost: a\r\n\r\n";

    private static void AssertBroken(HttpPeer peer, int size, bool wasReset)
    {
        Assert.Empty(peer.Answers);
        Assert.True(peer.IsAtEnd);
        Assert.Equal(wasReset, peer.Socket.WasReset);
        Assert.Equal(Plan.Bytes("part", 0, size), peer.Begun!.Body);
    }

    [Theory]
    [InlineData(0, null)]
    [InlineData(1_000, null)]
    [InlineData(100_000, null)]
    [InlineData(0, Unix)]
    [InlineData(100_000, Unix)]
    public void A_chunked_response_that_fails_ends_within_a_chunk_when_its_client_has_the_rest_RFC9112_8(int size, string? address) => Run(
        size,
        (bench, peer) =>
        {
            bench.Send(peer, Get("/"));
            Assert.False(peer.IsAtEnd);
            Assert.Equal(size, peer.Begun!.Chunks.Sum());
            bench.Pass(s_pause);
            AssertBroken(peer, size, wasReset: false);
            Assert.Equal((1, size + 1), (peer.Begun.Chunks[^1], peer.Begun.Chunks.Sum()));
        },
        address);

    [Theory]
    [InlineData(1_000, null)]
    [InlineData(100_000, null)]
    [InlineData(100_000, Unix)]
    public void A_response_of_announced_length_that_fails_ends_without_a_reset_when_its_client_has_the_rest_RFC9112_8(int size, string? address) => Run(
        size,
        (bench, peer) =>
        {
            bench.Send(peer, Get("/length"));
            Assert.False(peer.IsAtEnd);
            bench.Pass(s_pause);
            AssertBroken(peer, size, wasReset: false);
        },
        address);

    [Theory]
    [InlineData(0)]
    [InlineData(1_000)]
    [InlineData(100_000)]
    public void A_response_that_would_end_with_its_connection_ends_with_a_reset_behind_its_last_byte_RFC9112_8(int size) => Run(size, (bench, peer) =>
    {
        peer.Expect("GET", is10: true);
        bench.Send(peer, Get("/", "HTTP/1.0"));
        Assert.False(peer.IsAtEnd);
        bench.Pass(s_pause);
        AssertBroken(peer, size, wasReset: true);
    });

    [Theory]
    [InlineData("/", "HTTP/1.1")]
    [InlineData("/length", "HTTP/1.1")]
    [InlineData("/", "HTTP/1.0")]
    public void A_client_that_reads_slowly_gets_all_of_what_was_sent_before_the_break_RFC9112_8(string path, string version) => Run(
        1_000_000,
        (bench, peer) =>
        {
            peer.Expect("GET", is10: version == "HTTP/1.0");
            bench.Reads = false;
            bench.Send(peer, Get(path, version));
            for (int i = 0; i < 100 && !peer.IsAtEnd; i++)
            {
                _ = peer.Read(20_000);
                bench.Pass(TimeSpan.FromSeconds(5));
            }

            AssertBroken(peer, 1_000_000, wasReset: version == "HTTP/1.0");
            bench.Reads = true;
        },
        options: static options => options.SendTimeout = TimeSpan.FromSeconds(40));

    [Fact]
    public void A_client_that_does_not_take_what_was_sent_is_reset_SendTimeout() => Run(
        200_000,
        static (bench, peer) =>
        {
            bench.Reads = false;
            bench.Send(peer, Get("/"));
            bench.Pass(TimeSpan.FromSeconds(9));
            Assert.Equal((1, 0), (bench.Connections, bench.Refused("send-timeout")));
            bench.Pass(TimeSpan.FromSeconds(2));
            Assert.Equal((0, 1), (bench.Connections, bench.Refused("send-timeout")));
            Assert.True(peer.Socket.WasReset);
            bench.Reads = true;
        },
        options: static options => options.SendTimeout = TimeSpan.FromSeconds(10));

    [Theory]
    [InlineData("/", "HTTP/1.1")]
    [InlineData("/length", "HTTP/1.1")]
    [InlineData("/", "HTTP/1.0")]
    public void A_client_that_has_finished_sending_is_told_all_the_same_RFC9112_9_6(string path, string version) => Run(1_000, (bench, peer) =>
    {
        peer.Expect("GET", is10: version == "HTTP/1.0");
        peer.Socket.ClientFinish();
        bench.Send(peer, Get(path, version));
        bench.Pass(s_pause);
        AssertBroken(peer, 1_000, wasReset: version == "HTTP/1.0");
    });

    [Theory]
    [InlineData("/")]
    [InlineData("/length")]
    public void Pipelined_answers_before_it_arrive_and_requests_behind_it_are_not_run_RFC9112_9_3_2(string path) => Run(1_000, (bench, peer) =>
    {
        bench.Send(peer, Get("/whole") + Get("/whole") + Get(path) + Get("/whole"));
        bench.Pass(s_pause);
        Assert.Equal(["whole", "whole"], peer.Answers.Select(static answer => answer.BodyText));
        Assert.Equal(Plan.Bytes("part", 0, 1_000), peer.Begun!.Body);
        bench.Pass(TimeSpan.FromSeconds(3));
        Assert.True(peer.IsAtEnd);
        Assert.False(peer.Socket.WasReset);
        Assert.Equal(3, bench.Simulation.Handler.Started);
    });

    // A web server has put the connection back among its idle ones: the request that comes next on it may be anybody's.
    [Theory]
    [InlineData("HEAD", 200, -1, null)]
    [InlineData("HEAD", 200, 1_000, null)]
    [InlineData("HEAD", 200, 1_000, Unix)]
    [InlineData("GET", 200, 0, null)]
    [InlineData("GET", 200, 1_000, null)]
    [InlineData("GET", 200, 100_000, Unix)]
    [InlineData("GET", 204, -1, null)]
    [InlineData("GET", 205, -1, null)]
    [InlineData("GET", 304, -1, null)]
    public void A_response_that_is_whole_leaves_its_connection_to_the_next_request_although_its_handler_fails_RFC9112_9_3(
        string method, int status, int length, string? address) => HttpBench.Run(
        async (request, response) =>
        {
            if (request.Path == "/next")
            {
                response.WriteText("next");
                return;
            }

            response.StatusCode = status;
            response.ContentLength = length < 0 ? null : length;
            await response.WriteAsync(Plan.Bytes("part", 0, Math.Max(0, length)));
            await response.FlushAsync();
            throw new InvalidOperationException();
        },
        bench =>
        {
            HttpPeer peer = bench.Connect();
            peer.Expect(method);
            peer.Expect("GET");
            bench.Send(peer, $"{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
            Assert.Equal(status, peer.Answers[0].Status);
            bench.Pass(s_pause);
            bench.Send(peer, Get("/next"));
            Assert.Equal("next", peer.Answers[1].BodyText);
            Assert.False(peer.IsAtEnd);
        },
        address: address);

    [Theory]
    [InlineData("/-abort", "HTTP/1.1")]
    [InlineData("/length-abort", "HTTP/1.1")]
    [InlineData("/-abort", "HTTP/1.0")]
    public void An_application_that_aborts_resets_the_connection_at_once_RFC9112_8(string path, string version) => Run(1_000, (bench, peer) =>
    {
        peer.Expect("GET", is10: version == "HTTP/1.0");
        bench.Send(peer, Get(path, version));
        Assert.Empty(peer.Answers);
        Assert.True(peer.IsAtEnd);
        Assert.True(peer.Socket.WasReset);
        Assert.Equal(0, bench.Connections);
    });

    // There is no reset: what was sent of it ends within a chunk.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void To_a_Unix_socket_a_chunked_response_that_is_cut_at_once_ends_within_a_chunk_RFC9112_8(bool inDrain)
    {
        var gate = new TaskCompletionSource();
        HttpBench.Run(
            async (request, response) =>
            {
                await response.WriteAsync("part"u8.ToArray());
                await response.FlushAsync();
                await gate.Task;
                response.Abort();
            },
            bench =>
            {
                HttpPeer peer = bench.Connect();
                bench.Send(peer, Get("/"));
                if (inDrain)
                {
                    bench.Drain();
                    bench.Cut();
                }

                gate.SetResult();
                bench.Settle();
                Assert.Empty(peer.Answers);
                Assert.True(peer.IsAtEnd);
                Assert.Equal(("part", 1), (peer.Begun!.BodyText, peer.Begun.Chunks[^1]));
            },
            address: Unix);
    }
}
