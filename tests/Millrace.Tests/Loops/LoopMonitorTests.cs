// What the monitor does besides handing loops over: it survives a fault of its own, and asks for those who wait for a thread.

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
        Assert.Contains(log.Lines, static line => line.Contains("Internal error", StringComparison.Ordinal));
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

        public SemaphoreSlim Asked { get; } = new(0);

        public SemaphoreSlim Served { get; } = new(0);

        public IStandbyDriver? TryReserve()
        {
            if (++_asked == 1 && Fails)
            {
                throw new InvalidOperationException("a fault of the server");
            }

            Asked.Release();
            return null;
        }

        public bool KeepStandby() => true;

        public void Release(IStandbyDriver driver) => throw new NotSupportedException();

        public bool ServeWaiting()
        {
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
}
