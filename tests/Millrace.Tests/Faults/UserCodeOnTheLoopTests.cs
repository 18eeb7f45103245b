// Code of the application's that is no handler and may run on a loop: loggers, change handlers of AsyncLocals. However long it takes, the
// loop's other connections are served meanwhile.

using Microsoft.Extensions.Logging;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Faults;

public sealed class UserCodeOnTheLoopTests : IDisposable
{
    private readonly SocketFolder _folder = new();
    private readonly ManualResetEventSlim _mayGoOn = new();
    private readonly ManualResetEventSlim _waits = new();

    public void Dispose()
    {
        _mayGoOn.Set();
        _folder.Dispose();
    }

    [Theory]
    [InlineData("/change")]
    [InlineData("/change-after-body")]
    public async Task A_change_handler_of_an_AsyncLocal_holds_up_nobody(string path)
    {
        int server = 0;
        var local = new AsyncLocal<string?>(change =>
        {
            // Restoring is the only change from something to nothing by the context itself.
            if (change is { ThreadContextChanged: true, PreviousValue: not null, CurrentValue: null } && Volatile.Read(ref server) == 1)
            {
                WaitOnce();
            }
        });
        await using MillraceServer running = await Start(async (request, response) =>
        {
            if (request.Path == "/change-after-body")
            {
                _ = await request.Body.ReadAsync(new byte[1]);
            }

            if (request.Path != "/")
            {
                Volatile.Write(ref server, 1);
                Change(local);
            }

            response.WriteText(request.Path);
        });
        OthersAreServed(running, path, path == "/change" ? [] : "x"u8.ToArray());
    }

    [Fact]
    public async Task A_logger_of_the_server_s_own_messages_holds_up_nobody()
    {
        await using MillraceServer server = await Start(
            static (request, response) =>
            {
                response.WriteText(request.Path);
                return default;
            },
            new WaitingLog(this, 5),
            static options => options.MaxConnections = 2);
        using FastCgiPeer first = FastCgiPeer.Connect(server.Addresses[0]);
        using FastCgiPeer second = FastCgiPeer.Connect(server.Addresses[0]);
        Assert.Equal("/", first.Exchange(new FastCgiRequest("/")).Text);
        Assert.Equal("/", second.Exchange(new FastCgiRequest("/")).Text);
        using FastCgiPeer third = FastCgiPeer.Connect(server.Addresses[0]);      // one too many: log 5
        Assert.True(_waits.Wait(10_000));
        Assert.Equal("/", first.Exchange(new FastCgiRequest("/")).Text);
        Assert.Equal("/", second.Exchange(new FastCgiRequest("/")).Text);
    }

    [Fact]
    public async Task A_logger_of_slow_requests_holds_up_nobody()
    {
        await using MillraceServer server = await Start(
            static (request, response) =>
            {
                if (request.Path == "/slow")
                {
                    long until = Environment.TickCount64 + 20;
                    while (Environment.TickCount64 < until)
                    {
                        Thread.SpinWait(100);
                    }
                }

                response.WriteText(request.Path);
                return default;
            },
            new WaitingLog(this, 13),
            static options =>
            {
                options.SlowRequestThreshold = TimeSpan.FromMilliseconds(10);
                options.DriversMax = 8;
            });
        OthersAreServed(server, "/slow", []);
    }

    [Fact]
    public async Task A_logger_of_the_monitor_s_messages_keeps_no_loop_from_being_handed_over()
    {
        using var blocked = new SemaphoreSlim(0);
        await using MillraceServer server = await Start(
            (request, response) =>
            {
                if (request.Path == "/block")
                {
                    blocked.Release();
                    Assert.True(_mayGoOn.Wait(10_000));
                }

                response.WriteText(request.Path);
                return default;
            },
            new WaitingLog(this, 7),
            static options => options.DriversMax = 2);
        using FastCgiPeer first = FastCgiPeer.Connect(server.Addresses[0]);
        using FastCgiPeer second = FastCgiPeer.Connect(server.Addresses[0]);
        first.Send(new FastCgiRequest("/block").ToBytes());
        Assert.True(await blocked.WaitAsync(10_000));
        second.Send(new FastCgiRequest("/block").ToBytes());
        Assert.True(await blocked.WaitAsync(10_000));
        Assert.True(_waits.Wait(10_000));       // no thread is left: log 7
        long refused = server.Engine.Services.HandOversRefused;
        Assert.True(ProcessState.Becomes(() => server.Engine.Services.HandOversRefused > refused), "the monitor does not look any more");
        _mayGoOn.Set();
        Assert.Equal("/block", first.Receive().Text);
        Assert.Equal("/block", second.Receive().Text);
    }

    private Task<MillraceServer> Start(Func<Request, Response, ValueTask> handler, ILogger? log = null, Action<MillraceOptions>? set = null)
    {
        var options = new MillraceOptions { Loops = 1, Dispatch = DispatchMode.Inline };
        set?.Invoke(options);
        return MillraceServer.StartAsync(_folder.NewAddress(), handler, options, log);
    }

    // What is called for the request waits until another connection of the same loop has been answered.
    private void OthersAreServed(MillraceServer server, string path, byte[] body)
    {
        using FastCgiPeer other = FastCgiPeer.Connect(server.Addresses[0]);
        Assert.Equal("/", other.Exchange(new FastCgiRequest("/")).Text);
        using FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]);
        var request = new FastCgiRequest(path, body.Length > 0 ? "POST" : "GET") { Body = body };
        byte[] bytes = request.ToBytes();
        int head = body.Length > 0 ? request.Head().Length : bytes.Length;
        peer.Send(bytes.AsSpan(0, head));
        if (head < bytes.Length)
        {
            Assert.True(ProcessState.Becomes(() => server.Engine.Loops[0].Counters.WentAsync == 1));
            peer.Send(bytes.AsSpan(head));
        }

        Assert.True(_waits.Wait(10_000), "the code was not called");
        Assert.Equal("/", other.Exchange(new FastCgiRequest("/")).Text);
        _mayGoOn.Set();
        Assert.Equal(path, peer.Receive().Text);
    }

    private void WaitOnce()
    {
        if (!_waits.IsSet)
        {
            _waits.Set();
            _mayGoOn.Wait(15_000);
        }
    }

    // In a method that is not asynchronous: those put the context back by themselves.
    private static void Change(AsyncLocal<string?> local) => local.Value = "left behind";

    private sealed class WaitingLog(UserCodeOnTheLoopTests test, int id) : ILogger
    {
        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => true;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
        {
            if (eventId.Id == id)
            {
                test.WaitOnce();
            }
        }
    }
}
