// An application that blocks every thread of the thread pool. The server has threads of its own: who needs no pool thread is served.

using System.Diagnostics;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Faults;

[Collection(AloneCollection.Name)]
public sealed class StarvedPoolTests : IDisposable
{
    private const int Stuck = 40;
    private const int PatienceMs = 3_000;

    private readonly SocketFolder _folder = new();
    private readonly ManualResetEventSlim _release = new();

    public void Dispose()
    {
        _release.Set();
        _folder.Dispose();
        _release.Dispose();
    }

    private ValueTask Handle(Request request, Response response)
    {
        if (request.Path == "/stuck")
        {
            // Waits for work that the starved pool never gets to.
#pragma warning disable xUnit1031 // That is the fault under test.
            Task.Run(static () => { }).Wait();
#pragma warning restore xUnit1031
        }

        response.WriteText(request.Path);
        return default;
    }

    [Fact]
    public async Task Requests_are_answered_while_the_application_starves_the_thread_pool()
    {
        await using MillraceServer server = await MillraceServer.StartAsync(_folder.NewAddress(), Handle, new MillraceOptions { Loops = 2, DriversMax = 100 });
        string address = server.Addresses[0];
        var stuckPeers = new List<FastCgiPeer>();
        Exception? failure = null;
        var client = new Thread(() =>
        {
            try
            {
                Serve(address, stuckPeers);
            }
            catch (Exception error)
            {
                failure = error;
            }
        });

        // More than the pool has threads, and far more than it adds in these seconds.
        ThreadPool.GetMinThreads(out int threads, out _);
        for (int i = 0; i < threads + 200; i++)
        {
            ThreadPool.UnsafeQueueUserWorkItem(static state => ((ManualResetEventSlim)state!).Wait(), _release);
        }

        client.Start();
        client.Join();
        _release.Set();
        Assert.True(failure is null, failure?.ToString());
        foreach (FastCgiPeer peer in stuckPeers)
        {
            Assert.Equal("/stuck", peer.Receive().Text);
            peer.Dispose();
        }
    }

    private static void Serve(string address, List<FastCgiPeer> stuckPeers)
    {
        for (int i = 0; i < Stuck; i++)
        {
            FastCgiPeer peer = FastCgiPeer.Connect(address);
            peer.Send(new FastCgiRequest("/stuck").ToBytes());
            stuckPeers.Add(peer);
        }

        using FastCgiPeer other = FastCgiPeer.Connect(address);
        var watch = new Stopwatch();
        for (int i = 0; i < 500; i++)
        {
            watch.Restart();
            Assert.Equal("/well", other.Exchange(new FastCgiRequest("/well")).Text);
            Assert.True(watch.ElapsedMilliseconds < PatienceMs, $"request {i} took {watch.ElapsedMilliseconds} ms");
        }
    }
}
