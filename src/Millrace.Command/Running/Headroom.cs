// The descriptors that a daemon leaves to its runtime: without any, that ends the process in the middle of whatever it does ("Out of memory.": it cannot open
// /proc/self/status). What needs more than is left is refused, and the daemon goes on.

using Millrace.Platform;

namespace Millrace.Command.Running;

internal static class Headroom
{
    /// <summary>For what a daemon's own requests, files and pipes take for a moment.</summary>
    private const int Reserved = 24;

    // The kernel makes room for all numbers up to the one that is asked for, and keeps it: 8 bytes for each. So the first is asked for that nobody needs who has few of them open.
    private const int AskedFirst = 65_536;
    private const long AskedMost = 1 << 30;     // no kernel gives more

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(5);
    private static readonly object s_one = new();
    private static int s_promised;      // to what is being opened

    /// <summary>Whether so many descriptors can be taken.</summary>
    public static bool Has(int count) => Has(count, AskedFirst);

    /// <summary>The same with the number up to which it is asked first.</summary>
    internal static bool Has(int count, int askedFirst)
    {
        long most = Math.Min(Posix.DescriptorsMost(), AskedMost);
        lock (s_one)        // another one would find the number taken that is being asked for here
        {
            for (long below = Math.Min(most, askedFirst); ; below = Math.Min(most, 2 * below))
            {
                bool isFree = IsFree(below - Reserved - count);
                if (isFree || below == most)
                {
                    return isFree;
                }
            }
        }
    }

    // The kernel gives the lowest number that is free: where this one is, hardly any above it has been given.
    private static bool IsFree(long lowest)
    {
        int probe = lowest < 0 ? -1 : SystemCalls.Fcntl(1, SystemCalls.F_DUPFD_CLOEXEC, (int)lowest);
        if (probe < 0)
        {
            return lowest >= 0 && SystemCalls.Errno == SystemCalls.EBADF;       // closed standard output says nothing of the others
        }
        _ = SystemCalls.Close(probe);
        return probe == lowest;
    }

    /// <summary>Opens what takes so many descriptors, which nobody else is promised meanwhile.</summary>
    /// <param name="count">How many.</param>
    /// <param name="open">Opens it.</param>
    /// <param name="givenUp">Nobody waits for it any more: what it has not taken yet is others'.</param>
    /// <exception cref="MillraceStartException">They are not left.</exception>
    public static T Open<T>(int count, Func<T> open, CancellationToken givenUp = default)
    {
        Promise(count);
        int isOver = 0;
        void GiveBack()
        {
            if (Interlocked.Exchange(ref isOver, 1) == 1)
            {
                return;
            }
            lock (s_one)
            {
                s_promised -= count;
                Monitor.PulseAll(s_one);
            }
        }
        try
        {
            using var early = givenUp.UnsafeRegister(_ => GiveBack(), null);
            return open();
        }
        finally
        {
            GiveBack();
        }
    }

    // Others may be about to take what is still there. They are waited for while they come to an end: what one of them opens may lie on a file system that stands still.
    private static void Promise(int count)
    {
        lock (s_one)
        {
            while (!Has(count + s_promised))
            {
                if (s_promised == 0 || !Monitor.Wait(s_one, s_patience))
                {
                    throw new MillraceStartException("No open files are left for it: raise the limit (LimitNOFILE= of the unit, ulimit -n).");
                }
            }
            s_promised += count;
        }
    }
}
