// What is to be seen of a pool from outside.

namespace Millrace.Workers;

/// <summary>What a worker is doing.</summary>
public enum WorkerState
{
    /// <summary>It is being made.</summary>
    Starting,

    /// <summary>It waits for a call.</summary>
    Idle,

    /// <summary>It has a call.</summary>
    Busy,

    /// <summary>It is being disposed of.</summary>
    Ending,

    /// <summary>It has been given up, and has not come back yet.</summary>
    Stuck,

    /// <summary>It is no more.</summary>
    Ended,
}

/// <summary>Why a worker has ended.</summary>
public enum WorkerEnd
{
    /// <summary>It has not.</summary>
    None,

    /// <summary><see cref="WorkerPoolOptions.RecycleAfterCalls"/>.</summary>
    Calls,

    /// <summary><see cref="WorkerPoolOptions.RecycleAfter"/>.</summary>
    Age,

    /// <summary><see cref="WorkerPoolOptions{TWorker}.RecycleWhen"/>.</summary>
    Predicate,

    /// <summary>A call has thrown (<see cref="WorkerPoolOptions.RecycleOnError"/>), or something that a call has left behind.</summary>
    Error,

    /// <summary><see cref="WorkerPoolOptions.IdleLimit"/>.</summary>
    Idle,

    /// <summary>There are more than there are to be: the pool has been resized, or is to be used by one.</summary>
    Surplus,

    /// <summary>One of a new generation takes its place.</summary>
    Swapped,

    /// <summary>Somebody has asked for it.</summary>
    Recycled,

    /// <summary>Somebody has killed it.</summary>
    Killed,

    /// <summary><see cref="WorkerPoolOptions.CallLimit"/>: the call did not end.</summary>
    CallLimit,

    /// <summary>It could not be made.</summary>
    StartFailed,

    /// <summary><see cref="WorkerPoolOptions.StartLimit"/>: it was not made in time.</summary>
    StartLimit,

    /// <summary><see cref="WorkerPoolOptions.EndLimit"/>: it was not disposed of in time.</summary>
    EndLimit,

    /// <summary>The pool has ended.</summary>
    Closed,

    /// <summary>Its process has ended by itself, or somebody else has killed it.</summary>
    Exited,

    /// <summary><see cref="ProcessPoolOptions.RecycleAboveMemory"/>, or <see cref="ProcessPoolOptions.MemoryMax"/>.</summary>
    Memory,

    /// <summary>A call has left it in a state in which it could have no other: it did not come to an end behind a caller that had left (<see cref="ProcessPoolOptions.AbortLimit"/>), or has not answered
    /// as it should.</summary>
    Abandoned,
}

/// <summary>The end of a worker.</summary>
/// <param name="At">When.</param>
/// <param name="Reason">Why.</param>
public readonly record struct WorkerRestart(DateTimeOffset At, WorkerEnd Reason);

/// <summary>A worker, as it was at one moment.</summary>
public sealed record WorkerStatus
{
    /// <summary>Its place in the pool, from 1. The next one in this place has the same.</summary>
    public required int Id { get; init; }

    /// <summary>Which factory has made it: 1, and one more with each swap.</summary>
    public required int Generation { get; init; }

    /// <summary>What it is doing.</summary>
    public required WorkerState State { get; init; }

    /// <summary>The kernel's id of its thread, as <c>top -H</c> and a debugger show it; null: it has none of its own, or the system does not say.</summary>
    public int? ThreadId { get; init; }

    /// <summary>Its process; null: this one.</summary>
    public int? ProcessId { get; init; }

    /// <summary>Resident memory of its process in bytes; null: it has none of its own.</summary>
    public long? Memory { get; init; }

    /// <summary>Processor time that its process has used; null: it has none of its own.</summary>
    public TimeSpan? ProcessorTime { get; init; }

    /// <summary>How long it has had its call; null: it has none.</summary>
    public TimeSpan? BusyFor { get; init; }

    /// <summary>What its call is known as: the name of the calling method, unless the caller has given another.</summary>
    public string? BusyWith { get; init; }

    /// <summary>Calls of this worker that have ended.</summary>
    public required long Calls { get; init; }

    /// <summary>Those of them that have thrown; cancellation does not count.</summary>
    public required long Failures { get; init; }

    /// <summary>Mean time of a call.</summary>
    public required TimeSpan Mean { get; init; }

    /// <summary>99 of 100 calls took no longer; up to an eighth too much.</summary>
    public required TimeSpan P99 { get; init; }

    /// <summary>Time of the last call.</summary>
    public required TimeSpan Last { get; init; }

    /// <summary>When it was begun to be made.</summary>
    public required DateTimeOffset Started { get; init; }

    /// <summary>Calls that have gone to this place, also to workers before this one. Over all places: how many of them the load needs.</summary>
    public required long Hits { get; init; }

    /// <summary>Workers that have ended in this place.</summary>
    public required long Restarts { get; init; }

    /// <summary>The last of them, at most 10, oldest first.</summary>
    public required IReadOnlyList<WorkerRestart> RecentRestarts { get; init; }
}

/// <summary>A pool, as it was at one moment.</summary>
public sealed record WorkerPoolStatus
{
    /// <summary>Its name.</summary>
    public required string Name { get; init; }

    /// <summary>See <see cref="WorkerPoolOptions.Min"/>.</summary>
    public required int Min { get; init; }

    /// <summary>See <see cref="WorkerPoolOptions.Max"/>.</summary>
    public required int Max { get; init; }

    /// <summary>The generation of workers that are made now.</summary>
    public required int Generation { get; init; }

    /// <summary>Whether calls wait until <see cref="IWorkerPool.Release"/>.</summary>
    public required bool IsHeld { get; init; }

    /// <summary>Whether it takes no more calls.</summary>
    public required bool IsClosed { get; init; }

    /// <summary>Calls that wait for a worker.</summary>
    public required int Waiting { get; init; }

    /// <summary>Calls that a worker has.</summary>
    public required int Running { get; init; }

    /// <summary>Calls that have ended at a worker.</summary>
    public required long Calls { get; init; }

    /// <summary>Those of them that have thrown.</summary>
    public required long Failures { get; init; }

    /// <summary>Calls that were refused because too many waited.</summary>
    public required long RefusedFull { get; init; }

    /// <summary>Calls that were refused because they had waited too long.</summary>
    public required long RefusedLate { get; init; }

    /// <summary>Calls whose callers left while they waited.</summary>
    public required long LeftQueue { get; init; }

    /// <summary>Calls that did not end in time.</summary>
    public required long OverTime { get; init; }

    /// <summary>Workers in their places, in the order of their ids.</summary>
    public required IReadOnlyList<WorkerStatus> Workers { get; init; }

    /// <summary>Workers that have been given up and hold their threads.</summary>
    public required IReadOnlyList<WorkerStatus> Stuck { get; init; }

    /// <summary>Why the last worker could not be made; null: the last one could.</summary>
    public required string? StartFailure { get; init; }

    /// <summary>Calls by place: element 0 is worker 1. With <see cref="WorkerRouting.FirstFree"/> the load needs as many workers as have more than a few.</summary>
    public required IReadOnlyList<long> Hits { get; init; }

    /// <summary>Ends of workers by reason, since the pool was made.</summary>
    public required IReadOnlyDictionary<WorkerEnd, long> Ends { get; init; }
}
