// Handlers that have not ended when the server has stopped: the process goes on, and when they end all that was kept open for
// them is closed: connections, event queues, threads.

namespace Millrace.Tests.Stress;

[Collection(AloneCollection.Name)]
public sealed class OutlivingHandlerTests : IDisposable
{
    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Theory]
    [InlineData(DispatchMode.Adaptive)]
    [InlineData(DispatchMode.Workers)]
    public async Task Asynchronous_handlers_that_outlive_the_server_leave_nothing_open_when_they_end(DispatchMode dispatch)
    {
        const int Handlers = 10;
        int before = ProcessState.Descriptors(), threads = ProcessState.Threads("Millrace");
        for (int round = 0; round < 2; round++)
        {
            var gate = new TaskCompletionSource();
            using var entered = new SemaphoreSlim(0);
            MillraceServer server = await MillraceServer.StartAsync(
                _folder.NewAddress(),
                async (_, response) =>
                {
                    entered.Release();
                    await gate.Task;
                    response.WriteText("too late");
                },
                new MillraceOptions { Loops = 2, Dispatch = dispatch, DrainTimeout = TimeSpan.Zero });
            FastCgiPeer[] peers = [.. Enumerable.Range(0, Handlers).Select(_ => FastCgiPeer.Connect(server.Addresses[0]))];
            foreach (FastCgiPeer peer in peers)
            {
                peer.Send(new FastCgiRequest("/").ToBytes());
                Assert.True(await entered.WaitAsync(10_000));
            }

            await server.StopAsync().WaitAsync(TimeSpan.FromSeconds(20));
            Assert.Equal(Handlers, server.Engine.Services.Connections);
            gate.SetResult();
            await server.Engine.Services.Over.WaitAsync(TimeSpan.FromSeconds(10));
            Assert.Equal(0, server.Engine.Services.Connections);
            Array.ForEach(peers, static peer => peer.Dispose());
            await server.DisposeAsync();
        }

        Assert.True(ProcessState.Becomes(() => ProcessState.Descriptors() <= before), $"{ProcessState.Descriptors()} descriptors, {before} before");
        Assert.True(ProcessState.Becomes(() => ProcessState.Threads("Millrace") <= threads), $"{ProcessState.Threads("Millrace")} threads, {threads} before");
    }

    [Fact]
    public async Task Handlers_that_block_every_thread_of_a_stopped_server_may_end_later()
    {
        int before = ProcessState.Descriptors(), threads = ProcessState.Threads("Millrace");
        using var gate = new ManualResetEventSlim();
        using var entered = new SemaphoreSlim(0);
        MillraceServer server = await MillraceServer.StartAsync(
            _folder.NewAddress(),
            (_, response) =>
            {
                entered.Release();
                gate.Wait();
                response.WriteText("too late");
            },
            new MillraceOptions { Loops = 1, DriversMax = 2, Dispatch = DispatchMode.Inline, DrainTimeout = TimeSpan.Zero });
        string address = server.Addresses[0];
        FastCgiPeer[] peers = [.. Enumerable.Range(0, 3).Select(_ => FastCgiPeer.Connect(address))];
        foreach (FastCgiPeer peer in peers[..2])
        {
            peer.Send(new FastCgiRequest("/").ToBytes());
            Assert.True(await entered.WaitAsync(10_000));
        }

        peers[2].Send(new FastCgiRequest("/").ToBytes());    // nobody is left to read it
        await server.StopAsync().WaitAsync(TimeSpan.FromSeconds(20));
        Assert.False(server.Engine.Services.Over.IsCompleted);
        gate.Set();
        await server.Engine.Services.Over.WaitAsync(TimeSpan.FromSeconds(10));
        Array.ForEach(peers, static peer => peer.Dispose());
        await server.DisposeAsync();
        Assert.True(ProcessState.Becomes(() => ProcessState.Descriptors() <= before), $"{ProcessState.Descriptors()} descriptors, {before} before");
        Assert.True(ProcessState.Becomes(() => ProcessState.Threads("Millrace") <= threads), $"{ProcessState.Threads("Millrace")} threads, {threads} before");
    }

    [Fact]
    public async Task A_server_in_the_place_of_one_with_such_handlers_has_its_address_and_its_connections_for_itself()
    {
        using var gate = new ManualResetEventSlim();
        using var entered = new SemaphoreSlim(0);
        string address = _folder.NewAddress();
        MillraceServer old = await MillraceServer.StartAsync(
            address,
            (_, response) =>
            {
                entered.Release();
                gate.Wait();
                response.WriteText("old");
            },
            new MillraceOptions { Loops = 1, DriversMax = 2, Dispatch = DispatchMode.Inline, DrainTimeout = TimeSpan.Zero });
        FastCgiPeer[] peers = [FastCgiPeer.Connect(address), FastCgiPeer.Connect(address)];
        foreach (FastCgiPeer peer in peers)
        {
            peer.Send(new FastCgiRequest("/").ToBytes());
            Assert.True(await entered.WaitAsync(10_000));
        }

        await old.StopAsync().WaitAsync(TimeSpan.FromSeconds(20));
        await using MillraceServer next = await MillraceServer.StartAsync(address, static (_, response) => response.WriteText("next"));
        gate.Set();     // whatever of the old one goes on now finds numbers that may be the new one's
        for (int i = 0; i < 200; i++)
        {
            using FastCgiPeer peer = FastCgiPeer.Connect(address);
            Assert.Equal("next", peer.Exchange(new FastCgiRequest("/")).Text);
        }

        await old.Engine.Services.Over.WaitAsync(TimeSpan.FromSeconds(10));
        Array.ForEach(peers, static peer => peer.Dispose());
        await old.DisposeAsync();
    }
}
