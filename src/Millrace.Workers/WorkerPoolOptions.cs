// Every limit of a pool: its name, its default and its range. What needs the type of the worker is in WorkerPoolOptions<TWorker>; the rest can come from a
// configuration section.

namespace Millrace.Workers;

/// <summary>Which of several free workers a call goes to.</summary>
public enum WorkerRouting
{
    /// <summary>The first. How many workers a load needs is seen by how few calls the last ones get.</summary>
    FirstFree,

    /// <summary>Each in its turn.</summary>
    RoundRobin,
}

/// <summary>Options of a pool. They are read once, when the pool is made.</summary>
public class WorkerPoolOptions
{
    // ---- what it is ----

    /// <summary>By which logs, metrics and errors know the pool. Empty: the name of the worker's type. Default empty.</summary>
    public string Name { get; set; } = "";

    /// <summary>Whether each worker has a thread of its own, on which it is made, called and disposed of, and to which an <c>await</c> in a call comes back. False: it is used by one call at a
    /// time all the same, on threads of the thread pool. Default true.</summary>
    public bool ThreadBound { get; set; } = true;

    /// <summary>Which of several free workers a call goes to. Default <see cref="WorkerRouting.FirstFree"/>.</summary>
    public WorkerRouting Routing { get; set; } = WorkerRouting.FirstFree;

    // ---- how many ----

    /// <summary>Workers that are there also when nobody calls. Range 0 to <see cref="Max"/>. Default 1.</summary>
    public int Min { get; set; } = 1;

    /// <summary>Workers in all, without those that are stuck. Range 1 to 1,000. Default: as many as there are processors, and not less than <see cref="Min"/>.</summary>
    public int Max { get => field > 0 ? field : Math.Max(Environment.ProcessorCount, Min); set; }

    /// <summary>How long a call waits before it is a reason for another worker; zero: it is one at once, as it is where no further call may wait (<see cref="QueueMax"/>). Range 0 to 1 hour. Default
    /// 10 ms.</summary>
    public TimeSpan GrowAfter { get; set; } = TimeSpan.FromMilliseconds(10);

    /// <summary>How long a worker beyond <see cref="Min"/> may be without a call before it is ended. Range 100 ms to 30 days; <see cref="Timeout.InfiniteTimeSpan"/>: as long as it likes. Default
    /// 60 s.</summary>
    public TimeSpan IdleLimit { get; set; } = TimeSpan.FromSeconds(60);

    // ---- the queue ----

    /// <summary>Calls that may wait for a worker, beside one for each worker that is being made; a further one is refused with <see cref="WorkerQueueFullException"/>. Range 0 to 1,000,000. Default
    /// 1,000.</summary>
    public int QueueMax { get; set; } = 1_000;

    /// <summary>How long a call may wait; then it is refused with <see cref="WorkerWaitException"/>. Range 1 ms to 30 days; <see cref="Timeout.InfiniteTimeSpan"/>: as long as it takes.
    /// Default 30 s.</summary>
    public TimeSpan WaitLimit { get; set; } = TimeSpan.FromSeconds(30);

    // ---- one call ----

    /// <summary>How long a call may take once a worker has it. Then its token is cancelled, and its caller has a <see cref="WorkerTimeLimitException"/>. Range 1 ms to 30 days;
    /// <see cref="Timeout.InfiniteTimeSpan"/>: as long as it takes. Default 2 minutes.</summary>
    public TimeSpan CallLimit { get; set; } = TimeSpan.FromMinutes(2);

    /// <summary>How long a call may take to heed its token behind <see cref="CallLimit"/> before its worker is given up as stuck and another takes its place. Range 0 to 1 hour. Default 200 ms.</summary>
    public TimeSpan CancelGrace { get; set; } = TimeSpan.FromMilliseconds(200);

    /// <summary>Workers that are stuck and have been replaced: a thread cannot be killed, and each of them holds one. While there are so many no further one is replaced. Range 0 to 1,000.
    /// Default 4.</summary>
    public int StuckMax { get; set; } = 4;

    /// <summary>Whether a worker that is stuck is interrupted (<see cref="Thread.Interrupt"/>): one that waits (for a lock, in a sleep) gets a <see cref="ThreadInterruptedException"/>, its thread
    /// comes free, and the log has the stack it was stuck at. One that computes, or waits in native code, does not notice. Needs <see cref="ThreadBound"/>. Default false, since what the worker has in
    /// its hands may not expect it.</summary>
    public bool InterruptStuck { get; set; }

    /// <summary>Whether a worker whose call has thrown is replaced. Cancellation does not count. Default false.</summary>
    public bool RecycleOnError { get; set; }

    // ---- one life ----

    /// <summary>Calls of one worker before a fresh one takes its place; null: no limit. Range 1 to <see cref="long.MaxValue"/>. Default null.</summary>
    public long? RecycleAfterCalls { get; set; }

    /// <summary>Age of a worker at which a fresh one takes its place, between two calls. Range 100 ms to 30 days; <see cref="Timeout.InfiniteTimeSpan"/>: none. Default infinite.</summary>
    public TimeSpan RecycleAfter { get; set; } = Timeout.InfiniteTimeSpan;

    /// <summary>By which part of them both limits are shortened at random for each worker, so that not all are replaced at once. Range 0 to 0.9. Default 0.1.</summary>
    public double RecycleJitter { get; set; } = 0.1;

    /// <summary>How long the making of a worker may take, its warm-up among it, before it is given up as stuck. Range 1 ms to 1 day. Default 60 s.</summary>
    public TimeSpan StartLimit { get; set; } = TimeSpan.FromSeconds(60);

    /// <summary>What a worker that keeps to <see cref="StartLimit"/> itself, and knows better why it is not there, has beyond it.</summary>
    internal virtual TimeSpan StartGrace => TimeSpan.Zero;

    /// <summary>How long the disposing of a worker may take before it is given up as stuck. Range 1 ms to 1 day. Default 30 s.</summary>
    public TimeSpan EndLimit { get; set; } = TimeSpan.FromSeconds(30);

    /// <summary>Pause before another start where one has failed; doubled with each further failure, up to <see cref="StartPauseMax"/>. Range 1 ms to 1 hour. Default 100 ms.</summary>
    public TimeSpan StartPause { get; set; } = TimeSpan.FromMilliseconds(100);

    /// <summary>The longest of these pauses. Range <see cref="StartPause"/> to 1 day. Default 30 s.</summary>
    public TimeSpan StartPauseMax { get; set; } = TimeSpan.FromSeconds(30);

    // ---- the pool's own life ----

    /// <summary>How long the end of the pool waits for calls that wait or run. Range 0 to 1 day. Default 30 s.</summary>
    public TimeSpan DrainLimit { get; set; } = TimeSpan.FromSeconds(30);

    /// <summary>Whether the start of a host waits until <see cref="Min"/> workers are there, and fails when one cannot be made. Default true.</summary>
    public bool WaitAtStart { get; set; } = true;

    /// <summary>The clock. Default the system's.</summary>
    public TimeProvider TimeProvider { get; set; } = TimeProvider.System;

    /// <summary>What is out of its range, a sentence each; empty: nothing is.</summary>
    public virtual IReadOnlyList<string> Validate()
    {
        var found = new List<string>();
        Number(nameof(Min), Min, 0, 1_000);
        Number(nameof(Max), Max, Math.Max(1, Min), 1_000);
        Number(nameof(QueueMax), QueueMax, 0, 1_000_000);
        Number(nameof(StuckMax), StuckMax, 0, 1_000);
        Number(nameof(RecycleAfterCalls), RecycleAfterCalls ?? 1, 1, long.MaxValue);
        Time(nameof(GrowAfter), GrowAfter, TimeSpan.Zero, TimeSpan.FromHours(1));
        Time(nameof(IdleLimit), IdleLimit, TimeSpan.FromMilliseconds(100), s_month, mayBeInfinite: true);
        Time(nameof(WaitLimit), WaitLimit, s_millisecond, s_month, mayBeInfinite: true);
        Time(nameof(CallLimit), CallLimit, s_millisecond, s_month, mayBeInfinite: true);
        Time(nameof(CancelGrace), CancelGrace, TimeSpan.Zero, TimeSpan.FromHours(1));
        Time(nameof(RecycleAfter), RecycleAfter, TimeSpan.FromMilliseconds(100), s_month, mayBeInfinite: true);
        Time(nameof(StartLimit), StartLimit, s_millisecond, TimeSpan.FromDays(1));
        Time(nameof(EndLimit), EndLimit, s_millisecond, TimeSpan.FromDays(1));
        Time(nameof(StartPause), StartPause, s_millisecond, TimeSpan.FromHours(1));
        Time(nameof(StartPauseMax), StartPauseMax, StartPause, TimeSpan.FromDays(1));
        Time(nameof(DrainLimit), DrainLimit, TimeSpan.Zero, TimeSpan.FromDays(1));
        if (RecycleJitter is not (>= 0 and <= 0.9))
        {
            found.Add(FormattableString.Invariant($"{nameof(RecycleJitter)} is {RecycleJitter}; it may be 0 to 0.9."));
        }
        if (!Enum.IsDefined(Routing))
        {
            found.Add($"{nameof(Routing)} is {Routing}; it may be {string.Join(" or ", Enum.GetNames<WorkerRouting>())}.");
        }
        if (InterruptStuck && !ThreadBound)
        {
            found.Add($"{nameof(InterruptStuck)} needs {nameof(ThreadBound)}: a thread of the thread pool may be at work for somebody else.");
        }
        return found;

        void Number(string name, long value, long min, long max) => JudgeNumber(found, name, value, min, max);

        void Time(string name, TimeSpan value, TimeSpan min, TimeSpan max, bool mayBeInfinite = false) => JudgeTime(found, name, value, min, max, mayBeInfinite);
    }

    private protected static void JudgeNumber(List<string> found, string name, long value, long min, long max)
    {
        if (value < min || value > max)
        {
            found.Add(FormattableString.Invariant($"{name} is {value}; it may be {min} to {max}."));
        }
    }

    private protected static void JudgeTime(List<string> found, string name, TimeSpan value, TimeSpan min, TimeSpan max, bool mayBeInfinite = false)
    {
        if ((value < min || value > max) && !(mayBeInfinite && value == Timeout.InfiniteTimeSpan))
        {
            found.Add(FormattableString.Invariant($"{name} is {value}; it may be {min} to {max}{(mayBeInfinite ? ", or infinite (-00:00:00.0010000)" : "")}."));
        }
    }

    private static readonly TimeSpan s_millisecond = TimeSpan.FromMilliseconds(1);
    private static readonly TimeSpan s_month = TimeSpan.FromDays(30);
}

/// <summary>Options of a pool of <typeparamref name="TWorker"/>.</summary>
/// <typeparam name="TWorker">The worker.</typeparam>
public sealed class WorkerPoolOptions<TWorker> : WorkerPoolOptions
{
    /// <summary>Called once for each worker, on its thread, before its first call: what makes the first call as fast as the next. One that throws is a failed start. Default null.</summary>
    public Action<TWorker>? WarmUp { get; set; }

    /// <summary>Asked after each call, on the worker's thread and within the call's time: true has a fresh worker take its place. One that throws says true. Default null.</summary>
    public Func<TWorker, bool>? RecycleWhen { get; set; }
}
