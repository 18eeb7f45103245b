// How busy a loop is, and so how it is woken: where requests are many it pays to be woken for several at a time. A loop with little to do is
// woken at once, by one system call.

using Millrace.Platform;

namespace Millrace.Loops;

/// <param name="mayWaitItsTurn">Whether a busy loop is woken in its turn (BatchScheduling).</param>
internal struct LoopLoad(bool mayWaitItsTurn)
{
    private const int BusyEventsPerMs = 6;
    private const int CountMsMin = 8;

    private long _countedSinceMs;
    private int _counted;               // events since then

    public Waking Waking { get; private set; }

    public void Count(int events, long nowMs)
    {
        _counted += events;
        long passedMs = nowMs - _countedSinceMs;
        if (passedMs >= CountMsMin)
        {
            Waking = mayWaitItsTurn && _counted >= BusyEventsPerMs * passedMs ? Waking.InTurn : Waking.AtOnce;
            _counted = 0;
            _countedSinceMs = nowMs;
        }
    }
}
