// A handler that blocks its event loop does not hold up anybody else: the loop is handed to another thread.

using System.Diagnostics;

namespace Millrace.Tests.Stress;

[Collection(AloneCollection.Name)]
public sealed class HandOverTests(ITestOutputHelper output) : IDisposable
{
    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Fact]
    public async Task A_loop_goes_on_while_a_handler_waits_for_another_request_of_the_same_loop()
    {
        using var released = new SemaphoreSlim(0);
        await using MillraceServer server = await MillraceServer.StartAsync(_folder.NewAddress(), (request, response) =>
        {
            if (request.Path == "/wait")
            {
                Assert.True(released.Wait(10_000), "the loop was not handed over: the request that ends the waiting was never run");
            }
            else if (request.Path == "/release")
            {
                released.Release();
            }

            response.WriteText(request.Path);
        }, new MillraceOptions { Loops = 1, Dispatch = DispatchMode.Inline });

        using FastCgiPeer blocked = FastCgiPeer.Connect(server.Addresses[0]);
        using FastCgiPeer other = FastCgiPeer.Connect(server.Addresses[0]);
        for (int i = 0; i < 50; i++)
        {
            blocked.Send(new FastCgiRequest("/wait").ToBytes());
            Assert.Equal("/release", other.Exchange(new FastCgiRequest("/release")).Text);
            FastCgiResponse response = blocked.Receive();
            Assert.True(response.IsWhole, response.ToString());
            Assert.Equal("/wait", response.Text);
        }

        Assert.True(server.Engine.Loops[0].Counters.HandOvers > 0);
        Assert.Equal(100, server.Engine.Loops[0].Counters.Requests);
    }

    [Theory]
    [InlineData(DispatchMode.Adaptive)]
    [InlineData(DispatchMode.Inline)]
    [InlineData(DispatchMode.Workers)]
    public async Task Others_on_the_loop_are_answered_within_10_ms_while_a_handler_sleeps_20_ms(DispatchMode dispatch)
    {
        await using MillraceServer server = await MillraceServer.StartAsync(_folder.NewAddress(), static (request, response) =>
        {
            if (request.Path == "/sleep")
            {
                Thread.Sleep(20);
            }

            response.WriteText(request.Path);
        }, new MillraceOptions { Loops = 1, Dispatch = dispatch });

        using FastCgiPeer sleeper = FastCgiPeer.Connect(server.Addresses[0]);
        using FastCgiPeer other = FastCgiPeer.Connect(server.Addresses[0]);
        var times = new List<double>();
        for (int i = 0; i < 60; i++)
        {
            sleeper.Send(new FastCgiRequest("/sleep").ToBytes());
            Thread.Sleep(1);
            long start = Stopwatch.GetTimestamp();
            Assert.Equal("/hello", other.Exchange(new FastCgiRequest("/hello")).Text);
            times.Add(Stopwatch.GetElapsedTime(start).TotalMilliseconds);
            Assert.Equal("/sleep", sleeper.Receive().Text);
        }

        times.Sort();
        output.WriteLine($"{dispatch}: median {times[times.Count / 2]:F2} ms, longest {times[^1]:F2} ms, hand-overs {server.Engine.Loops[0].Counters.HandOvers}");
        Assert.InRange(times[times.Count / 2], 0, 10);
        Assert.Equal(dispatch != DispatchMode.Workers, server.Engine.Loops[0].Counters.HandOvers > 0);
    }

    [Fact]
    public async Task Thirty_two_handlers_that_block_100_ms_run_side_by_side_and_others_are_answered_meanwhile()
    {
        await using MillraceServer server = await MillraceServer.StartAsync(_folder.NewAddress(), static (request, response) =>
        {
            if (request.Path == "/block")
            {
                Thread.Sleep(100);
            }

            response.WriteText(request.Path);
        });

        long begin = Stopwatch.GetTimestamp();
        var blockers = ClientThreads.Start(32, _ =>
        {
            using FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]);
            for (int i = 0; i < 10; i++)
            {
                Assert.Equal("/block", peer.Exchange(new FastCgiRequest("/block")).Text);
            }
        });
        var times = new List<double>();
        using (FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]))
        {
            while (blockers.AreRunning)
            {
                long start = Stopwatch.GetTimestamp();
                Assert.Equal("/hello", peer.Exchange(new FastCgiRequest("/hello")).Text);
                times.Add(Stopwatch.GetElapsedTime(start).TotalMilliseconds);
                Thread.Sleep(1);
            }
        }

        blockers.Join();
        double whole = Stopwatch.GetElapsedTime(begin).TotalMilliseconds;
        times.Sort();
        output.WriteLine($"{times.Count} others: median {times[times.Count / 2]:F2} ms, p99 {times[times.Count * 99 / 100]:F2} ms, longest {times[^1]:F2} ms; all {whole:F0} ms");
        Assert.InRange(times[times.Count * 99 / 100], 0, 100);
        Assert.InRange(whole, 1_000, 8_000);   // one after the other on two loops they would take 16 s
    }
}
