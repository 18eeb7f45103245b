// SCHED_BATCH (sched(7)) for driver threads: the same share of the processor as any thread, and whoever wakes one is not
// stopped for it. docs/decisions, batch scheduling, has the reasons and the figures.
//
//   lasting   while the thread drives a busy loop, handlers included (Enter, Leave): costs nothing per request. Threads that
//             the runtime starts from a handler have the policy too, until TakeBack finds them.
//   waiting   only while the thread waits (Waking.InTurn in LinuxKernel.cs): where code is loaded that starts threads or
//             processes by itself, which would have the policy (CodeWatch.MayStart).

using System.Globalization;

namespace Millrace.Platform;

internal static unsafe class BatchScheduling
{
    // Threads under it by Enter.
    private static readonly HashSet<int> s_threads = [];
    private static readonly SteadyLock s_lock = new();

    [ThreadStatic]
    private static int t_entered;       // the calling thread's number while it is one of them

    [ThreadStatic]
    private static bool t_mayNotChange;

    /// <summary>First on a driver thread: it does not have the policy from the driver that has started it.</summary>
    public static void BeginThread()
    {
        using (s_lock.Hold())
        {
            if (s_threads.Count == 0)
            {
                return;
            }
        }

        TakeBackFrom(SystemCalls.ThreadNumber());
    }

    /// <summary>The calling thread is under it until <see cref="Leave"/>, unless its policy is not the server's to change.</summary>
    public static void Enter()
    {
        if (t_entered == 0 && !t_mayNotChange)
        {
            t_entered = SystemCalls.ThreadNumber();
            using (s_lock.Hold())
            {
                s_threads.Add(t_entered);       // before it is under it: whoever takes back leaves it alone
            }

            if (!TryChange())
            {
                Forget();
            }
        }
    }

    public static void Leave()
    {
        if (t_entered != 0)
        {
            Set(SystemCalls.SCHED_OTHER);
            Forget();
        }
    }

    private static void Forget()
    {
        using (s_lock.Hold())
        {
            s_threads.Remove(t_entered);
        }

        t_entered = 0;
    }

    /// <summary>Puts the calling thread under it; false where the administrator or a handler has given the thread another policy, or it is not allowed.</summary>
    public static bool TryChange()
    {
        if (t_mayNotChange)
        {
            return false;
        }

        int policy, priority;
        t_mayNotChange = SystemCalls.GetScheduling(SystemCalls.CurrentThread(), &policy, &priority) != 0
            || policy != SystemCalls.SCHED_OTHER || !Set(SystemCalls.SCHED_BATCH);
        return !t_mayNotChange;
    }

    /// <summary>Puts the calling thread under SCHED_OTHER or SCHED_BATCH.</summary>
    public static bool Set(int policy)
    {
        int priority = 0;
        return SystemCalls.SetScheduling(SystemCalls.CurrentThread(), policy, &priority) == 0;
    }

    /// <summary>Puts threads of this process that have it from the thread that started them under SCHED_OTHER; <paramref name="all"/>: the drivers as well.</summary>
    public static void TakeBack(bool all)
    {
        HashSet<int> entered;
        using (s_lock.Hold())
        {
            entered = [.. s_threads];
        }

        if (entered.Count == 0)
        {
            return;
        }

        if (all)
        {
            foreach (int thread in entered)
            {
                TakeBackFrom(thread);
            }
        }

        try
        {
            foreach (string task in Directory.EnumerateDirectories("/proc/self/task"))
            {
                if (int.TryParse(Path.GetFileName(task.AsSpan()), NumberStyles.None, CultureInfo.InvariantCulture, out int thread) && !entered.Contains(thread))
                {
                    TakeBackFrom(thread);
                }
            }
        }
        catch (IOException)
        {
            // No descriptor is left to look with, or there is no /proc: the monitor comes back.
        }
    }

    private static void TakeBackFrom(int thread)
    {
        if (SystemCalls.PolicyOf(thread) == SystemCalls.SCHED_BATCH)
        {
            SystemCalls.SetPolicyOf(thread, SystemCalls.SCHED_OTHER);
        }
    }
}
