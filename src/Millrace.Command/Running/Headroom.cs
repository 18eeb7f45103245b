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

    private static readonly Lock s_one = new();

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

    /// <summary>Opens what takes so many descriptors, one after the other.</summary>
    /// <exception cref="MillraceStartException">They are not left.</exception>
    public static T Open<T>(int count, Func<T> open)
    {
        lock (s_one)
        {
            return Has(count) ? open() : throw new MillraceStartException("No open files are left for it: raise the limit (LimitNOFILE= of the unit, ulimit -n).");
        }
    }
}
