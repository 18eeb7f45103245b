// The meter "Millrace.Workers": sums are read when a listener asks; times of calls are recorded while one listens.

using System.Diagnostics.Metrics;

namespace Millrace.Workers;

internal sealed class WorkerPoolMeter<TWorker> : IDisposable
{
    public const string MeterName = "Millrace.Workers";

    private static readonly WorkerState[] s_states = [WorkerState.Starting, WorkerState.Idle, WorkerState.Busy, WorkerState.Ending, WorkerState.Stuck];

    private readonly Meter _meter = new(MeterName);
    private readonly KeyValuePair<string, object?> _tag;

    public WorkerPoolMeter(string pool, Dispatcher<TWorker> dispatcher)
    {
        _tag = new KeyValuePair<string, object?>("pool", pool);
        PoolCounters counters = dispatcher.Counters;
        _meter.CreateObservableUpDownCounter("millrace.workers.count", () => s_states.Select(state => Measure(dispatcher.CountOf(state), "state", NameOf(state))), "{worker}", "Workers, by state.");
        _meter.CreateObservableUpDownCounter("millrace.workers.waiting", () => Measure(dispatcher.Waiting), "{call}", "Calls that wait for a worker.");
        _meter.CreateObservableCounter("millrace.workers.calls", () => Measure(Volatile.Read(ref counters.Calls)), "{call}", "Calls that have ended at a worker.");
        _meter.CreateObservableCounter("millrace.workers.failures", () => Measure(Volatile.Read(ref counters.Failures)), "{call}", "Calls that have thrown.");
        _meter.CreateObservableCounter("millrace.workers.refused", () => Refused(counters), "{call}", "Calls that no worker had or that did not end in time, by reason.");
        _meter.CreateObservableCounter("millrace.workers.ends", () => Ends(counters), "{worker}", "Workers that have ended, by reason.");
        counters.Tag = _tag;
        counters.Waits = _meter.CreateHistogram<double>("millrace.workers.call.wait", "s", "Time that calls have waited for a worker.");
        counters.Durations = _meter.CreateHistogram<double>("millrace.workers.call.duration", "s", "Time that calls took at their worker.");
    }

    public void Dispose() => _meter.Dispose();

    private Measurement<long> Measure(long value) => new(value, _tag);

    private Measurement<long> Measure(long value, string name, string what) => new(value, _tag, new KeyValuePair<string, object?>(name, what));

    private IEnumerable<Measurement<long>> Refused(PoolCounters counters) =>
    [
        Measure(Volatile.Read(ref counters.RefusedFull), "reason", "full"),
        Measure(Volatile.Read(ref counters.RefusedLate), "reason", "late"),
        Measure(Volatile.Read(ref counters.LeftQueue), "reason", "left"),
        Measure(Volatile.Read(ref counters.OverTime), "reason", "over-time"),
    ];

    private IEnumerable<Measurement<long>> Ends(PoolCounters counters) =>
        Enum.GetValues<WorkerEnd>().Where(static reason => reason != WorkerEnd.None).Select(reason => Measure(counters.EndsFor(reason), "reason", NameOf(reason)));

    // CallLimit is call-limit.
    private static string NameOf<T>(T value)
        where T : struct, Enum =>
        string.Concat(value.ToString().Select(static (c, i) => char.IsUpper(c) ? (i > 0 ? "-" : "") + char.ToLowerInvariant(c) : c.ToString()));
}
