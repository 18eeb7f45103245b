// What a pool counts. Written under the dispatcher's lock, read by whoever asks, perhaps a moment old.

using System.Diagnostics.Metrics;

namespace Millrace.Workers;

internal sealed class PoolCounters
{
    private readonly long[] _ends = new long[Enum.GetValues<WorkerEnd>().Length];

    public long Calls;
    public long Failures;
    public long RefusedFull;
    public long RefusedLate;
    public long LeftQueue;
    public long OverTime;

    /// <summary>How long calls have waited, and how long they took; null: there is no meter.</summary>
    public Histogram<double>? Waits { get; set; }

    public Histogram<double>? Durations { get; set; }

    /// <summary>Not under the lock: whoever listens is code of the application's, and what it throws concerns neither the worker nor its next call.</summary>
    public void NoteCall(Limits limits, long waited, long took)
    {
        Record(Waits, limits.Time(waited));
        Record(Durations, limits.Time(took));
    }

    private void Record(Histogram<double>? times, TimeSpan time)
    {
        try
        {
            if (times is { Enabled: true })
            {
                times.Record(time.TotalSeconds, Tag);
            }
        }
        catch (Exception)
        {
            // There is nobody to tell: the call is over, and the worker has perhaps its next one.
        }
    }

    /// <summary>Says which pool it was.</summary>
    public KeyValuePair<string, object?> Tag { get; set; }

    public void NoteEnd(WorkerEnd reason) => _ends[(int)reason]++;

    public long EndsFor(WorkerEnd reason) => Volatile.Read(ref _ends[(int)reason]);
}
