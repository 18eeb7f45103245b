// Where the next handler of a loop runs: on the loop itself, or on a worker thread. One per loop, touched by its driver,
// and by the monitor while it holds the loop.

namespace Millrace.Loops;

internal sealed class DispatchPolicy(DispatchMode mode)
{
    /// <summary>Handlers looked at before a verdict. What happened among those before is forgotten.</summary>
    public const int SampleCalls = 400;

    /// <summary>Hand-overs among so many that send handlers to the workers: from one in fifty on, workers serve more requests.</summary>
    public const int SampleHandOvers = 8;

    /// <summary>Hand-overs that bring the verdict earlier, where they are more than one in <see cref="EarlyShare"/>: each costs its loop a millisecond or two.</summary>
    public const int EarlyHandOvers = 3;

    public const int EarlyShare = 10;

    /// <summary>The share that is enough when handlers come back from the workers.</summary>
    public const int EarlyShareAgain = 25;

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

            return (++_calls < SampleCalls && _handOvers < EarlyHandOvers) || Judge(nowMs);
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

    // To the workers for a while, and for longer the more often that happens.
    private bool Judge(long nowMs)
    {
        int share = _backOffMs == BackOffMsMin ? EarlyShare : EarlyShareAgain;
        bool often = mode == DispatchMode.Adaptive && _handOvers >= (_handOvers * share > _calls ? EarlyHandOvers : SampleHandOvers);
        if (!often && _calls < SampleCalls)
        {
            return true;
        }

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
