// What users have: a call goes to the first free of a managed set of warm workers. Who gets what is decided in Dispatcher*.cs.

using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace Millrace.Workers;

/// <summary>Workers that are warm, each used by one call at a time, and each on a thread of its own if that is wanted: for libraries that are not thread-safe, bound to a thread, slow to start, or
/// stateful. All members may be called from any thread, and, apart from <see cref="DisposeAsync"/>, <see cref="IWorkerPool.HoldAsync"/> and the like, from inside a call of another pool.</summary>
/// <typeparam name="TWorker">The worker. One that is <see cref="IAsyncDisposable"/> or <see cref="IDisposable"/> is disposed of at its end, where it has lived.</typeparam>
public sealed class WorkerPool<TWorker> : IWorkerPool, IAsyncDisposable
{
    private readonly Dispatcher<TWorker> _dispatcher;
    private readonly PoolModes<TWorker> _modes;
    private readonly WorkerPoolMeter<TWorker> _meter;
    private readonly TimeSpan _drainLimit;
    private readonly TimeSpan _cancelGrace;

    /// <summary>Makes a pool, and begins to make its first workers.</summary>
    /// <param name="factory">Makes a worker, on the thread on which it will live.</param>
    /// <param name="options">Read here and not again; null: the defaults.</param>
    /// <param name="loggers">Where the pool says what happens to its workers; null: nowhere.</param>
    /// <exception cref="ArgumentException">An option is out of its range.</exception>
    public WorkerPool(Func<TWorker> factory, WorkerPoolOptions<TWorker>? options = null, ILoggerFactory? loggers = null)
        : this(null, factory ?? throw new ArgumentNullException(nameof(factory)), options, loggers)
    {
    }

    /// <summary>Makes a pool whose workers are made asynchronously, and begins to make the first ones.</summary>
    /// <param name="factory">Makes a worker; an <c>await</c> in it comes back to the thread on which the worker will live. Its token is cancelled when the pool ends.</param>
    /// <param name="options">Read here and not again; null: the defaults.</param>
    /// <param name="loggers">Where the pool says what happens to its workers; null: nowhere.</param>
    /// <exception cref="ArgumentException">An option is out of its range.</exception>
    public WorkerPool(Func<CancellationToken, Task<TWorker>> factory, WorkerPoolOptions<TWorker>? options = null, ILoggerFactory? loggers = null)
        : this(factory ?? throw new ArgumentNullException(nameof(factory)), null, options, loggers)
    {
    }

    internal WorkerPool(Func<CancellationToken, Task<TWorker>>? makeAsync, Func<TWorker>? make, WorkerPoolOptions? options, ILoggerFactory? loggers)
    {
        options ??= new WorkerPoolOptions<TWorker>();
        var its = options as WorkerPoolOptions<TWorker>;
        if (options.Validate() is { Count: > 0 } faults)
        {
            throw new ArgumentException(string.Join(" ", faults), nameof(options));
        }
        Name = options.Name.Length > 0 ? options.Name : typeof(TWorker).Name;
        _drainLimit = options.DrainLimit;
        _cancelGrace = options.CancelGrace;
        var log = new Log((loggers ?? NullLoggerFactory.Instance).CreateLogger("Millrace.Workers"), Name);
        _dispatcher = new Dispatcher<TWorker>(Name, options, new WorkerSource<TWorker>(makeAsync, make, its?.WarmUp, its?.RecycleWhen), log);
        _modes = new PoolModes<TWorker>(_dispatcher, Name);
        _meter = new WorkerPoolMeter<TWorker>(Name, _dispatcher);
    }

    /// <inheritdoc/>
    public string Name { get; }

    // ---- calls ----

    /// <summary>Has the first free worker run a delegate.</summary>
    /// <typeparam name="TResult">What it answers.</typeparam>
    /// <param name="callback">What to do with the worker. Its token is cancelled with <paramref name="cancellationToken"/>, behind <see cref="WorkerPoolOptions.CallLimit"/>, when the worker is killed and at
    /// the end of the pool. It runs in the caller's execution context. The worker must not be used when it has returned.</param>
    /// <param name="cancellationToken">A call that waits leaves the queue; one that has begun has its token cancelled, and ends when it heeds that.</param>
    /// <param name="name">By which the status of the pool shows the call; the caller's name.</param>
    /// <returns>What <paramref name="callback"/> returns or throws, or a <see cref="WorkerPoolException"/>: <see cref="WorkerQueueFullException"/>, <see cref="WorkerWaitException"/>,
    /// <see cref="WorkerTimeLimitException"/>, <see cref="WorkerKilledException"/>, <see cref="WorkerReentranceException"/>, <see cref="WorkerPoolClosedException"/>.</returns>
    public Task<TResult> RunAsync<TResult>(Func<TWorker, CancellationToken, TResult> callback, CancellationToken cancellationToken = default, [CallerMemberName] string? name = null)
    {
        ArgumentNullException.ThrowIfNull(callback);
        return TryRefuse<TResult>(cancellationToken) ?? Start(new SyncCall<TWorker, TResult>(_dispatcher, callback, name, cancellationToken));
    }

    /// <inheritdoc cref="RunAsync{TResult}(Func{TWorker, CancellationToken, TResult}, CancellationToken, string)"/>
    public Task RunAsync(Action<TWorker, CancellationToken> callback, CancellationToken cancellationToken = default, [CallerMemberName] string? name = null)
    {
        ArgumentNullException.ThrowIfNull(callback);
        return RunAsync((worker, ct) =>
        {
            callback(worker, ct);
            return true;
        }, cancellationToken, name);
    }

    /// <summary>Has the first free worker run a delegate until its task ends. Where the worker has a thread, an <c>await</c> comes back to it (without <c>ConfigureAwait(false)</c>).</summary>
    /// <inheritdoc cref="RunAsync{TResult}(Func{TWorker, CancellationToken, TResult}, CancellationToken, string)"/>
    [OverloadResolutionPriority(2)]
    public Task<TResult> RunAsync<TResult>(Func<TWorker, CancellationToken, Task<TResult>> callback, CancellationToken cancellationToken = default, [CallerMemberName] string? name = null)
    {
        ArgumentNullException.ThrowIfNull(callback);
        return TryRefuse<TResult>(cancellationToken) ?? Start(new AsyncCall<TWorker, TResult>(_dispatcher, callback, name, cancellationToken));
    }

    /// <inheritdoc cref="RunAsync{TResult}(Func{TWorker, CancellationToken, Task{TResult}}, CancellationToken, string)"/>
    [OverloadResolutionPriority(2)]
    public Task RunAsync(Func<TWorker, CancellationToken, Task> callback, CancellationToken cancellationToken = default, [CallerMemberName] string? name = null)
    {
        ArgumentNullException.ThrowIfNull(callback);
        return RunAsync(Calls.WithResult(callback), cancellationToken, name);
    }

    /// <inheritdoc cref="RunAsync{TResult}(Func{TWorker, CancellationToken, Task{TResult}}, CancellationToken, string)"/>
    [OverloadResolutionPriority(1)]
    public Task<TResult> RunAsync<TResult>(Func<TWorker, CancellationToken, ValueTask<TResult>> callback, CancellationToken cancellationToken = default, [CallerMemberName] string? name = null)
    {
        ArgumentNullException.ThrowIfNull(callback);
        return RunAsync((worker, ct) => callback(worker, ct).AsTask(), cancellationToken, name);
    }

    /// <inheritdoc cref="RunAsync{TResult}(Func{TWorker, CancellationToken, Task{TResult}}, CancellationToken, string)"/>
    [OverloadResolutionPriority(1)]
    public Task RunAsync(Func<TWorker, CancellationToken, ValueTask> callback, CancellationToken cancellationToken = default, [CallerMemberName] string? name = null)
    {
        ArgumentNullException.ThrowIfNull(callback);
        return RunAsync((worker, ct) => callback(worker, ct).AsTask(), cancellationToken, name);
    }

    /// <summary>Has the only worker run a delegate: all others are ended first, other calls wait meanwhile (within the limits of the queue), and the others are made anew behind it. For
    /// maintenance. Waits as long as it takes, also for workers that are stuck; a second one waits for the first.</summary>
    /// <typeparam name="TResult">What it answers.</typeparam>
    /// <param name="callback">What to do with the worker, as for a call.</param>
    /// <param name="cancellationToken">Ends the waiting, as for a call.</param>
    /// <param name="name">By which the status of the pool shows the call; the caller's name.</param>
    public async Task<TResult> RunExclusiveAsync<TResult>(Func<TWorker, CancellationToken, Task<TResult>> callback, CancellationToken cancellationToken = default, [CallerMemberName] string? name = null)
    {
        ArgumentNullException.ThrowIfNull(callback);
        if (TryRefuse<TResult>(cancellationToken) is { } refused)
        {
            return await refused.ConfigureAwait(false);
        }
        var call = new AsyncCall<TWorker, TResult>(_dispatcher, callback, name, cancellationToken);
        await _modes.TakeExclusiveAsync(call, call.Task, cancellationToken).ConfigureAwait(false);
        return await call.Task.ConfigureAwait(false);
    }

    /// <inheritdoc cref="RunExclusiveAsync{TResult}(Func{TWorker, CancellationToken, Task{TResult}}, CancellationToken, string)"/>
    public Task RunExclusiveAsync(Func<TWorker, CancellationToken, Task> callback, CancellationToken cancellationToken = default, [CallerMemberName] string? name = null)
    {
        ArgumentNullException.ThrowIfNull(callback);
        return RunExclusiveAsync(Calls.WithResult(callback), cancellationToken, name);
    }

    private Task<TResult>? TryRefuse<TResult>(CancellationToken ct) =>
        ct.IsCancellationRequested ? Task.FromCanceled<TResult>(ct)
        : CallInFlight.IsInside(_dispatcher) ? Task.FromException<TResult>(new WorkerReentranceException(Name))
        : null;

    private Task<TResult> Start<TResult>(Call<TWorker, TResult> call)
    {
        _dispatcher.Take(call);
        return call.Task;
    }

    // ---- other workers ----

    /// <summary>Has workers made another way from now on. One is made first, beside the others (for this while there may be one more than Max): if that fails nothing has changed. Then the old
    /// ones end one after another, each when its call has ended, and are replaced.</summary>
    /// <param name="factory">Makes a worker, as for the pool's constructor.</param>
    /// <param name="cancellationToken">Ends the waiting, not the swap.</param>
    /// <returns>Ends when the last old worker has ended. One that is stuck is not waited for.</returns>
    /// <exception cref="WorkerStartException">The new factory has failed. Or none could be tried: the one that an earlier swap has tried is stuck, or so many are that no further one may be made beside
    /// them (<see cref="WorkerPoolOptions.StuckMax"/>).</exception>
    /// <exception cref="WorkerPoolClosedException">The pool has ended.</exception>
    public Task SwapAsync(Func<TWorker> factory, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(factory);
        return _modes.SwapAsync(null, factory, cancellationToken);
    }

    /// <inheritdoc cref="SwapAsync(Func{TWorker}, CancellationToken)"/>
    [OverloadResolutionPriority(1)]
    public Task SwapAsync(Func<CancellationToken, Task<TWorker>> factory, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(factory);
        return _modes.SwapAsync(factory, null, cancellationToken);
    }

    /// <inheritdoc/>
    public Task SwapAsync(CancellationToken cancellationToken = default) => _modes.SwapAsync(null, null, cancellationToken);

    // ---- administration ----

    /// <inheritdoc/>
    public WorkerPoolStatus GetStatus() => _dispatcher.GetStatus();

    /// <inheritdoc/>
    public bool Kill(int id) => _dispatcher.Orders.Kill(id);

    /// <inheritdoc/>
    public bool Recycle(int id) => _dispatcher.Orders.Recycle(id);

    /// <inheritdoc/>
    public void Resize(int min, int max)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(max, 1);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(max, 1_000);
        ArgumentOutOfRangeException.ThrowIfNegative(min);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(min, max);
        _dispatcher.Resize(min, max);
    }

    /// <inheritdoc/>
    public Task HoldAsync(CancellationToken cancellationToken = default) => _dispatcher.HoldAsync(cancellationToken);

    /// <inheritdoc/>
    public void Release() => _dispatcher.Release();

    /// <inheritdoc/>
    public Task WaitUntilReadyAsync(CancellationToken cancellationToken = default) => _dispatcher.WaitUntilReadyAsync(cancellationToken);

    /// <summary>Does what is due by a clock that tests set.</summary>
    internal void Look() => _dispatcher.Look();

    /// <summary>Ends the pool: it takes no further calls; those that wait or run have <see cref="WorkerPoolOptions.DrainLimit"/> to end, then they are refused or cancelled, and those that do not heed
    /// that are given up. Ends when all workers have been disposed of that have not been given up. Must not be awaited from inside a call.</summary>
    [SuppressMessage("Usage", "CA1816", Justification = "There is no finalizer.")]
    public async ValueTask DisposeAsync()
    {
        await _modes.CloseAsync(_drainLimit, _cancelGrace).ConfigureAwait(false);
        _meter.Dispose();
    }
}

internal static class Calls
{
    /// <summary>A call without a result, as one with.</summary>
    public static Func<TWorker, CancellationToken, Task<bool>> WithResult<TWorker>(Func<TWorker, CancellationToken, Task> callback) => async (worker, ct) =>
    {
        await (callback(worker, ct) ?? throw new InvalidOperationException("The call has returned null instead of a task.")).ConfigureAwait(false);
        return true;
    };
}
