// Standby drivers and workers of a simulation: objects, not threads. What a worker does is a step of the pool.

using Millrace.Connections;
using Millrace.Loops;

namespace Millrace.Tests.Simulation;

internal sealed class SimulatedDrivers(Simulation simulation, int max) : IDriverSource
{
    private readonly Stack<SimulatedDriver> _idle = new();
    private readonly Queue<Connection> _waiting = new();

    public int Count { get; private set; }

    public int Waiting => _waiting.Count;

    public int Idle => _idle.Count;

    private int Busy => Count - _idle.Count;

    public SimulatedDriver? Take(int most)
    {
        if (!_idle.TryPop(out SimulatedDriver? driver) && Count < most)
        {
            Count++;
            driver = new SimulatedDriver(simulation, new LoopDriver(simulation.Services));
        }

        NoteShortage();
        return driver;
    }

    public SimulatedDriver? Take() => Take(max);

    // No loop stays with a handler that blocks: beyond the maximum there is one for each.
    public IStandbyDriver? TryReserve() =>
        Take(max + simulation.Loops.Length) ?? throw new InvalidOperationException("A loop whose handler blocks finds no driver.");

    public bool KeepStandby() => true;

    public void Release(IStandbyDriver driver) => Return((SimulatedDriver)driver);

    public void Return(SimulatedDriver driver)
    {
        driver.Driver.RestoreContext();
        if (Busy <= max + 1 && _waiting.TryDequeue(out Connection? connection))
        {
            Start(driver, connection);
        }
        else
        {
            _idle.Push(driver);
            NoteShortage();
        }
    }

    public void Run(Connection connection)
    {
        if (Busy < max && Take() is { } driver)
        {
            Start(driver, connection);
        }
        else
        {
            _waiting.Enqueue(connection);
        }
    }

    private void NoteShortage() => simulation.Services.IsShortOfThreads = Busy > max;

    // Nobody refuses a driver here: who waits gets the next that has finished.
    public bool ServeWaiting() => false;

    /// <summary>A worker is faster than the loop that has sent for it.</summary>
    public bool RunsAtOnce { get; set; }

    private void Start(SimulatedDriver driver, Connection connection)
    {
        if (RunsAtOnce)
        {
            simulation.InFrame(null, 0, Work);
        }
        else
        {
            simulation.InPool(Work);
        }

        void Work()
        {
            connection.RunOnWorker(driver.Driver);
            Return(driver);
        }
    }
}

internal sealed class SimulatedDriver(Simulation simulation, LoopDriver driver) : IStandbyDriver
{
    public LoopDriver Driver => driver;

    public void Give(object work) => simulation.Loops[((EventLoop)work).Index].GiveTo(this);
}
