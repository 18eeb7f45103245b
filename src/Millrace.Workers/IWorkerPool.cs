// What an administrator may ask of a pool, and have it do.

namespace Millrace.Workers;

/// <summary>What an administrator sees of a pool, and can do to it, whatever its workers are. All members may be called from any thread.</summary>
public interface IWorkerPool
{
    /// <summary>See <see cref="WorkerPoolOptions.Name"/>.</summary>
    string Name { get; }

    /// <summary>The pool as it is now.</summary>
    WorkerPoolStatus GetStatus();

    /// <summary>Gives a worker up: the caller of its call has a <see cref="WorkerKilledException"/> at once, the call's token is cancelled, and another worker starts in its place. The thread goes on
    /// until the call ends.</summary>
    /// <param name="id">The worker's.</param>
    /// <returns>False: there is none.</returns>
    bool Kill(int id);

    /// <summary>Has a fresh worker take the place of one, when its call has ended.</summary>
    /// <param name="id">The worker's.</param>
    /// <returns>False: there is none.</returns>
    bool Recycle(int id);

    /// <summary>Changes how many workers there are. Those that are too many end when their calls have ended.</summary>
    /// <param name="min">0 to <paramref name="max"/>.</param>
    /// <param name="max">1 to 1,000.</param>
    /// <exception cref="ArgumentOutOfRangeException">A number is out of its range.</exception>
    void Resize(int min, int max);

    /// <summary>Has calls wait until <see cref="Release"/>, within the limits of the queue. A pool that is held stays so.</summary>
    /// <param name="cancellationToken">Ends the waiting, not the hold.</param>
    /// <returns>Ends when no worker has a call any more.</returns>
    Task HoldAsync(CancellationToken cancellationToken = default);

    /// <summary>Ends a hold. Without one it does nothing.</summary>
    void Release();

    /// <summary>Has all workers made anew the same way, such as a program that has been exchanged on disk. One is made first, beside the others (for this while there may be one more than Max): if that
    /// fails nothing has changed. Then the old ones end one after another, each when its call has ended, and are replaced.</summary>
    /// <param name="cancellationToken">Ends the waiting, not the swap.</param>
    /// <returns>Ends when the last old worker has ended. One that is stuck is not waited for.</returns>
    /// <exception cref="WorkerStartException">The first one could not be made. Or none could be tried: the one that an earlier swap has tried is stuck, or so many are that no further one may be made beside
    /// them (<see cref="WorkerPoolOptions.StuckMax"/>).</exception>
    /// <exception cref="WorkerPoolClosedException">The pool has ended.</exception>
    Task SwapAsync(CancellationToken cancellationToken = default);

    /// <summary>Ends when <see cref="WorkerPoolOptions.Min"/> workers have been made.</summary>
    /// <param name="cancellationToken">Ends the waiting.</param>
    /// <exception cref="WorkerStartException">One could not be made. The pool goes on trying.</exception>
    /// <exception cref="WorkerPoolClosedException">The pool has ended.</exception>
    Task WaitUntilReadyAsync(CancellationToken cancellationToken = default);
}
