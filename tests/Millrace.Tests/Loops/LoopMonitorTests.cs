// The monitor: what two looks at a loop find, when it sleeps and what wakes it. It survives a fault of its own, and asks for those who wait for a thread.

using System.Runtime.CompilerServices;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Connections;
using Millrace.Handlers;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Platform;
using Millrace.Tests.Hosting;

namespace Millrace.Tests.Loops;

public sealed class LoopMonitorTests
{
    [Fact]
    public void A_look_that_fails_is_logged_and_is_not_the_last()
    {
        using var log = new CollectedLog();
        using var drivers = new ScriptedDrivers { Fails = true };
        using LoopServices services = Serve(drivers, log.CreateLogger("server"));
        var loop = new EventLoop<LinuxKernel>(0, services, default, ConnectionFactory.Create);
        loop.Enter(null);       // a handler that does not end: the second look asks for a standby driver

        services.Monitor.Start([loop]);

        Assert.True(drivers.Asked.Wait(10_000), "the monitor did not go on");
        Assert.True(
            SpinWait.SpinUntil(() => log.Lines.Any(static line => line.Contains("Internal error", StringComparison.Ordinal)), 10_000),
            "nothing was logged");      // on a thread of its own
        loop.Release();
    }

    [Fact]
    public void Handlers_that_wait_for_a_thread_keep_the_monitor_awake()
    {
        using var drivers = new ScriptedDrivers { Waiting = 100 };    // for longer than it takes a quiet monitor to fall asleep
        using LoopServices services = Serve(drivers, NullLogger.Instance);
        var loop = new EventLoop<LinuxKernel>(0, services, default, ConnectionFactory.Create);

        services.Monitor.Start([loop]);

        Assert.True(drivers.Served.Wait(10_000), "nobody asked again");
        loop.Release();
    }

    // ---- what two looks find ----

    [Fact]
    public void A_handler_that_two_looks_find_loses_its_loop()
    {
        using var drivers = new ScriptedDrivers { Standby = new ScriptedDriver() };
        using LoopServices services = Serve(drivers, NullLogger.Instance);
        using var loop = new WatchedLoop(services);
        services.Monitor.Watch([loop]);
        long mark = loop.Enter(null);
        _ = services.Monitor.Look();
        Assert.Empty(drivers.Standby.Given);
        _ = services.Monitor.Look();
        Assert.Same(loop, Assert.Single(drivers.Standby.Given));
        Assert.False(loop.Leave(mark));
    }

    [Fact]
    public void Two_handlers_one_behind_the_other_are_not_taken_for_one()
    {
        using var drivers = new ScriptedDrivers { Standby = new ScriptedDriver() };
        using LoopServices services = Serve(drivers, NullLogger.Instance);
        using var loop = new WatchedLoop(services);
        services.Monitor.Watch([loop]);
        for (int i = 0; i < 5; i++)
        {
            long mark = loop.Enter(null);
            _ = services.Monitor.Look();
            Assert.True(loop.Leave(mark));
        }

        Assert.Empty(drivers.Standby.Given);
    }

    [Fact]
    public void A_handler_that_ends_while_a_driver_is_reserved_keeps_its_loop_and_the_driver_stands_by_again()
    {
        using var drivers = new ScriptedDrivers { Standby = new ScriptedDriver() };
        using LoopServices services = Serve(drivers, NullLogger.Instance);
        using var loop = new WatchedLoop(services);
        services.Monitor.Watch([loop]);
        long mark = loop.Enter(null);
        bool isItsOwn = false;
        drivers.BeforeReserve = () => isItsOwn = loop.Leave(mark);
        _ = services.Monitor.Look();
        _ = services.Monitor.Look();
        Assert.True(isItsOwn);
        Assert.Empty(drivers.Standby.Given);
        Assert.Same(drivers.Standby, Assert.Single(drivers.Released));
    }

    [Fact]
    public void Handlers_that_lose_their_loop_one_after_the_other_are_sent_to_workers()
    {
        using var drivers = new ScriptedDrivers { Standby = new ScriptedDriver() };
        using LoopServices services = Serve(drivers, NullLogger.Instance);
        using var loop = new WatchedLoop(services);
        services.Monitor.Watch([loop]);
        for (int i = 0; i < DispatchPolicy.EarlyHandOvers; i++)
        {
            Assert.True(loop.Dispatch.RunsInline(nowMs: 0));
            _ = loop.Enter(null);
            _ = services.Monitor.Look();
            _ = services.Monitor.Look();
        }

        Assert.False(loop.Dispatch.RunsInline(nowMs: 0));
    }

    // No driver could be had for its loop: there may be one at the next look.
    [Fact]
    public void A_loop_in_a_handler_keeps_the_monitor_awake()
    {
        using var drivers = new ScriptedDrivers();
        using LoopServices services = Serve(drivers, NullLogger.Instance);
        using var loop = new WatchedLoop(services);
        services.Monitor.Watch([loop]);
        _ = loop.Enter(null);
        for (int i = 0; i < 5; i++)
        {
            Assert.True(services.Monitor.Look());
        }
    }

    // ---- sleep ----

    [Fact]
    public void A_monitor_sleeps_when_its_loops_do()
    {
        using var drivers = new ScriptedDrivers();
        using LoopServices services = Serve(drivers, NullLogger.Instance);
        using var loop = new WatchedLoop(services);
        loop.BeginWork();
        loop.EndWork();
        services.Monitor.Start([loop]);
        Assert.True(Sleeps(services.Monitor));
    }

    [Fact]
    public void A_loop_that_has_work_wakes_a_monitor_that_sleeps()
    {
        using var drivers = new ScriptedDrivers();
        using LoopServices services = Serve(drivers, NullLogger.Instance);
        using var loop = new WatchedLoop(services);
        services.Monitor.Start([loop]);
        Assert.True(Sleeps(services.Monitor));
        _ = loop.Enter(null);
        loop.BeginWork();
        Assert.True(drivers.Asked.Wait(10_000), "its handler would keep it for ever");
    }

    // Between its last look and its sleep nobody wakes it.
    [Fact]
    public void A_loop_that_has_work_in_the_moment_before_the_monitor_sleeps_is_looked_at()
    {
        for (int look = 15; look <= 25; look++)
        {
            using var drivers = new ScriptedDrivers();
            using LoopServices services = Serve(drivers, NullLogger.Instance);
            using var loop = new WatchedLoop(services);
            int looks = 0;
            drivers.BehindLook = () =>
            {
                if (Interlocked.Increment(ref looks) == look)
                {
                    _ = loop.Enter(null);
                    loop.BeginWork();
                }
            };
            services.Monitor.Start([loop]);
            bool isSeen = SpinWait.SpinUntil(() => drivers.Asked.CurrentCount > 0 || (Volatile.Read(ref looks) < look && Volatile.Read(ref SleepingOf(services.Monitor)) == 1), 10_000);
            Assert.True(isSeen, $"its handler, begun behind look {look}, would keep it for ever");
        }
    }

    private static bool Sleeps(LoopMonitor monitor) => SpinWait.SpinUntil(() => Volatile.Read(ref SleepingOf(monitor)) == 1, 10_000);

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_sleeping")]
    private static extern ref int SleepingOf(LoopMonitor monitor);

    private static LoopServices Serve(ScriptedDrivers drivers, ILogger log) =>
        new(new MillraceOptions(), new DelegateHandler(static (_, _) => { }), new Log(log), drivers);

    // Only the monitor's thread comes here, but for the questions of the test.
    private sealed class ScriptedDrivers : IDriverSource, IDisposable
    {
        private int _asked;
        private volatile int _waiting;

        /// <summary>Whether the first that asks meets a fault.</summary>
        public bool Fails { get; init; }

        public int Count => 0;

        /// <summary>How often the monitor must ask for those who wait before they are served.</summary>
        public int Waiting
        {
            get => _waiting;
            init => _waiting = value;
        }

        /// <summary>The one that can be had, if any.</summary>
        public ScriptedDriver? Standby { get; init; }

        public Action BeforeReserve { get; set; } = static () => { };

        public Action BehindLook { get; set; } = static () => { };

        public List<IStandbyDriver> Released { get; } = [];

        public SemaphoreSlim Asked { get; } = new(0);

        public SemaphoreSlim Served { get; } = new(0);

        public IStandbyDriver? TryReserve()
        {
            if (++_asked == 1 && Fails)
            {
                throw new InvalidOperationException("a fault of the server");
            }

            Asked.Release();
            BeforeReserve();
            return Standby;
        }

        public bool KeepStandby() => true;

        public void Release(IStandbyDriver driver) => Released.Add(driver);

        public bool ServeWaiting()
        {
            BehindLook();
            if (_waiting == 0)
            {
                return false;
            }

            if (--_waiting == 0)
            {
                Served.Release();
            }

            return true;
        }

        public void Run(Connection connection) => throw new NotSupportedException();

        public void Dispose()
        {
            Asked.Dispose();
            Served.Dispose();
        }
    }
    private sealed class ScriptedDriver : IStandbyDriver
    {
        public List<object> Given { get; } = [];

        public void Give(object work) => Given.Add(work);
    }

    // Has work when the test says so.
    private sealed class WatchedLoop(LoopServices services) : EventLoop(0, services), IDisposable
    {
        public override bool Drive(LoopDriver driver) => throw new NotSupportedException();

        public override bool Resume(LoopDriver driver) => throw new NotSupportedException();

        public void BeginWork() => SetActive();

        public void EndWork() => SetInactive();

        // The monitor sleeps again.
        public void Dispose() => EndWork();

        protected override void Wake()
        {
        }

        protected override void Abandon()
        {
        }
    }
}
