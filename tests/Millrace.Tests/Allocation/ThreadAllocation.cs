// What a loop's thread allocates from one request to the next: each request notes the thread's counter, and the differences
// between requests on the same thread are everything the server did in between.

namespace Millrace.Tests.Allocation;

internal sealed class ThreadAllocation(int warmUp, int measured)
{
    [ThreadStatic]
    private static long t_last;

    private int _calls;
    private long _bytes;
    private int _counted;
    private int _allocating;

    /// <summary>Requests to be sent.</summary>
    public int Requests => warmUp + measured;

    /// <summary>Differences taken.</summary>
    public int Counted => _counted;

    public long Bytes => _bytes;

    /// <summary>Requests from which anything at all was allocated to the next.</summary>
    public int Allocating => _allocating;

    public double BytesPerRequest => (double)_bytes / _counted;

    /// <summary>Called by the handler, once a request.</summary>
    public void Note()
    {
        long now = GC.GetAllocatedBytesForCurrentThread();
        if (++_calls > warmUp && t_last != 0)
        {
            _bytes += now - t_last;
            _allocating += now > t_last ? 1 : 0;
            _counted++;
        }

        t_last = now;
    }

    /// <summary>The thread's next difference is not taken: something else has run on it.</summary>
    public static void Forget() => t_last = 0;
}
