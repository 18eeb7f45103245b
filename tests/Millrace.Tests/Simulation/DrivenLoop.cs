// A loop and the driver that has it. The generation counts hand-overs: a driver whose generation is not the loop's has lost it.

using Millrace.Connections;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Simulation;

internal sealed class DrivenLoop
{
    private readonly Simulation _simulation;
    private SimulatedDriver _owner;
    private bool _needsResume;

    public DrivenLoop(Simulation simulation, int index)
    {
        _simulation = simulation;
        Loop = new EventLoop<SimulatedKernel>(index, simulation.Services, new SimulatedKernel(simulation.World), ConnectionFactory.Create);
        Poller = simulation.World.LastPoller!;
        Poller.Loop = this;
        _owner = simulation.Drivers.Take() ?? throw new InvalidOperationException("DriversMax is smaller than the number of loops.");
    }

    public EventLoop<SimulatedKernel> Loop { get; }

    public SimulatedPoller Poller { get; }

    public int Generation { get; private set; }

    /// <summary>A turn is on the stack, and its driver still has the loop.</summary>
    public bool IsBusy { get; private set; }

    public bool HasWork => !IsBusy && (_needsResume || Poller.HasReady || Loop.HasPosted || _hadEvents);

    private bool _hadEvents;

    /// <summary>The monitor gives the loop to a standby driver.</summary>
    public void GiveTo(SimulatedDriver standby)
    {
        if (!IsBusy)
        {
            _simulation.Violated($"loop {Loop.Index} was taken over while no handler ran in it");
        }

        _simulation.Trace("hand over", Loop.Index, Generation);
        _owner = standby;
        Generation++;
        IsBusy = false;
        _needsResume = true;
    }

    /// <summary>One turn by the driver that has the loop; false when that driver is in the middle of one.</summary>
    public bool Turn(int waitMs)
    {
        if (IsBusy)
        {
            return false;
        }

        SimulatedDriver driver = _owner;
        int generation = Generation;
        bool resume = _needsResume;
        _needsResume = false;
        IsBusy = true;
        _hadEvents = Poller.HasReady || Loop.HasPosted;      // what this turn collects is worked through in the next
        bool mine = false;
        _simulation.InFrame(this, generation, () => mine = resume ? Loop.Resume(driver.Driver) : Loop.Turn(driver.Driver, waitMs));
        if (mine != (generation == Generation))
        {
            _simulation.Violated($"loop {Loop.Index}: its driver believes that it {(mine ? "has" : "has lost")} the loop, but it {(mine ? "has lost it" : "has it")}");
        }

        if (generation == Generation)
        {
            IsBusy = false;
        }
        else
        {
            _simulation.Drivers.Return(driver);
        }

        return true;
    }
}
