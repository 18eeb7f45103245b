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

    [Fact]
    public async Task A_change_handler_of_an_AsyncLocal_holds_up_nobody()
    {
        int left = 0;
        var local = new AsyncLocal<string?>(change =>
        {
            if (change is { ThreadContextChanged: true, PreviousValue: not null, CurrentValue: null } && Volatile.Read(ref left) == 1)
            {
                WaitOnce();     // the driver restores the context
            }
        });
        await using MillraceServer server = await Start((request, response) =>
        {
            response.WriteText(request.Path);
            if (request.Path == "/change")
            {
                Volatile.Write(ref left, 1);
                local.Value = "left behind";
            }

            return default;
        });
        using FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]);
        using FastCgiPeer other = FastCgiPeer.Connect(server.Addresses[0]);
        Assert.Equal("/", other.Exchange(new FastCgiRequest("/")).Text);
        peer.Send(new FastCgiRequest("/change").ToBytes());
        IsServedMeanwhile(other);
        Assert.Equal("/change", peer.Receive().Text);
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

    // It was slow because it waited for its turn: its handler is short, and its loop is not handed over for that.
    [Fact]
    public async Task A_logger_of_slow_requests_holds_up_nobody()
    {
        var gate = new TaskCompletionSource();
        await using MillraceServer server = await Start(
            async (request, response) =>
            {
                if (request.Path == "/hold")
                {
                    await gate.Task;
                }

                response.WriteText(request.Path);
            },
            new WaitingLog(this, 13, "/slow"),
            static options =>
            {
                options.MaxConcurrentRequests = 2;
                options.SlowRequestThreshold = TimeSpan.FromMilliseconds(20);
            });
        FastCgiPeer[] holders = [FastCgiPeer.Connect(server.Addresses[0]), FastCgiPeer.Connect(server.Addresses[0])];
        using FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]);
        using FastCgiPeer other = FastCgiPeer.Connect(server.Addresses[0]);
        Assert.Equal("/", peer.Exchange(new FastCgiRequest("/")).Text);     // compiled
        Array.ForEach(holders, static holder => holder.Send(new FastCgiRequest("/hold").ToBytes()));
        Assert.True(ProcessState.Becomes(() => server.Engine.Loops[0].Counters.Requests == 3));
        peer.Send(new FastCgiRequest("/slow").ToBytes());
        Assert.True(ProcessState.Becomes(() => server.Engine.Loops[0].Counters.Queued == 1));
        await Task.Delay(60);
        gate.SetResult();
        IsServedMeanwhile(other);
        Assert.Equal("/slow", peer.Receive().Text);
        Array.ForEach(holders, static holder => holder.Dispose());
    }

    [Fact]
    public async Task A_logger_of_the_monitor_s_messages_keeps_no_loop_from_being_handed_over()
    {
        using var blocked = new SemaphoreSlim(0);
        using var free = new SemaphoreSlim(0);
        await using MillraceServer server = await Start(
            (request, response) =>
            {
                if (request.Path == "/block")
                {
                    blocked.Release();
                    Assert.True(free.Wait(10_000));
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
        Assert.True(_waits.Wait(10_000));       // more threads than the maximum: log 7
        free.Release(2);
        Assert.Equal("/block", first.Receive().Text);
        Assert.Equal("/block", second.Receive().Text);
        first.Send(new FastCgiRequest("/block").ToBytes());
        Assert.True(await blocked.WaitAsync(10_000));
        IsServedMeanwhile(second);
        free.Release();
        Assert.Equal("/block", first.Receive().Text);
    }

    // What an application reads into and writes from may be memory of its own making, and what gives its span is code of the
    // application's. A request that ends meanwhile waits for nobody who is in there.
    [Theory]
    [InlineData("read")]
    [InlineData("write")]
    [InlineData("write to a stream")]
    public async Task Memory_of_the_application_s_making_that_waits_holds_up_nobody(string how)
    {
        var memory = new OwnMemory(100, WaitOnce);
        Task used = Task.CompletedTask;
        await using MillraceServer server = await Start((request, response) =>
        {
            if (request.Path == "/own")
            {
                Stream body = response.Body, wanted = request.Body;
                used = Task.Run(() => how switch
                {
                    "read" => wanted.ReadAsync(memory.Memory).AsTask(),
                    "write" => response.WriteAsync(memory.Memory).AsTask(),
                    _ => body.WriteAsync(memory.Memory).AsTask(),
                });
                Assert.True(_waits.Wait(10_000));
            }
            else
            {
                response.WriteText(request.Path);
            }

            return default;
        });
        using FastCgiPeer peer = FastCgiPeer.Connect(server.Addresses[0]);
        using FastCgiPeer other = FastCgiPeer.Connect(server.Addresses[0]);
        Assert.Equal("/", other.Exchange(new FastCgiRequest("/")).Text);
        peer.Send(new FastCgiRequest("/own", "POST") { Body = "a body"u8.ToArray() }.ToBytes());
        Assert.Equal("", peer.Receive().Text);
        Assert.Equal("/", peer.Exchange(new FastCgiRequest("/")).Text);     // so that the request is over, and not only its response complete
        IsServedMeanwhile(other);
        await Assert.ThrowsAsync<ObjectDisposedException>(() => used);
        Assert.Equal("/", peer.Exchange(new FastCgiRequest("/")).Text);
    }

    private sealed class OwnMemory(int length, Action called) : System.Buffers.MemoryManager<byte>
    {
        private readonly byte[] _bytes = new byte[length];

        // The manager's own property asks for the span.
        public override Memory<byte> Memory => CreateMemory(_bytes.Length);

        public override Span<byte> GetSpan()
        {
            called();
            return _bytes;
        }

        public override System.Buffers.MemoryHandle Pin(int elementIndex = 0) => throw new NotSupportedException();

        public override void Unpin()
        {
        }

        protected override void Dispose(bool disposing)
        {
        }
    }

    private Task<MillraceServer> Start(Func<Request, Response, ValueTask> handler, ILogger? log = null, Action<MillraceOptions>? set = null)
    {
        var options = new MillraceOptions { Loops = 1, Dispatch = DispatchMode.Inline };
        set?.Invoke(options);
        return MillraceServer.StartAsync(_folder.NewAddress(), handler, options, log);
    }

    // What is called waits until another connection of the same loop has been answered.
    private void IsServedMeanwhile(FastCgiPeer other)
    {
        Assert.True(_waits.Wait(10_000), "the code was not called");
        Assert.Equal("/", other.Exchange(new FastCgiRequest("/")).Text);
        _mayGoOn.Set();
    }

    private void WaitOnce()
    {
        if (!_waits.IsSet)
        {
            _waits.Set();
            _mayGoOn.Wait(40_000);      // longer than any client's patience
        }
    }

    private sealed class WaitingLog(UserCodeOnTheLoopTests test, int id, string about = "") : ILogger
    {
        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => true;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
        {
            if (eventId.Id == id && formatter(state, exception).Contains(about, StringComparison.Ordinal))
            {
                test.WaitOnce();
            }
        }
    }
}
