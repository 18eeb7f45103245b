// What the monitor does besides handing loops over: it survives a fault of its own, and asks again for threads that were refused.

using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Connections;
using Millrace.Handlers;
using Millrace.Loops;
using Millrace.Observe;
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
        var loop = new EventLoop<LinuxKernel>(0, services, default);
        loop.Enter(null);       // a handler that does not end: the second look asks for a standby driver

        services.Monitor.Start([loop]);

        Assert.True(drivers.Asked.Wait(10_000), "the monitor did not go on");
        Assert.Contains(log.Lines, static line => line.Contains("Internal error", StringComparison.Ordinal));
        loop.Release();
    }

    [Fact]
    public void Handlers_that_wait_because_the_system_refused_a_thread_get_the_one_it_gives_later()
    {
        using var drivers = new ScriptedDrivers { Waiting = 1, Refusals = 100 };    // for longer than it takes a quiet monitor to fall asleep
        using LoopServices services = Serve(drivers, NullLogger.Instance);
        var loop = new EventLoop<LinuxKernel>(0, services, default);

        services.Monitor.Start([loop]);

        Assert.True(drivers.Released.Wait(10_000), "nobody asked again");
        Assert.Equal(0, drivers.Waiting);
        loop.Release();
    }

    [Fact]
    public void Handlers_that_wait_because_the_maximum_is_reached_are_left_to_the_threads_there_are()
    {
        using var drivers = new ScriptedDrivers { Waiting = 1, Count = new MillraceOptions().DriversMax };
        using LoopServices services = Serve(drivers, NullLogger.Instance);
        var loop = new EventLoop<LinuxKernel>(0, services, default);

        services.Monitor.Start([loop]);

        Assert.False(drivers.Asked.Wait(100));
        loop.Release();
    }

    private static LoopServices Serve(ScriptedDrivers drivers, ILogger log) =>
        new(new MillraceOptions(), new DelegateHandler(static (_, _) => { }), new Log(log), drivers);

    // Only the monitor's thread comes here, but for the questions of the test.
    private sealed class ScriptedDrivers : IDriverSource, IStandbyDriver, IDisposable
    {
        private int _asked;
        private volatile int _waiting;

        /// <summary>Whether the first that asks meets a fault.</summary>
        public bool Fails { get; init; }

        /// <summary>How often there is no driver before there is one.</summary>
        public int Refusals { get; init; } = int.MaxValue;

        public int Count { get; init; }

        public int Waiting
        {
            get => _waiting;
            init => _waiting = value;
        }

        public SemaphoreSlim Asked { get; } = new(0);

        public SemaphoreSlim Released { get; } = new(0);

        public IStandbyDriver? TryReserve()
        {
            if (++_asked == 1 && Fails)
            {
                throw new InvalidOperationException("a fault of the server");
            }

            Asked.Release();
            return _asked > Refusals ? this : null;
        }

        public void Release(IStandbyDriver driver)
        {
            _waiting = 0;
            Released.Release();
        }

        public void Run(Connection connection) => throw new NotSupportedException();

        public void Give(object work) => throw new NotSupportedException();

        public void Dispose()
        {
            Asked.Dispose();
            Released.Dispose();
        }
    }
}
