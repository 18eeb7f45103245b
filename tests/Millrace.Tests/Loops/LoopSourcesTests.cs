// What a loop watches for others: their code runs as a handler does, may cost the loop its driver, and hears of the loop's end.

using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Connections;
using Millrace.Handlers;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Platform;

namespace Millrace.Tests.Loops;

public sealed unsafe class LoopSourcesTests : IDisposable
{
    private readonly LoopServices _services;
    private readonly EventLoop<LinuxKernel> _loop;
    private readonly LoopDriver _driver;
    private readonly List<int> _descriptors = [];

    public LoopSourcesTests() : this(DispatchMode.Adaptive)
    {
    }

    private LoopSourcesTests(DispatchMode mode)
    {
        _services = new(new MillraceOptions { Dispatch = mode }, new DelegateHandler(static (_, _) => { }), new Log(NullLogger.Instance));
        _loop = new(0, _services, default, ConnectionFactory.Create);
        _driver = new LoopDriver(_services);
    }

    public void Dispose()
    {
        _descriptors.ForEach(static descriptor => default(LinuxKernel).Close(descriptor, reset: false));
        _services.Dispose();
    }

    // Its peer has sent a byte.
    private Source Readable(Func<LoopDriver, bool> onEvent)
    {
        int* pair = stackalloc int[2];
        Assert.Equal(0, SystemCalls.SocketPair(SystemCalls.AF_UNIX, SystemCalls.SOCK_STREAM | SystemCalls.SOCK_CLOEXEC | SystemCalls.SOCK_NONBLOCK, 0, pair));
        _descriptors.AddRange([pair[0], pair[1]]);
        var source = new Source(onEvent);
        Assert.True(_loop.Sources.TryWatch(source, pair[0]));
        Assert.Equal(1, default(LinuxKernel).Send(pair[1], "x"u8, more: false));
        return source;
    }

    private bool Turn() => _loop.Turn(_driver, waitMs: 0);

    private void TakeOver() => Assert.True(_loop.TakeOver(_loop.Word));

    [Fact]
    public void Code_that_blocks_costs_the_loop_its_driver_and_the_next_one_goes_on_behind_it()
    {
        int events = 0;
        bool Lose(LoopDriver driver) => _loop.Sources.RunCode(driver, _ =>
        {
            if (++events == 1)
            {
                TakeOver();
            }
        }, null);
        _ = Readable(Lose);
        _ = Readable(Lose);
        Assert.True(Turn());        // both are in the batch
        Assert.False(Turn());
        Assert.Equal(1, events);
        Assert.True(_loop.Resume(_driver));
        Assert.True(Turn());
        Assert.Equal(2, events);
    }

    [Fact]
    public void Code_that_throws_leaves_the_loop_as_it_was()
    {
        _ = Readable(driver => _loop.Sources.RunCode(driver, static _ => throw new InvalidTimeZoneException("thrown on purpose"), null));
        Assert.True(Turn());
        Assert.True(Turn());
        Assert.Equal(0, _loop.Word & 1);
    }

    [Fact]
    public void What_is_posted_may_cost_it_the_driver_too()
    {
        var source = new Source(static _ => true) { Posted = driver => _loop.Sources.RunCode(driver, _ => TakeOver(), null) };
        _loop.Sources.Post(source);
        Assert.False(Turn());
    }

    [Fact]
    public void Where_handlers_go_to_the_workers_that_code_does_not_run_on_the_loop()
    {
        using var other = new LoopSourcesTests(DispatchMode.Workers);
        using var hasRun = new ManualResetEventSlim();
        Thread? thread = null;
        Assert.True(other._loop.Sources.RunCode(other._driver, _ =>
        {
            thread = Thread.CurrentThread;
            hasRun.Set();
        }, null));
        Assert.True(hasRun.Wait(TimeSpan.FromSeconds(10)));
        Assert.NotEqual(Thread.CurrentThread, thread);
    }

    [Fact]
    public void A_descriptor_that_is_forgotten_stays_open_and_is_not_told_of()
    {
        int events = 0;
        Source source = Readable(_ => ++events > 0);
        Source another = Readable(_ => ++events > 0);
        Assert.True(Turn());
        _loop.Sources.Forget(source);
        Assert.Equal((-1, true), (source.Descriptor, another.Descriptor >= 0));
        Assert.True(Turn());
        Assert.Equal(1, events);
        Assert.Equal(1, default(LinuxKernel).Receive(_descriptors[0], new byte[1]));
    }

    [Fact]
    public void Who_waits_for_a_loop_hears_of_its_end_and_so_does_who_comes_later()
    {
        Source watched = Readable(static _ => true);
        Source forgotten = Readable(static _ => true);
        _loop.Sources.Forget(forgotten);
        _loop.Stop();
        Assert.True(_loop.Drive(_driver));
        Assert.Equal((1, 0), (watched.Ends, forgotten.Ends));
        var late = new Source(static _ => true);
        _loop.Sources.Post(late);
        Assert.Equal((1, 0), (late.Ends, late.Posts));
    }

    private sealed class Source(Func<LoopDriver, bool> onEvent) : LoopSource
    {
        public Func<LoopDriver, bool>? Posted { get; init; }

        public int Ends { get; private set; }

        public int Posts { get; private set; }

        public override bool OnEvent(LoopDriver driver, Readiness ready) => onEvent(driver);

        public override bool OnPosted(LoopDriver driver)
        {
            Posts++;
            return Posted?.Invoke(driver) ?? true;
        }

        public override void EndByFault()
        {
        }

        public override void OnLoopEnded() => Ends++;
    }
}
