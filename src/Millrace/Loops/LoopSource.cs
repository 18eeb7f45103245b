// What a loop watches besides listeners and its connections: a descriptor that something of the server has opened for itself, such as a connection to an
// application that requests are passed on to. The loop's driver alone calls it, but for OnLoopEnded.

using Millrace.Platform;

namespace Millrace.Loops;

internal abstract class LoopSource
{
    /// <summary>-1 once it is closed.</summary>
    public int Descriptor { get; private protected set; } = -1;

    /// <summary>Says in events which source they are of.</summary>
    public ulong Token { get; private protected set; }

    /// <summary>Something has come, or may be sent, or the peer has gone. Edge-triggered. Runs code of an application by <see cref="LoopSources.RunCode"/> alone, and last.</summary>
    /// <returns>False: the loop was taken over; touch nothing.</returns>
    public abstract bool OnEvent(LoopDriver driver, Readiness ready);

    /// <summary>It has been posted to its loop; perhaps for something that is over by now.</summary>
    /// <inheritdoc cref="OnEvent"/>
    public abstract bool OnPosted(LoopDriver driver);

    /// <summary>A fault of the server itself: this source ends, and nothing waits for it.</summary>
    public abstract void EndByFault();

    /// <summary>Nothing of what it has posted or waits for comes any more. Any thread, perhaps several times.</summary>
    public virtual void OnLoopEnded()
    {
    }

    // ---- the loop's ----

    internal void Open(int descriptor, ulong token) => (Descriptor, Token) = (descriptor, token);

    internal void Forget() => Descriptor = -1;
}
