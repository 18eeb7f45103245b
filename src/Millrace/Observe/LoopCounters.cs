// Counters of one loop. Its driver alone writes them, so they need no lock; readers may see them a moment late.

using System.Collections.Concurrent;
using Millrace.Platform;

namespace Millrace.Observe;

internal sealed class LoopCounters
{
    public long Accepted;
    public long Closed;
    public long Moved;
    public long Requests;
    public long HandOvers;
    public long Workers;
    public long WentAsync;
    public long Queued;
    public long Aborts;
    public long BytesReceived;
    public long BytesSent;

    /// <summary>Requests whose handler ended after the drain had begun; those that were cut at its end are not among them.</summary>
    public long EndedInDrain;
    public long CutInDrain;

    /// <summary>Responses by class: index 1 is 1xx.</summary>
    public readonly long[] Responses = new long[6];

    private readonly ConcurrentDictionary<string, long> _refusals = new();

    public void CountStatus(int status) => Responses[Math.Clamp(status / 100, 0, 5)]++;

    /// <summary>For any thread, where the counters are those of all of them.</summary>
    public void CountStatusShared(int status) => Interlocked.Increment(ref Responses[Math.Clamp(status / 100, 0, 5)]);

    /// <summary>Not on the path of good requests.</summary>
    public void Refused(string refusal) => Steady.Do(
        static work => work._refusals.AddOrUpdate(work.refusal, 1, static (_, n) => n + 1), (_refusals, refusal));

    public IEnumerable<KeyValuePair<string, long>> Refusals => _refusals;
}
