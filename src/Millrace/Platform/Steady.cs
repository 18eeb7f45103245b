// Calls of the runtime's library that may wait for a moment (for a lock inside of it), made steady as SteadyLock is: where
// ThreadInterruptedException ends the wait, the call has done nothing yet and is made again.

using System.Collections.Concurrent;

namespace Millrace.Platform;

internal static class Steady
{
    private const int MemoryPauseMs = 5;

    /// <summary>Does what waits first and acts afterwards, whatever interrupts the waiting.</summary>
    public static void Do<T>(Action<T> action, T state)
    {
        bool isInterrupted = false;
        while (true)
        {
            try
            {
                action(state);
                break;
            }
            catch (ThreadInterruptedException)
            {
                isInterrupted = true;
            }
        }

        if (isInterrupted)
        {
            Thread.CurrentThread.Interrupt();   // for the wait of user code it was meant for; between requests it is forgotten
        }
    }

    /// <summary>
    /// Waits a moment for another thread, which has what is wanted for no longer than that. <see cref="SpinWait.SpinOnce(int)"/> sleeps now and then, if for
    /// no time at all, and any sleep ends by an interruption.
    /// </summary>
    public static void Spin(ref SpinWait spin)
    {
        if (spin.NextSpinWillYield)
        {
            Thread.Yield();
        }
        else
        {
            spin.SpinOnce(sleep1Threshold: -1);
        }
    }

    /// <summary>The same for what must not be lost: where there is no memory for it, it waits until there is.</summary>
    public static void DoInTheEnd<T>(Action<T> action, T state)
    {
        while (true)
        {
            try
            {
                Do(action, state);
                return;
            }
            catch (OutOfMemoryException)
            {
                SystemCalls.SleepMs(MemoryPauseMs);
            }
        }
    }

    /// <summary>Has the thread pool run it.</summary>
    public static void Queue(Action<object?> action, object? state) =>
        DoInTheEnd(static work => ThreadPool.UnsafeQueueUserWorkItem(work.action, work.state, preferLocal: false), (action, state));
}

/// <summary>A queue between threads that an interruption of one of them does not break.</summary>
internal sealed class SteadyQueue<T>
{
    private readonly ConcurrentQueue<T> _queue = new();

    public bool IsEmpty => _queue.IsEmpty;

    public int Count
    {
        get
        {
            try
            {
                return _queue.Count;
            }
            catch (ThreadInterruptedException)
            {
                int count = Count;
                Thread.CurrentThread.Interrupt();
                return count;
            }
        }
    }

    /// <summary>Where there is no memory for it, it waits until there is.</summary>
    public void Enqueue(T item) => Steady.DoInTheEnd(static work => work._queue.Enqueue(work.item), (_queue, item));

    /// <summary>False where there is no memory for it.</summary>
    public bool TryEnqueue(T item)
    {
        try
        {
            Steady.Do(static work => work._queue.Enqueue(work.item), (_queue, item));
            return true;
        }
        catch (OutOfMemoryException)
        {
            return false;
        }
    }

    public bool TryDequeue([System.Diagnostics.CodeAnalysis.MaybeNullWhen(false)] out T item)
    {
        try
        {
            return _queue.TryDequeue(out item);
        }
        catch (ThreadInterruptedException)
        {
            bool taken = TryDequeue(out item);
            Thread.CurrentThread.Interrupt();
            return taken;
        }
    }
}
