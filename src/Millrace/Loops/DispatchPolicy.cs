// Where the next handler of a loop runs: on the loop itself, or on a worker thread. One per loop, touched by its driver,
// and by the monitor while it holds the loop.

namespace Millrace.Loops;

internal sealed class DispatchPolicy(DispatchMode mode)
{
    /// <summary>Handlers looked at before a verdict.</summary>
    public const int SampleCalls = 20;

    /// <summary>Hand-overs that bring the verdict earlier.</summary>
    public const int SampleHandOvers = 3;

    public const int BackOffMsMin = 100;
    public const int BackOffMsMax = 1_000;

    private int _calls;
    private int _handOvers;
    private int _backOffMs = BackOffMsMin;
    private long _workersUntilMs;

    /// <summary>True when handlers go to worker threads for the time being.</summary>
    public bool UsesWorkers => mode == DispatchMode.Workers || _workersUntilMs != 0;

    /// <summary>Decides for one handler about to start.</summary>
    public bool RunsInline(long nowMs)
    {
        if (_workersUntilMs == 0)
        {
            if (mode == DispatchMode.Workers)
            {
                return false;
            }

            if (++_calls < SampleCalls && _handOvers < SampleHandOvers)
            {
                return true;
            }

            return Judge(nowMs);
        }

        if (nowMs < _workersUntilMs)
        {
            return false;
        }

        _workersUntilMs = 0;
        return true;
    }

    /// <summary>A handler blocked and its loop was handed over.</summary>
    public void HandedOver() => _handOvers++;

    // More than one in ten handed over: to the workers for a while, and for longer the more often that happens.
    private bool Judge(long nowMs)
    {
        bool often = mode == DispatchMode.Adaptive && _handOvers * 10 > _calls;
        _calls = 0;
        _handOvers = 0;
        if (!often)
        {
            _backOffMs = BackOffMsMin;
            return true;
        }

        _workersUntilMs = nowMs + _backOffMs;
        _backOffMs = Math.Min(_backOffMs * 2, BackOffMsMax);
        return false;
    }
}
