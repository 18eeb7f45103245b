// Calls that may wait for as long as whoever stands behind a file likes: an application has chosen it, or has sent it. A program of FUSE that has been asked and does not answer
// keeps a thread that nothing ends, not even SIGKILL, and until then it looks as any that waits (state S in proc_pid_stat(5)). So they are noted here: execve(2) ends all threads
// but its own first, and would wait for such a one for good.

namespace Millrace.Platform;

internal static class ForeignCalls
{
    private static readonly SteadyLock s_lock = new();
    private static readonly Dictionary<long, string> s_underWay = [];
    private static long s_last;
    private static bool s_isPaused;

    /// <summary>Those under way: each by a number of its own, with where it waits.</summary>
    public static IReadOnlyDictionary<long, string> UnderWay
    {
        get
        {
            using (s_lock.Hold())
            {
                return new Dictionary<long, string>(s_underWay);
            }
        }
    }

    /// <summary>From now on none begins that can be put off.</summary>
    public static void Pause() => SetPaused(true);

    public static void GoOn() => SetPaused(false);

    /// <summary>The number of a call that is about to be made; null where it is to be put off.</summary>
    /// <param name="where">For a sentence.</param>
    public static long? TryBegin(string where)
    {
        using (s_lock.Hold())
        {
            return s_isPaused ? null : Note(where);
        }
    }

    /// <summary>The same of one that cannot be put off.</summary>
    public static long Begin(string where)
    {
        using (s_lock.Hold())
        {
            return Note(where);
        }
    }

    public static void End(long number)
    {
        using (s_lock.Hold())
        {
            s_underWay.Remove(number);
        }
    }

    private static long Note(string where)
    {
        s_underWay.Add(++s_last, where);
        return s_last;
    }

    private static void SetPaused(bool isPaused)
    {
        using (s_lock.Hold())
        {
            s_isPaused = isPaused;
        }
    }
}
