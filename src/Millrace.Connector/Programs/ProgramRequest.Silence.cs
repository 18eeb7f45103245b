// How long the program may be silent. While the visitor is waited for, for his body or for room for the answer, its silence is nobody's.

namespace Millrace.Connector;

internal sealed partial class ProgramRequest
{
    private int _visitorWaits;

    // Whoever begins or ends to wait for the visitor does this behind it: of two that meet the last one has seen both.
    private void NoteLife()
    {
        bool isVisitors;
        do
        {
            isVisitors = Volatile.Read(ref _visitorWaits) > 0;
            _silence.CancelAfter(isVisitors ? Timeout.InfiniteTimeSpan : _options.ReadTimeout);
        }
        while (isVisitors != Volatile.Read(ref _visitorWaits) > 0);
    }

    // What has it next has a time of its own, and the wait for that is nobody's silence.
    private void EndLife() => _silence.CancelAfter(Timeout.InfiniteTimeSpan);

    private void BeginVisitorWait()
    {
        Interlocked.Increment(ref _visitorWaits);
        NoteLife();
    }

    private void EndVisitorWait()
    {
        Interlocked.Decrement(ref _visitorWaits);
        NoteLife();
    }
}
