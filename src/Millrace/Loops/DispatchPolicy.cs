// Where the next handler of a loop runs: on the loop itself, or on a worker thread. One per loop, touched by its driver,
// and by the monitor while it holds the loop.

namespace Millrace.Loops;

internal sealed class DispatchPolicy(DispatchMode mode)
{
    /// <summary>Length of a sample: after so many handlers without a verdict, counting starts anew.</summary>
    public const int SampleCalls = 400;

    /// <summary>Hand-overs within a sample that send handlers to the workers: where one in fifty blocks, workers serve more requests.</summary>
    public const int SampleHandOvers = 8;

    /// <summary>Hand-overs that are enough where they are more than one in <see cref="EarlyOneIn"/>: each costs its loop a millisecond or two.</summary>
    public const int EarlyHandOvers = 3;

    /// <summary>See <see cref="EarlyHandOvers"/>.</summary>
    public const int EarlyOneIn = 10;

    /// <summary>The same for handlers that have just come back from the workers.</summary>
    public const int EarlyOneInAgain = 25;

    public const int BackOffMsMin = 100;
    public const int BackOffMsMax = 1_000;

    private int _calls;
    private int _handOvers;
    private int _backOffMs = BackOffMsMin;
    private long _workersUntilMs;

    /// <summary>True when handlers go to worker threads for the time being.</summary>
    public bool UsesWorkers(long nowMs) => mode == DispatchMode.Workers || nowMs < _workersUntilMs;

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

    // Eight in four hundred handed over, or three of a few: to the workers for a while, and for longer the more often that happens.
    private bool Judge(long nowMs)
    {
        bool isBack = _backOffMs != BackOffMsMin;
        bool isDense = _handOvers * (isBack ? EarlyOneInAgain : EarlyOneIn) > _calls;
        bool often = mode == DispatchMode.Adaptive && _handOvers >= (isDense ? EarlyHandOvers : SampleHandOvers);
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
