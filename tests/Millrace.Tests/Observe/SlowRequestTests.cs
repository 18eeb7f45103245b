// The log of slow requests: which route, and where the time went; and the report at the end of a drain.

using System.Globalization;
using System.Text.RegularExpressions;
using Microsoft.AspNetCore.Builder;
using Microsoft.Extensions.Logging;
using Millrace.Observe;
using Millrace.Tests.Hosting;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Observe;

public sealed partial class SlowRequestTests : IDisposable
{
    private readonly SocketFolder _folder = new();
    private readonly CollectedLog _log = new();

    public void Dispose()
    {
        _log.Dispose();
        _folder.Dispose();
    }

    [Fact]
    public async Task A_slow_request_is_logged_with_its_route_and_without_its_query()
    {
        await using HostedApp app = await HostedApp.StartAsync(
            static app => app.MapGet("/items/{id}", static async (int id) =>
            {
                await Task.Delay(150);
                return $"{id}";
            }),
            builder => builder.Logging.AddProvider(_log).AddFilter("Millrace", LogLevel.Warning).AddFilter("Microsoft", LogLevel.None),
            static options => options.SlowRequestThreshold = TimeSpan.FromMilliseconds(100));
        Assert.Equal("5", app.Get("/items/5?secret=1").Text);
        Slow slow = await Logged();
        Assert.Equal(("GET", "/items/{id}"), (slow.Method, slow.Route));
        Assert.InRange(slow.Running, 100, slow.Total);
        Assert.DoesNotContain(_log.Lines, static line => line.Contains("secret", StringComparison.Ordinal));
    }

    // By the thread that has run its handler, or by who sends what is left of its response.
    [Fact]
    public async Task A_slow_request_that_has_blocked_its_thread_is_logged_once()
    {
        await using MillraceServer server = await Start(
            static (request, response) =>
            {
                Thread.Sleep(300);
                return default;
            },
            new MillraceOptions { Loops = 1, SlowRequestThreshold = TimeSpan.FromMilliseconds(100) });
        using FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]);
        Assert.True(peer.Exchange(new FastCgiRequest("/once")).IsWhole);
        Assert.True(peer.Exchange(new FastCgiRequest("/again")).IsWhole);
        _ = await Logged("/again");
        await server.StopAsync();
        Assert.Single(_log.Lines, static line => line.Contains("/once", StringComparison.Ordinal));
        Assert.Single(_log.Lines, static line => line.Contains("/again", StringComparison.Ordinal));
    }

    [Fact]
    public async Task Time_in_the_queue_is_time_spent_waiting()
    {
        var gate = new TaskCompletionSource();
        await using MillraceServer server = await Start(
            async (request, response) =>
            {
                if (request.Path == "/first")
                {
                    await gate.Task;
                }
            },
            new MillraceOptions { Loops = 1, MaxConcurrentRequests = 1, SlowRequestThreshold = TimeSpan.FromMilliseconds(150) });
        using FastCgiPeer first = FastCgiPeer.Connect(server.Addresses[0]);
        using FastCgiPeer second = FastCgiPeer.Connect(server.Addresses[0]);
        first.Send(new FastCgiRequest("/first").ToBytes());
        Assert.True(ProcessState.Becomes(() => server.Engine.Loops[0].Counters.Requests == 1));
        second.Send(new FastCgiRequest("/second?x=1").ToBytes());
        Assert.True(ProcessState.Becomes(() => server.Engine.Loops[0].Counters.Queued == 1));
        await Task.Delay(300);
        gate.SetResult();
        Assert.True(first.Receive().IsWhole && second.Receive().IsWhole);
        Slow slow = await Logged("/second");
        Assert.InRange(slow.Waiting, 150, slow.Total);
        Assert.InRange(slow.Running, 0, slow.Total - slow.Waiting);
    }

    [Fact]
    public async Task Time_in_which_the_peer_does_not_read_is_time_spent_writing()
    {
        await using MillraceServer server = await Start(
            static async (request, response) => await response.WriteAsync(new byte[8 * 1024 * 1024]),
            new MillraceOptions { Loops = 1, SlowRequestThreshold = TimeSpan.FromMilliseconds(150) });
        using FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]);
        peer.Send(new FastCgiRequest("/large").ToBytes());
        await Task.Delay(400);
        Assert.True(peer.Receive().IsWhole);
        Slow slow = await Logged("/large");
        Assert.InRange(slow.Writing, 150, slow.Total);
        Assert.Equal(slow.Total, slow.Waiting + slow.Running + slow.Writing);
    }

    [Fact]
    public async Task Quick_requests_are_not_logged_and_by_default_none_is()
    {
        foreach (TimeSpan threshold in (TimeSpan[])[TimeSpan.FromSeconds(20), new MillraceOptions().SlowRequestThreshold])
        {
            await using MillraceServer server = await Start(static async (request, response) => await Task.Delay(30), new MillraceOptions { SlowRequestThreshold = threshold });
            using FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]);
            Assert.True(peer.Exchange(new FastCgiRequest("/")).IsWhole);
        }

        Assert.DoesNotContain(_log.Lines, static line => line.Contains("was slow", StringComparison.Ordinal));
    }

    [Fact]
    public async Task The_end_of_a_drain_says_how_many_requests_ended_and_how_many_were_cut()
    {
        using var entered = new SemaphoreSlim(0);
        using var over = new CancellationTokenSource();
        var gate = new TaskCompletionSource();
        await using MillraceServer server = await Start(
            async (request, response) =>
            {
                entered.Release();
                await (request.Path == "/stuck" ? Task.Delay(Timeout.Infinite, request.Aborted) : gate.Task);
            },
            new MillraceOptions { Loops = 2, DrainTimeout = TimeSpan.FromHours(5) });
        FastCgiPeer[] peers = [.. Enumerable.Range(0, 4).Select(_ => FastCgiPeer.Connect(server.Addresses[0]))];
        for (int i = 0; i < peers.Length; i++)
        {
            peers[i].Send(new FastCgiRequest(i == 0 ? "/stuck" : "/ends").ToBytes());
            Assert.True(await entered.WaitAsync(10_000));
        }

        string address = server.Addresses[0];
        Task stopping = server.StopAsync(over.Token);
        Assert.True(ProcessState.Becomes(() => !File.Exists(address["fastcgi://unix:".Length..])));
        gate.SetResult();
        Assert.All(peers[1..], static peer => Assert.True(peer.Receive().IsWhole));
        await over.CancelAsync();
        await stopping.WaitAsync(TimeSpan.FromSeconds(20));
        Array.ForEach(peers, static peer => peer.Dispose());
        string line = Assert.Single(_log.Lines, static line => line.Contains("Stopped in", StringComparison.Ordinal));
        Assert.Contains("3 requests ended during the drain, 1 were cut", line, StringComparison.Ordinal);
        Assert.Contains(_log.Lines, static line => line.Contains("have been cut: 1 (", StringComparison.Ordinal));
    }

    [Fact]
    public async Task A_drain_that_its_caller_ends_is_not_said_to_have_taken_the_drain_time()
    {
        using var entered = new SemaphoreSlim(0);
        await using MillraceServer server = await Start(
            async (request, response) =>
            {
                entered.Release();
                await Task.Delay(Timeout.Infinite, request.Aborted);
            },
            new MillraceOptions { DrainTimeout = TimeSpan.FromHours(5) });
        using FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]);
        peer.Send(new FastCgiRequest("/stuck").ToBytes());
        Assert.True(await entered.WaitAsync(10_000));

        await server.StopAsync(new CancellationToken(canceled: true)).WaitAsync(TimeSpan.FromSeconds(20));

        string line = Assert.Single(_log.Lines, static line => line.Contains("have been cut: 1 (", StringComparison.Ordinal));
        Assert.DoesNotContain("18000", line, StringComparison.Ordinal);
    }

    [Fact]
    public async Task The_lack_of_descriptors_is_said_once_in_ten_seconds()
    {
        var log = new Log(_log.CreateLogger("Millrace"));
        for (int i = 0; i < 100; i++)
        {
            log.DescriptorsExhausted("fastcgi://127.0.0.1:9000");
        }

        await log.FlushAsync(TimeSpan.FromSeconds(10));
        Assert.Single(_log.Lines);
    }

    private Task<MillraceServer> Start(Func<Request, Response, ValueTask> handler, MillraceOptions options) =>
        MillraceServer.StartAsync(_folder.NewAddress(), handler, options, _log.CreateLogger("Millrace"));

    private sealed record Slow(string Method, string Route, long Total, long Waiting, long Running, long Writing);

    private Task<Slow> Logged(string route = "")
    {
        Match? match = null;
        Assert.True(ProcessState.Becomes(() => (match = _log.Lines.Select(static line => Line().Match(line)).FirstOrDefault(each => each.Success && each.Groups[2].Value.Contains(route, StringComparison.Ordinal))) is not null), string.Join('\n', _log.Lines));
        long Number(int group) => long.Parse(match!.Groups[group].ValueSpan, CultureInfo.InvariantCulture);
        return Task.FromResult(new Slow(match!.Groups[1].Value, match.Groups[2].Value, Number(3), Number(4), Number(5), Number(6)));
    }

    [GeneratedRegex(@"was slow: (\S+) (\S+) took (\d+) ms, of which (\d+) ms waiting for its turn, (\d+) ms running and (\d+) ms waiting for the peer")]
    private static partial Regex Line();
}
