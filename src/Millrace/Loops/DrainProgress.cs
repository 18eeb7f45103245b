// How far the drain of a loop is: not begun, draining (what is idle, or becomes idle, is closed), cutting (the time for that is over: everything is cut, and who
// comes in is sent away). It goes one way, whoever says what first.

namespace Millrace.Loops;

internal struct DrainProgress
{
    private Phase _phase;

    /// <summary>On the kernel's clock, in ms; 0 before.</summary>
    public long BegunMs { get; private set; }

    public readonly bool HasBegun => _phase != Phase.None;

    public readonly bool IsCutting => _phase == Phase.Cutting;

    public void Begin(long nowMs)
    {
        Reach(Phase.Draining);
        BegunMs = nowMs;
    }

    public void Cut() => Reach(Phase.Cutting);

    private void Reach(Phase its)
    {
        if (_phase < its)
        {
            _phase = its;
        }
    }

    private enum Phase : byte
    {
        None,
        Draining,
        Cutting,
    }
}
