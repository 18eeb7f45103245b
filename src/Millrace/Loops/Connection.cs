// A connection as loops, timers and the gate see it: a descriptor with a deadline, told of what happens to it.

using Millrace.Exchanges;
using Millrace.Platform;

namespace Millrace.Loops;

internal abstract class Connection(int descriptor, ResponseFraming framing) : ResponseChannel(framing)
{
    /// <summary>It came by an address whose requests do not count, and wait for nobody.</summary>
    public bool IsUncounted { get; init; }

    public int Descriptor => descriptor;

    /// <summary>Or a Unix socket.</summary>
    public abstract bool IsTcp { get; }

    public ulong Token { get; set; }

    /// <summary>What its loop watches besides.</summary>
    public abstract LoopSources Sources { get; }

    /// <summary>The descriptor is closed, or another server's.</summary>
    public abstract bool IsClosed { get; }

    // ---- deadline (DeadlineWheel) ----
    public long DeadlineMs = long.MaxValue;
    public long WheelDueMs = long.MaxValue;
    public int WheelSlot = -1;
    public Connection? WheelNext;
    public Connection? WheelPrevious;

    // ---- called by the loop's driver; false: the loop was taken over meanwhile ----
    /// <param name="driver">Drives the loop.</param>
    /// <param name="moved">Of a connection that another server has had before, what that one knew of it.</param>
    public abstract bool OnAccepted(LoopDriver driver, MovedConnection? moved);

    public abstract bool OnEvent(LoopDriver driver, Readiness ready);

    public abstract bool OnPosted(LoopDriver driver);

    public abstract bool OnHandedOver(LoopDriver driver);

    public abstract void OnDeadline(long nowMs);

    public abstract void OnDrain(long nowMs, long begunMs, bool cut);

    /// <summary>Has the event queue tell of this connection. The loop tries again while the kernel has no room.</summary>
    public abstract void Register();

    // ---- called by others ----
    /// <summary>A worker.</summary>
    public abstract void RunOnWorker(LoopDriver driver);

    /// <summary>Whoever leaves the gate, on any thread.</summary>
    public abstract void AdmitFromGate();

    /// <summary>A fault of the server itself, on the loop: this connection ends.</summary>
    public abstract void EndByFault();
}
