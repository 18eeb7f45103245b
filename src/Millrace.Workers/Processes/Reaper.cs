// One thread that waits for the ends of all children of this process's pools.

namespace Millrace.Workers.Processes;

internal sealed class Reaper
{
    private static readonly Lock s_lock = new();
    private static Reaper? s_one;

    private readonly int _wake = Posix.OpenEvent();
    private readonly Lock _lock = new();
    private readonly Dictionary<int, (int Child, Action<int?> Ended)> _children = [];

    // Where there is no descriptor left for it the next one tries again.
    private static Reaper One()
    {
        lock (s_lock)
        {
            return s_one ??= new Reaper();
        }
    }

    private Reaper() => new Thread(Run) { IsBackground = true, Name = "millrace children" }.UnsafeStart();

    /// <summary>Has somebody told when a child ends: its exit code, or 128 and the signal; null where the system does not say.</summary>
    /// <param name="child">Its number.</param>
    /// <param name="descriptor">See <see cref="Posix.OpenProcess"/>.</param>
    /// <param name="ended">Called once, on the thread pool; the descriptor is the caller's to close.</param>
    public static void Watch(int child, int descriptor, Action<int?> ended)
    {
        Reaper one = One();
        lock (one._lock)
        {
            one._children.Add(descriptor, (child, ended));
        }
        Posix.SetEvent(one._wake);
    }

    private void Run()
    {
        while (true)
        {
            Posix.PollEntry[] entries;
            lock (_lock)
            {
                entries = [new(_wake), .. _children.Keys.Select(static descriptor => new Posix.PollEntry(descriptor))];
            }
            Posix.Wait(entries);
            if (entries[0].Seen != 0)
            {
                Posix.ClearEvent(_wake);
            }
            foreach (Posix.PollEntry entry in entries.AsSpan(1))
            {
                if (entry.Seen != 0)
                {
                    Take(entry.Descriptor);
                }
            }
        }
    }

    private void Take(int descriptor)
    {
        (int Child, Action<int?> Ended) child;
        lock (_lock)
        {
            _ = _children.Remove(descriptor, out child);
        }
        int? how = Posix.TakeEnd(child.Child);
        _ = ThreadPool.UnsafeQueueUserWorkItem(static told => told.Ended(told.How), (child.Ended, How: how), preferLocal: false);
    }
}
