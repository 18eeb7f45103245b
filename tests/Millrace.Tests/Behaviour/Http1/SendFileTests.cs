// Files as response bodies, moved by the kernel. RFC 9112 §6.

using Millrace.Exchanges;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Http1;

public sealed class SendFileTests
{
    private const int File = 77;

    /// <summary>Text around a file of so many bytes, sent as a handler would, length known or not.</summary>
    private static void Sends(int size, bool withLength, Action<HttpBench, HttpPeer> check, string version = "HTTP/1.1", string method = "GET", bool shrinks = false)
    {
        HttpBench? current = null;
        HttpBench.Run(
            async (request, response) =>
            {
                Exchange exchange = current!.Simulation.Handler.Current!;
                response.ContentLength = withLength ? size + 14 : null;
                await response.WriteAsync("before "u8.ToArray());
                await exchange.SendSimulatedFileAsync(File, size);
                await response.WriteAsync(" behind"u8.ToArray());
            },
            bench =>
            {
                current = bench;
                bench.Simulation.World.Files[File] = Plan.Bytes("file", 0, shrinks ? size / 2 : size);
                HttpPeer peer = bench.Connect();
                peer.Expect(method, is10: version == "HTTP/1.0");
                bench.Send(peer, $"{method} /file {version}\r\nHost: a\r\n\r\n");
                check(bench, peer);
            });
    }

    private static byte[] Expected(int size) => [.. "before "u8, .. Plan.Bytes("file", 0, size), .. " behind"u8];

    [Theory]
    [InlineData(16 * 1024, true)]
    [InlineData(16 * 1024, false)]
    [InlineData(1_000_000, true)]
    [InlineData(1_000_000, false)]
    public void A_file_arrives_whole_between_what_was_written_around_it_RFC9112_6(int size, bool withLength) => Sends(size, withLength, (_, peer) =>
    {
        HttpAnswer answer = Assert.Single(peer.Answers);
        Assert.Equal(Expected(size), answer.Body);
        Assert.Equal(withLength ? null : "chunked", answer.Field("Transfer-Encoding"));
        Assert.False(peer.IsAtEnd);
    });

    [Fact]
    public void A_file_for_HTTP_1_0_ends_with_the_connection_RFC9112_6_3() => Sends(
        100_000,
        withLength: false,
        static (_, peer) =>
        {
            Assert.Equal(Expected(100_000), Assert.Single(peer.Answers).Body);
            Assert.True(peer.IsAtEnd);
        },
        "HTTP/1.0");

    // A chunk of the file that has begun is sent to its end first: there is no place for other bytes.
    [Fact]
    public void What_is_written_while_a_file_is_being_sent_follows_it_RFC9112_7_1()
    {
        const int Size = 1_000_000;
        HttpBench? current = null;
        HttpBench.Run(
            async (request, response) =>
            {
                Task sending = current!.Simulation.Handler.Current!.SendSimulatedFileAsync(File, Size);
                Assert.False(sending.IsCompleted);
                response.Write("between"u8);
                await sending;
                await response.WriteAsync(" behind"u8.ToArray());
            },
            bench =>
            {
                current = bench;
                bench.Simulation.World.Files[File] = Plan.Bytes("file", 0, Size);
                HttpPeer peer = bench.Connect();
                bench.Reads = false;
                bench.Send(peer, "GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
                bench.Reads = true;
                bench.Settle();
                Assert.Equal([.. Plan.Bytes("file", 0, Size), .. "between behind"u8], Assert.Single(peer.Answers).Body);
            });
    }

    // As behind any other handler that fails: what was sent arrives, and a moment later the break.
    [Theory]
    [InlineData(true, "HTTP/1.1")]
    [InlineData(false, "HTTP/1.1")]
    [InlineData(false, "HTTP/1.0")]
    public void A_file_that_becomes_shorter_cuts_the_answer_behind_its_last_byte_RFC9112_8(bool withLength, string version) => Sends(
        100_000,
        withLength,
        (bench, peer) =>
        {
            Assert.False(peer.IsAtEnd);
            bench.Pass(TimeSpan.FromMilliseconds(200));
            Assert.Empty(peer.Answers);
            Assert.True(peer.IsAtEnd);
            Assert.Equal([.. "before "u8, .. Plan.Bytes("file", 0, 50_000)], peer.Begun!.Body);
            Assert.Equal(version == "HTTP/1.0", peer.Socket.WasReset);
        },
        version,
        shrinks: true);

    [Fact]
    public void A_file_that_a_handler_leaves_half_sent_to_the_end_of_the_connection_ends_with_a_reset_RFC9112_8()
    {
        const int Size = 1_000_000;
        HttpBench? current = null;
        var left = new TaskCompletionSource();
        Task sending = Task.CompletedTask;
        HttpBench.Run(
            async (request, response) =>
            {
                sending = current!.Simulation.Handler.Current!.SendSimulatedFileAsync(File, Size);
                await left.Task;
            },
            bench =>
            {
                current = bench;
                bench.Simulation.World.Files[File] = Plan.Bytes("file", 0, Size);
                HttpPeer peer = bench.Connect();
                peer.Expect("GET", is10: true);
                bench.Reads = false;
                bench.Send(peer, "GET /file HTTP/1.0\r\nHost: a\r\n\r\n");
                Assert.False(sending.IsCompleted);
                left.SetResult();
                bench.Settle();
                bench.Reads = true;
                bench.Settle();
                bench.Pass(TimeSpan.FromMilliseconds(400));
                Assert.Empty(peer.Answers);
                Assert.True(peer.IsAtEnd);
                Assert.True(peer.Socket.WasReset);
            });
    }
}
