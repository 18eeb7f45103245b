// The descriptors that a daemon leaves to its runtime: without any, that ends the process in the middle of whatever it does ("Out of memory.": it cannot open
// /proc/self/status). What needs more than is left is refused, and the daemon goes on.

using Millrace.Platform;

namespace Millrace.Command.Running;

internal static class Headroom
{
    /// <summary>For what a daemon's own requests, files and pipes take for a moment.</summary>
    private const int Reserved = 24;

    // The kernel makes room for all numbers up to the one that is asked for.
    private const int Most = 65_536;

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(5);
    private static readonly object s_one = new();
    private static int s_promised;      // to what is being opened

    /// <summary>Whether so many descriptors can be taken.</summary>
    public static bool Has(int count)
    {
        // The kernel gives the lowest number that is free: where this one is, hardly any above it has been given.
        int lowest = (int)Math.Min(Posix.DescriptorsMost(), Most) - Reserved - count;
        int probe = lowest < 0 ? -1 : SystemCalls.Fcntl(1, SystemCalls.F_DUPFD_CLOEXEC, lowest);
        if (probe < 0)
        {
            return lowest >= 0 && SystemCalls.Errno == SystemCalls.EBADF;       // closed standard output says nothing of the others
        }
        _ = SystemCalls.Close(probe);
        return probe == lowest;
    }

    /// <summary>Opens what takes so many descriptors, which nobody else is promised meanwhile.</summary>
    /// <exception cref="MillraceStartException">They are not left.</exception>
    public static T Open<T>(int count, Func<T> open)
    {
        Promise(count);
        try
        {
            return open();
        }
        finally
        {
            lock (s_one)
            {
                s_promised -= count;
                Monitor.PulseAll(s_one);
            }
        }
    }

    // Others may be about to take what is still there. They are waited for, but not without end: what one of them opens may lie on a file system that stands still.
    private static void Promise(int count)
    {
        long giveUpAt = Environment.TickCount64 + (long)s_patience.TotalMilliseconds;
        lock (s_one)
        {
            while (!Has(count + s_promised))
            {
                long left = giveUpAt - Environment.TickCount64;
                if (s_promised == 0 || left <= 0 || !Monitor.Wait(s_one, TimeSpan.FromMilliseconds(left)))
                {
                    throw new MillraceStartException("No open files are left for it: raise the limit (LimitNOFILE= of the unit, ulimit -n).");
                }
            }
            s_promised += count;
        }
    }
}
