// What a pool answers instead of a result: one type for each reason, so that a caller can tell "try again later" from "this call takes too long".

namespace Millrace.Workers;

/// <summary>A pool has refused or given up a call.</summary>
public abstract class WorkerPoolException : Exception
{
    private protected WorkerPoolException(string pool, string message, Exception? inner = null)
        : base(message, inner) => Pool = pool;

    /// <summary>The name of the pool.</summary>
    public string Pool { get; }
}

/// <summary>Too many calls wait already (<see cref="WorkerPoolOptions.QueueMax"/>). The call has not begun.</summary>
public sealed class WorkerQueueFullException : WorkerPoolException
{
    internal WorkerQueueFullException(string pool, int max, string state)
        : base(pool, $"{max} calls wait for a worker of the pool {pool} already (QueueMax). {state}")
    {
    }
}

/// <summary>The call has waited for a worker for too long (<see cref="WorkerPoolOptions.WaitLimit"/>). It has not begun. Where workers cannot be made, the inner exception says why.</summary>
public sealed class WorkerWaitException : WorkerPoolException
{
    internal WorkerWaitException(string pool, TimeSpan limit, string state, Exception? inner)
        : base(pool, FormattableString.Invariant($"No worker of the pool {pool} has been free within {limit.TotalSeconds:0.###} s (WaitLimit). {state}"), inner)
    {
    }
}

/// <summary>The call has taken too long (<see cref="WorkerPoolOptions.CallLimit"/>). It may still be running, and may have had its effect.</summary>
public sealed class WorkerTimeLimitException : WorkerPoolException
{
    internal WorkerTimeLimitException(string pool, int worker, TimeSpan limit)
        : base(pool, FormattableString.Invariant($"The call has not ended within {limit.TotalSeconds:0.###} s (CallLimit) at worker {worker} of the pool {pool}; it may still be running.")) => Worker = worker;

    /// <summary>The id of the worker.</summary>
    public int Worker { get; }
}

/// <summary>The worker was killed while it had the call (<see cref="IWorkerPool.Kill"/>). The call may still be running, and may have had its effect.</summary>
public sealed class WorkerKilledException : WorkerPoolException
{
    internal WorkerKilledException(string pool, int worker)
        : base(pool, $"Worker {worker} of the pool {pool} was killed while it had the call; it may still be running.") => Worker = worker;

    /// <summary>The id of the worker.</summary>
    public int Worker { get; }
}

/// <summary>A worker could not be made: the inner exception says why.</summary>
public sealed class WorkerStartException : WorkerPoolException
{
    internal WorkerStartException(string pool, string message, Exception? inner)
        : base(pool, message, inner)
    {
    }
}

/// <summary>A call from inside a call of the same pool: it could wait for itself for ever, and is refused. Use the worker at hand, or call behind the end of the outer call.</summary>
public sealed class WorkerReentranceException : WorkerPoolException
{
    internal WorkerReentranceException(string pool)
        : base(pool, $"A call of the pool {pool} has been made from inside another one of its calls, and could wait for itself for ever. Use the worker at hand, or call when the outer call has ended.")
    {
    }
}

/// <summary>The pool has ended, or ends, before the call could.</summary>
public sealed class WorkerPoolClosedException : WorkerPoolException
{
    internal WorkerPoolClosedException(string pool)
        : base(pool, $"The pool {pool} has ended.")
    {
    }
}
