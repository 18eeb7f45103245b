// Who drives a loop, and goes on with it whatever happens outside of any connection.

using Millrace.Handlers;
using Millrace.Loops;
using Millrace.Observe;

namespace Millrace.Tests.Loops;

public sealed class LoopServicesTests
{
    // As where the heap is full: on the driver's thread it would end the process.
    [Fact]
    public void A_fault_outside_of_any_connection_ends_neither_the_loop_nor_its_driver()
    {
        using var log = new Hosting.CollectedLog();
        using var services = new LoopServices(new MillraceOptions(), new DelegateHandler(static (_, _) => { }), new Log(log.CreateLogger("Millrace"), static say => say()));
        var loop = new FaultyLoop(services, faults: 3);
        services.Drive(loop, new LoopDriver(services));
        Assert.Equal(4, loop.Rounds);
        Assert.Equal(3, log.Lines.Count(static line => line.Contains("Internal error", StringComparison.Ordinal)));
    }

    [Fact]
    public void It_is_over_when_whoever_made_it_and_the_last_of_its_loops_have_left()
    {
        using var services = new LoopServices(new MillraceOptions(), new DelegateHandler(static (_, _) => { }), new Log(Microsoft.Extensions.Logging.Abstractions.NullLogger.Instance));
        var drivers = new GivenDriver();
        for (int i = 0; i < 2; i++)
        {
            services.Start(new FaultyLoop(services, faults: 0), drivers);
        }

        for (int i = 0; i < 2; i++)
        {
            services.Leave();
            Assert.False(services.Over.IsCompleted);
        }

        services.Leave();
        Assert.True(services.Over.IsCompleted);
    }

    private sealed class GivenDriver : IStandbyDriver
    {
        public void Give(object work)
        {
        }
    }

    private sealed class FaultyLoop(LoopServices services, int faults) : EventLoop(0, services)
    {
        public int Rounds { get; private set; }

        public override bool Drive(LoopDriver driver) => ++Rounds > faults ? false : throw new InsufficientMemoryException();

        public override bool Resume(LoopDriver driver) => true;

        protected override void Wake()
        {
        }

        protected override void Abandon()
        {
        }
    }
}
