// Threads that do nothing but be there. Where the system allows a process only so many (pids.max, TasksMax, RLIMIT_NPROC), they end as soon as it refuses one:
// what they leave is for the runtime and the application, which cannot do without. A runtime that finds no thread for SIGTERM ends the process at once; without
// one for its timers every delay of the application fails.

using Millrace.Platform;

namespace Millrace.Loops;

internal sealed class SpareThreads
{
    /// <summary>What the runtime may have to start: for a signal, for timers, for its pool.</summary>
    public const int Most = 8;

    private readonly Stack<ManualResetEventSlim> _kept = new();

    /// <summary>Starts a thread of the system's.</summary>
    public Action<Thread> Start { get; init; } = static thread => thread.UnsafeStart();

    /// <summary>How many there are.</summary>
    public int Count => _kept.Count;

    /// <summary>So many are to be there; whoever calls holds the lock of the pool.</summary>
    /// <exception cref="OutOfMemoryException">The system has refused one.</exception>
    /// <exception cref="ThreadStartException">The same.</exception>
    public void Keep(int count)
    {
        while (_kept.Count > count)
        {
            Steady.Do(static end => end.Set(), _kept.Pop());
        }

        while (_kept.Count < count)
        {
            var end = new ManualResetEventSlim();
            Start(new Thread(end.Wait, 64 * 1024) { IsBackground = true, Name = "Millrace spare" });
            _kept.Push(end);
        }
    }

    /// <summary>Ends them all.</summary>
    /// <returns>Whether there were any.</returns>
    public bool GiveUp()
    {
        bool isAny = _kept.Count > 0;
        Keep(0);
        return isAny;
    }
}
