// The options of a pool as its dispatcher uses them: read once, times in units of its clock.

namespace Millrace.Workers;

internal sealed class Limits
{
    public const long Never = long.MaxValue;

    private readonly TimeProvider _clock;

    public Limits(WorkerPoolOptions options)
    {
        _clock = options.TimeProvider;
        Routing = options.Routing;
        QueueMax = options.QueueMax;
        StuckMax = options.StuckMax;
        InterruptStuck = options.InterruptStuck;
        RecycleOnError = options.RecycleOnError;
        RecycleAfterCalls = options.RecycleAfterCalls ?? long.MaxValue;
        RecycleJitter = options.RecycleJitter;
        WaitTime = options.WaitLimit;
        CallTime = options.CallLimit;
        StartTime = options.StartLimit;
        GrowAfter = Ticks(options.GrowAfter);
        IdleLimit = Ticks(options.IdleLimit);
        WaitLimit = Ticks(options.WaitLimit);
        CallLimit = Ticks(options.CallLimit);
        CancelGrace = Ticks(options.CancelGrace);
        RecycleAfter = Ticks(options.RecycleAfter);
        StartLimit = Ticks(options.StartLimit + options.StartGrace);
        EndLimit = Ticks(options.EndLimit);
        StartPause = Ticks(options.StartPause);
        StartPauseMax = Ticks(options.StartPauseMax);
    }

    public WorkerRouting Routing { get; }
    public int QueueMax { get; }
    public int StuckMax { get; }
    public bool InterruptStuck { get; }
    public bool RecycleOnError { get; }
    public long RecycleAfterCalls { get; }
    public double RecycleJitter { get; }
    public TimeSpan WaitTime { get; }
    public TimeSpan CallTime { get; }
    public TimeSpan StartTime { get; }

    // ---- units of the clock; Never: no limit ----

    public long GrowAfter { get; }
    public long IdleLimit { get; }
    public long WaitLimit { get; }
    public long CallLimit { get; }
    public long CancelGrace { get; }
    public long RecycleAfter { get; }
    public long StartLimit { get; }
    public long EndLimit { get; }
    public long StartPause { get; }
    public long StartPauseMax { get; }

    public long Now => _clock.GetTimestamp();

    public DateTimeOffset Date => _clock.GetUtcNow();

    public TimeSpan Time(long units) => TimeSpan.FromSeconds(units / (double)_clock.TimestampFrequency);

    /// <summary>When something that began then is over its limit.</summary>
    public static long Due(long since, long limit) => limit == Never ? Never : since + limit;

    private long Ticks(TimeSpan time) => time == Timeout.InfiniteTimeSpan ? Never : (long)(time.TotalSeconds * _clock.TimestampFrequency);
}
