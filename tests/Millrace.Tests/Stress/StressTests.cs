// Hundreds of thousands of requests that sleep, compute, await, throw, stream, upload and are given up, over real sockets:
// none is lost, none is answered twice, and no byte of one ends up in the answer of another.

using System.Net.Sockets;
using Millrace.Loops;

namespace Millrace.Tests.Stress;

[Collection(AloneCollection.Name)]
public sealed class StressTests : IDisposable
{
    private const int Clients = 32;

    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Theory]
    [InlineData(DispatchMode.Adaptive, true, 70_000)]
    [InlineData(DispatchMode.Adaptive, false, 30_000)]
    [InlineData(DispatchMode.Inline, true, 50_000)]
    [InlineData(DispatchMode.Inline, false, 20_000)]
    [InlineData(DispatchMode.Workers, true, 30_000)]
    public async Task Every_request_is_answered_once_and_with_its_own_bytes(DispatchMode dispatch, bool unix, int requests)
    {
        int threadsBefore = ProcessState.Threads("Millrace");
        int descriptorsBefore;
        var handler = new StressHandler(requests);
        var mayBeLost = new bool[requests];
        string address = unix ? _folder.NewAddress() : "fastcgi://127.0.0.1:0";
        using (new Socket(SocketType.Stream, ProtocolType.Tcp))    // the runtime opens descriptors of its own with the first
        {
            descriptorsBefore = ProcessState.Descriptors() - 1;
        }

        await using MillraceServer server = await MillraceServer.StartAsync(address, handler.Handle, new MillraceOptions { Loops = 2, Dispatch = dispatch });
        (int answered, int givenUp) = Load(server.Addresses[0], requests, mayBeLost);

        Assert.Equal(requests, answered + givenUp);
        for (int id = 0; id < requests; id++)
        {
            Assert.True(handler.Runs[id] == 1 || (mayBeLost[id] && handler.Runs[id] == 0), $"request {id} was run {handler.Runs[id]} times");
        }

        IReadOnlyList<EventLoop> loops = server.Engine.Loops;
        // One that its client has closed may still be in the queue, and is accepted when the others have gone.
        bool AllHaveEnded() => server.Engine.Services.Connections == 0 && loops.Sum(static l => l.Counters.Accepted) == loops.Sum(static l => l.Counters.Closed);
        Assert.True(ProcessState.Becomes(AllHaveEnded), $"{server.Engine.Services.Connections} connections are left, {loops.Sum(static l => l.Counters.Accepted)} were accepted and {loops.Sum(static l => l.Counters.Closed)} closed");
        Assert.All(loops, static loop => Assert.Equal(0, loop.ConnectionCount));
        Assert.True(ProcessState.Becomes(() => handler.LeaksRunning == 0));
        Assert.True(handler.AbortsSeen > 0, "no handler was told that its request was given up");
        Assert.Equal(0, handler.AbortsMissed);
        Assert.True(handler.LeaksRefused > 0, "no write after the end was refused");
        Assert.Equal(dispatch == DispatchMode.Workers, loops.Sum(static l => l.Counters.HandOvers) == 0);

        await server.DisposeAsync();
        Assert.True(ProcessState.Becomes(() => ProcessState.Threads("Millrace") <= threadsBefore), $"{ProcessState.Threads("Millrace")} threads, {threadsBefore} before");
        Assert.True(ProcessState.Becomes(() => ProcessState.Descriptors() <= descriptorsBefore), $"{ProcessState.Descriptors()} descriptors, {descriptorsBefore} before");
    }

    private static (int Answered, int GivenUp) Load(string address, int requests, bool[] mayBeLost)
    {
        int next = -1;
        bool stop = false;
        int NextId()
        {
            int id = Interlocked.Increment(ref next);
            return Volatile.Read(ref stop) || id >= requests ? -1 : id;
        }

        StressClient[] clients = [.. Enumerable.Range(0, Clients).Select(i => new StressClient(address, seed: 1_000 + i, NextId, mayBeLost))];
        ClientThreads.Start(Clients, i =>
        {
            try
            {
                clients[i].Run();
            }
            catch
            {
                Volatile.Write(ref stop, true);
                throw;
            }
        }).Join();
        return (clients.Sum(static c => c.Answered), clients.Sum(static c => c.GivenUp));
    }
}
