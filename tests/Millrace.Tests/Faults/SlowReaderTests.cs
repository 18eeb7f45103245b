// Readers that take their time, over the kernel's own sockets: it buffers megabytes, and tells of room in them only when a third
// (TCP) or three quarters (Unix) are free. Everything else about slow peers is tested over the simulated kernel.

using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Millrace.Handlers;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Faults;

public sealed class SlowReaderTests : IDisposable
{
    private const int PieceSize = 4 * 1024;
    private static readonly TimeSpan s_every = TimeSpan.FromMilliseconds(100);
    private static readonly TimeSpan s_sendTimeout = TimeSpan.FromSeconds(3);
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(9);

    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    private static async ValueTask Endless(Request request, Response response)
    {
        byte[] part = new byte[64 * 1024];
        while (!request.Aborted.IsCancellationRequested)
        {
            await response.WriteAsync(part);
        }
    }

    private static Socket Connect(string address)
    {
        string rest = address[(address.IndexOf("://", StringComparison.Ordinal) + 3)..];
        if (rest.StartsWith("unix:", StringComparison.Ordinal))
        {
            var unix = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
            unix.Connect(new UnixDomainSocketEndPoint(rest["unix:".Length..]));
            return unix;
        }

        var tcp = new Socket(SocketType.Stream, ProtocolType.Tcp) { ReceiveBufferSize = 8 * 1024 };
        tcp.Connect(IPEndPoint.Parse(rest));
        return tcp;
    }

    /// <summary>Milliseconds until the connection ends, or all there are, and the longest pause between two of its readings: a thread of its own, so that none is the pool's.</summary>
    private static Task<(double Ms, double LongestPauseMs)> Read(string address, bool readsOn) =>
        Task.Factory.StartNew(() => ReadHere(address, readsOn), CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);

    private static (double Ms, double LongestPauseMs) ReadHere(string address, bool readsOn)
    {
        using Socket socket = Connect(address);
        byte[] request = address.StartsWith("http", StringComparison.Ordinal)
            ? Encoding.ASCII.GetBytes("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            : new FastCgiRequest("/").ToBytes();
        _ = socket.Send(request);
        byte[] piece = new byte[PieceSize];
        var time = Stopwatch.StartNew();
        TimeSpan longest = TimeSpan.Zero, last = TimeSpan.Zero;
        bool hasEnded = false;
        try
        {
            for (int pieces = 0; !hasEnded && time.Elapsed < s_patience;)
            {
                Thread.Sleep(s_every);
                for (; readsOn && !hasEnded && pieces < time.Elapsed / s_every; pieces++)       // as many as are due: a thread that got no processor is no slower
                {
                    hasEnded = socket.Receive(piece) == 0;
                }

                TimeSpan now = time.Elapsed;
                longest = now - last > longest ? now - last : longest;
                last = now;
            }

            if (!readsOn)
            {
                while (socket.Receive(piece) > 0)
                {
                }
            }
        }
        catch (SocketException)
        {
        }

        return (time.Elapsed.TotalMilliseconds, longest.TotalMilliseconds);
    }

    [Fact]
    public async Task A_peer_that_reads_all_the_time_is_not_cut_and_one_that_does_not_read_is_SendTimeout()
    {
        string[] addresses = ["http://127.0.0.1:0", _folder.NewAddress("http"), _folder.NewAddress(), "fastcgi://127.0.0.1:0"];
        await Task.WhenAll(addresses.Select(static async address =>
        {
            await using MillraceServer server = await MillraceServer.StartAsync(address, Endless, new MillraceOptions { Loops = 1, SendTimeout = s_sendTimeout });
            Task<(double Ms, double LongestPauseMs)> reader = Read(server.Addresses[0], readsOn: true), silent = Read(server.Addresses[0], readsOn: false);
            (double ms, double longestPauseMs) = await reader;
            Assert.True(ms >= s_patience.TotalMilliseconds, $"{address}: cut after {ms} ms, the longest pause of the reader was {longestPauseMs} ms");
            _ = await silent.WaitAsync(TimeSpan.FromSeconds(30));      // it ends, with what was on its way
        }));
    }
}
