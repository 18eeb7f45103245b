// Wakes one thread. Whoever rings pays for a system call only when the thread sleeps; the thread stays awake for a moment before it does, since the next call is often on its
// way already.

namespace Millrace.Workers;

internal sealed class Doorbell
{
    private const int Quiet = 0;
    private const int Rung = 1;
    private const int Asleep = -1;

    private readonly object _gate = new();
    private int _state;

    /// <summary>There is something to do. From any thread.</summary>
    public void Ring()
    {
        if (Interlocked.Exchange(ref _state, Rung) == Asleep)
        {
            Interruption.Outlast(Monitor.Enter, _gate);
            Monitor.Pulse(_gate);
            Monitor.Exit(_gate);
        }
    }

    /// <summary>Waits for a ring since the last wait.</summary>
    /// <param name="spins">How often to look, giving the processor away in between, before the thread sleeps.</param>
    public void Wait(int spins = 0)
    {
        for (int i = 0; i < spins; i++)
        {
            if (Volatile.Read(ref _state) == Rung)
            {
                break;
            }
            _ = Thread.Yield();
        }
        if (Interlocked.CompareExchange(ref _state, Asleep, Quiet) == Quiet)
        {
            Sleep(Timeout.Infinite);
        }
        _ = Interlocked.Exchange(ref _state, Quiet);        // before whatever the thread looks at next
    }

    /// <summary>The same, but for no longer than this.</summary>
    public void WaitFor(int milliseconds)
    {
        if (Interlocked.CompareExchange(ref _state, Asleep, Quiet) == Quiet)
        {
            Sleep(milliseconds);
        }
        _ = Interlocked.Exchange(ref _state, Quiet);        // before whatever the thread looks at next
    }

    // An interruption was meant for a call, and is over with it.
    private void Sleep(int milliseconds)
    {
        bool isLeft = false;
        while (!isLeft)
        {
            try
            {
                lock (_gate)
                {
                    while (_state == Asleep && !isLeft)
                    {
                        isLeft = !Monitor.Wait(_gate, milliseconds);
                    }
                    isLeft = true;
                }
            }
            catch (ThreadInterruptedException)
            {
            }
        }
    }
}
