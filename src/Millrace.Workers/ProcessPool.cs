// A pool whose workers are processes: they can be killed, and take nothing with them when they crash. What a pool is otherwise is in WorkerPool.cs.

using System.Collections.Concurrent;
using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Workers.Processes;

namespace Millrace.Workers;

/// <summary>Warm processes that speak FastCGI, such as php-cgi, each used by one call at a time: for what crashes, leaks, hangs, or is written in another language. A process whose call takes too long is
/// killed; one that has died is replaced. All members may be called from any thread.</summary>
/// <remarks>Linux only. The processes have the rights of this one.</remarks>
public sealed class ProcessPool : IWorkerPool, IAsyncDisposable
{
    private static readonly TimeSpan s_memoryLook = TimeSpan.FromMilliseconds(250);

    private readonly ProcessPoolOptions _options;
    private readonly SocketFolder _folder;
    private readonly Guardian _guardian;
    private readonly ProcessVoice _voice;
    private readonly WorkerPool<WorkerProcess> _pool;
    private readonly ConcurrentDictionary<WorkerProcess, bool> _living = new();
    private readonly Timer? _memoryWatch;
    private int _isDisposed;

    /// <summary>Makes a pool, and begins to start its first processes.</summary>
    /// <param name="options">Read here and not again.</param>
    /// <param name="loggers">Where the pool says what happens to its processes, and what they print; null: nowhere.</param>
    /// <exception cref="ArgumentException">An option is out of its range.</exception>
    /// <exception cref="IOException">There can be no processes here.</exception>
    /// <exception cref="PlatformNotSupportedException">This is not Linux.</exception>
    public ProcessPool(ProcessPoolOptions options, ILoggerFactory? loggers = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        if (!OperatingSystem.IsLinux())
        {
            throw new PlatformNotSupportedException("A pool of processes needs Linux.");
        }
        if (options.Validate() is { Count: > 0 } faults)
        {
            throw new ArgumentException(string.Join(" ", faults), nameof(options));
        }
        _options = options = options.Copy();        // what is changed in it later is for another pool
        if (options.Name.Length == 0)
        {
            options.Name = Path.GetFileName(options.Command);
        }
        _folder = new SocketFolder();
        _guardian = new Guardian(_folder.Path);
        _folder.Moved = _guardian.MoveTo;
        _voice = new ProcessVoice(new Log((loggers ?? NullLoggerFactory.Instance).CreateLogger("Millrace.Workers"), options.Name), options.StopLimit);
        _pool = new WorkerPool<WorkerProcess>(StartAsync, null, options, loggers);
        _memoryWatch = options.MemoryMax is null ? null : new Timer(static pool => ((ProcessPool)pool!).LookAtMemory(), this, s_memoryLook, s_memoryLook);
    }

    private async Task<WorkerProcess> StartAsync(CancellationToken ct)
    {
        WorkerProcess child = await WorkerProcess.StartAsync(_options, _folder, _guardian, _voice, ct).ConfigureAwait(false);
        _living[child] = true;
        _ = ((IMortal)child).Death.ContinueWith(_ => _living.TryRemove(child, out bool _), CancellationToken.None, TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default);
        return child;
    }

    private void LookAtMemory()
    {
        foreach (WorkerProcess child in _living.Keys)
        {
            if (child.Memory > _options.MemoryMax)
            {
                child.KillNow(WorkerEnd.Memory);
            }
        }
    }

    /// <inheritdoc/>
    public string Name => _pool.Name;

    /// <summary>See <see cref="ProcessPoolOptions.AbortLimit"/>.</summary>
    public TimeSpan AbortLimit => _options.AbortLimit;

    // ---- calls ----

    /// <summary>Gives the first free process to a delegate until its task ends.</summary>
    /// <typeparam name="TResult">What it answers.</typeparam>
    /// <param name="callback">What to do with the process. Its token is cancelled with <paramref name="cancellationToken"/>, behind <see cref="WorkerPoolOptions.CallLimit"/>, when the process is killed and
    /// at the end of the pool. When it ends the process must be ready for another call, or have been given up (<see cref="WorkerProcess.GiveUpAsync"/>).</param>
    /// <param name="cancellationToken">A call that waits leaves the queue; one that has begun has its token cancelled.</param>
    /// <param name="name">By which the status of the pool shows the call; the caller's name.</param>
    /// <returns>As <see cref="WorkerPool{TWorker}.RunAsync{TResult}(Func{TWorker, CancellationToken, TResult}, CancellationToken, string)"/>.</returns>
    public Task<TResult> RunAsync<TResult>(Func<WorkerProcess, CancellationToken, Task<TResult>> callback, CancellationToken cancellationToken = default, [CallerMemberName] string? name = null) =>
        _pool.RunAsync(callback, cancellationToken, name);

    /// <inheritdoc cref="WorkerPool{TWorker}.RunExclusiveAsync{TResult}"/>
    public Task<TResult> RunExclusiveAsync<TResult>(Func<WorkerProcess, CancellationToken, Task<TResult>> callback, CancellationToken cancellationToken = default, [CallerMemberName] string? name = null) =>
        _pool.RunExclusiveAsync(callback, cancellationToken, name);

    // ---- administration ----

    /// <inheritdoc/>
    public WorkerPoolStatus GetStatus()
    {
        WorkerPoolStatus status = _pool.GetStatus();
        return status with { Workers = [.. status.Workers.Select(WithUsage)], Stuck = [.. status.Stuck.Select(WithUsage)] };
    }

    private static WorkerStatus WithUsage(WorkerStatus worker) => worker.ProcessId is { } id
        ? worker with { Memory = ProcessFacts.Memory(id), ProcessorTime = ProcessFacts.ProcessorTime(id) }
        : worker;

    /// <summary>Kills a process, also one that is still starting: the caller of its call has a <see cref="WorkerKilledException"/> at once, and another process starts in its place.</summary>
    /// <param name="id">The worker's.</param>
    /// <returns>False: there is none.</returns>
    public bool Kill(int id) => _pool.Kill(id);

    /// <inheritdoc/>
    public bool Recycle(int id) => _pool.Recycle(id);

    /// <inheritdoc/>
    public void Resize(int min, int max) => _pool.Resize(min, max);

    /// <inheritdoc/>
    public Task HoldAsync(CancellationToken cancellationToken = default) => _pool.HoldAsync(cancellationToken);

    /// <inheritdoc/>
    public void Release() => _pool.Release();

    /// <inheritdoc/>
    public Task WaitUntilReadyAsync(CancellationToken cancellationToken = default) => _pool.WaitUntilReadyAsync(cancellationToken);

    /// <inheritdoc/>
    public Task SwapAsync(CancellationToken cancellationToken = default) => _pool.SwapAsync(cancellationToken);

    /// <summary>Ends the pool as <see cref="WorkerPool{TWorker}.DisposeAsync"/> does, and its processes.</summary>
    [SuppressMessage("Usage", "CA1816", Justification = "There is no finalizer.")]
    public async ValueTask DisposeAsync()
    {
        await _pool.DisposeAsync().ConfigureAwait(false);
        if (Interlocked.Exchange(ref _isDisposed, 1) != 0)
        {
            return;
        }
        if (_memoryWatch is not null)
        {
            await _memoryWatch.DisposeAsync().ConfigureAwait(false);
        }
        Task killed = Task.WhenAll(_living.Keys.Select(static child => ((IMortal)child).Death));      // those that were given up
        await killed.WaitAsync(_options.EndLimit).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);      // the kernel may hold one up
        _guardian.Dispose();
        _folder.Dispose();
    }
}
