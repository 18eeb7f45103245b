// A lock for code that runs on driver threads. Handlers run there too, and somebody may call Thread.Interrupt for such a thread
// when its handler has ended: any wait throws ThreadInterruptedException then, that for a lock included, and a loop or a
// connection would be left with half of its work done. This lock waits on, and leaves the interruption pending for whoever it
// was meant for.

using System.Runtime.CompilerServices;

namespace Millrace.Platform;

internal class SteadyLock
{
    private readonly Lock _lock = new();

    /// <summary>Takes the lock, again if the thread has it already; disposing of the answer gives it back.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public Holder Hold()
    {
        if (!_lock.TryEnter())
        {
            Wait();
        }

        return new Holder(_lock);
    }

    /// <summary>The same, unless another thread has the lock and keeps it for long: false then, and there is nothing to give back.</summary>
    /// <param name="isLong">Set by whoever has the lock.</param>
    /// <param name="held">Gives it back.</param>
    public bool TryHold(ref readonly bool isLong, out Holder held)
    {
        var spin = default(SpinWait);
        while (!_lock.TryEnter())
        {
            if (Volatile.Read(in isLong))
            {
                held = default;
                return false;
            }

            Steady.Spin(ref spin);
        }

        held = new Holder(_lock);
        return true;
    }

    private void Wait() => Steady.Do(static self => self._lock.Enter(), this);

    public readonly ref struct Holder(Lock held)
    {
        public void Dispose() => held.Exit();
    }
}
