// Threads of the pool and handlers that wait for one. That the system refuses a thread is not played here: what follows from it
// is in LoopMonitorTests.

using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Connections;
using Millrace.Exchanges;
using Millrace.Handlers;
using Millrace.Loops;
using Millrace.Observe;

namespace Millrace.Tests.Loops;

public sealed class DriverPoolTests
{
    [Fact]
    public void A_handler_that_came_to_wait_gets_the_thread_that_was_reserved_and_is_not_needed()
    {
        using var ran = new SemaphoreSlim(0);
        using var services = new LoopServices(new MillraceOptions { DriversMax = 1 }, new EndlessHandler(ran), new Log(NullLogger.Instance));
        var loop = new EventLoop<LinuxKernel>(0, services, default);
        IStandbyDriver reserved = services.Standby.TryReserve()!;
        Assert.Null(services.Standby.TryReserve());
        services.Standby.Run(Waiting(loop));
        Assert.Equal((1, 1), (services.Standby.Count, services.Standby.Waiting));

        services.Standby.Release(reserved);

        Assert.Equal(0, services.Standby.Waiting);
        Assert.True(ran.Wait(10_000), "the handler was not run");
        loop.Release();
    }

    private static FastCgiConnection<LinuxKernel> Waiting(EventLoop<LinuxKernel> loop) =>
        new(loop, descriptor: -1, isTcp: false) { Exchange = new Exchange(loop.Services) };

    // Goes on for ever, so that nothing is to be sent.
    private sealed class EndlessHandler(SemaphoreSlim ran) : RequestHandler
    {
        public override Task? Run(Exchange exchange)
        {
            ran.Release();
            return new TaskCompletionSource().Task;
        }

        public override void Reset(Exchange exchange)
        {
        }
    }
}
