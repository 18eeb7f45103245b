// Handlers that block every thread there may be, and wait for what only their loops can bring them.

using Millrace.Tests.Stress;

namespace Millrace.Tests.Faults;

public sealed class BlockedThreadsTests : IDisposable
{
    private const int Uploads = 12;

    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Theory]
    [InlineData(1, 2, DispatchMode.Adaptive)]
    [InlineData(1, 2, DispatchMode.Inline)]
    [InlineData(1, 2, DispatchMode.Workers)]
    [InlineData(2, 3, DispatchMode.Adaptive)]
    [InlineData(2, 3, DispatchMode.Inline)]
    [InlineData(2, 8, DispatchMode.Adaptive)]
    public async Task Bodies_that_every_thread_waits_for_arrive(int loops, int drivers, DispatchMode dispatch)
    {
        using var entered = new SemaphoreSlim(0);
        await using MillraceServer server = await Start(entered, loops, drivers, dispatch);
        FastCgiPeer[] peers = BeginUploads(server, entered);
        foreach (FastCgiPeer peer in peers)
        {
            peer.Send(s_request.AsSpan(^1..));
        }

        foreach (FastCgiPeer peer in peers)
        {
            Assert.Equal("1000", peer.Receive().Text);
            Assert.Equal("0", peer.Exchange(new FastCgiRequest("/")).Text);
            peer.Dispose();
        }
    }

    [Theory]
    [InlineData(1, 2, DispatchMode.Adaptive)]
    [InlineData(2, 3, DispatchMode.Inline)]
    public async Task Peers_that_every_thread_waits_for_may_go(int loops, int drivers, DispatchMode dispatch)
    {
        using var entered = new SemaphoreSlim(0);
        await using MillraceServer server = await Start(entered, loops, drivers, dispatch);
        FastCgiPeer[] peers = BeginUploads(server, entered);
        Array.ForEach(peers, static peer => peer.Dispose());
        using FastCgiPeer other = FastCgiPeer.Connect(server.Addresses[0]);
        Assert.Equal("0", other.Exchange(new FastCgiRequest("/")).Text);
    }

    private static readonly byte[] s_request = new FastCgiRequest("/", "POST") { Body = new byte[1_000] }.ToBytes();

    private Task<MillraceServer> Start(SemaphoreSlim entered, int loops, int drivers, DispatchMode dispatch) => MillraceServer.StartAsync(
        _folder.NewAddress(),
        (request, response) =>
        {
            entered.Release();
            int length = 0;
            byte[] buffer = new byte[100];
#pragma warning disable xUnit1031, CA2012 // That is the fault under test.
            for (int read; (read = request.Body.ReadAsync(buffer).AsTask().GetAwaiter().GetResult()) > 0;)
            {
                length += read;
            }
#pragma warning restore xUnit1031, CA2012

            response.WriteText($"{length}");
        },
        new MillraceOptions { Loops = loops, DriversMax = drivers, Dispatch = dispatch });

    // All but the last byte: of the end of STDIN. Each of them has a thread, or waits for one.
    private static FastCgiPeer[] BeginUploads(MillraceServer server, SemaphoreSlim entered)
    {
        FastCgiPeer[] peers = [.. Enumerable.Range(0, Uploads).Select(_ => FastCgiPeer.Connect(server.Addresses[0]))];
        foreach (FastCgiPeer peer in peers)
        {
            peer.Send(s_request.AsSpan(..^1));
        }

        Assert.True(
            ProcessState.Becomes(() => entered.CurrentCount + server.Engine.Services.Standby.Waiting == Uploads),
            $"{entered.CurrentCount} uploads have a thread, and {server.Engine.Services.Standby.Waiting} wait for one");
        return peers;
    }
}
