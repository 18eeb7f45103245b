// What a loop's thread allocates from one request to the next: each request notes the thread's counter, and the differences
// between requests on the same thread are everything the server did in between. The runtime allocates on that thread too
// (new tiers of code, the first use of a type): rarely, and much at once. Such requests can be told apart by their number.

namespace Millrace.Tests.Allocation;

internal sealed class ThreadAllocation(int warmUp, int measured)
{
    [ThreadStatic]
    private static long t_last;

    // Of the largest differences, this share is the runtime's: an allocation of the server's would be in far more requests.
    private const int RuntimePerThousand = 5;

    private readonly long[] _differences = new long[measured];
    private int _calls;
    private int _counted;

    /// <summary>Requests to be sent.</summary>
    public int Requests => warmUp + measured;

    /// <summary>Differences taken.</summary>
    public int Counted => _counted;

    public long Bytes => Differences.Sum();

    /// <summary>Requests from which anything at all was allocated to the next.</summary>
    public int Allocating => Differences.Count(static bytes => bytes > 0);

    /// <summary>The mean without the few requests in which the runtime itself allocated.</summary>
    public double BytesPerRequest => Differences.Order().Take(_counted - (_counted * RuntimePerThousand / 1000)).Average();

    private IEnumerable<long> Differences => _differences.Take(_counted);

    /// <summary>Called by the handler, once a request.</summary>
    public void Note()
    {
        long now = GC.GetAllocatedBytesForCurrentThread();
        if (++_calls > warmUp && t_last != 0)
        {
            _differences[_counted++] = now - t_last;
        }

        t_last = now;
    }

    /// <summary>The thread's next difference is not taken: something else has run on it.</summary>
    public static void Forget() => t_last = 0;
}
