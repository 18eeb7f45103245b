// The lock of a pool. It is held for moments: what wakes threads, starts them, or is code of the application's runs when it has been let go. Who waits for something that it protects to become so
// is told here.

namespace Millrace.Workers;

internal sealed class PoolLock(Action wakeMonitor)
{
    private readonly Lock _lock = new();
    private readonly List<(Func<bool> IsSo, TaskCompletionSource Done)> _waiters = [];
    private List<Action>? _after;
    private bool _mustWake;

    /// <summary>Takes it; disposing of the answer lets it go.</summary>
    public Held Enter()
    {
        if (!_lock.TryEnter())
        {
            Interruption.Outlast(static its => its.Enter(), _lock);
        }
        return new Held(this);
    }

    /// <summary>What is to be done when it has been let go.</summary>
    public void After(Action action) => (_after ??= []).Add(action);

    /// <summary>When the monitor looks next; <see cref="Limits.Never"/>: when it is woken.</summary>
    public long NextLook { get; private set; } = Limits.Never;

    /// <summary>The monitor is to look no later than this.</summary>
    public void NoteDue(long due)
    {
        if (due < NextLook)
        {
            NextLook = due;
            _mustWake = true;
        }
    }

    /// <summary>The monitor looks: what is due later it is told while it does.</summary>
    public void BeginLook() => NextLook = Limits.Never;

    /// <summary>It has looked.</summary>
    /// <returns>When to look next.</returns>
    public long EndLook()
    {
        _mustWake = false;
        return NextLook;
    }

    /// <summary>Ends when something is so. It is looked at under the lock, whenever something has changed (<see cref="Tell"/>).</summary>
    /// <exception cref="TimeoutException">It has not been so within <paramref name="limit"/>.</exception>
    public async Task UntilAsync(Func<bool> isSo, TimeSpan limit, CancellationToken ct)
    {
        (Func<bool>, TaskCompletionSource Done) waiter = (isSo, new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously));
        using (Enter())
        {
            if (isSo())
            {
                return;
            }
            _waiters.Add(waiter);
        }
        try
        {
            await waiter.Done.Task.WaitAsync(limit, ct).ConfigureAwait(false);
        }
        finally
        {
            using (Enter())
            {
                _ = _waiters.Remove(waiter);
            }
        }
    }

    /// <summary>The same; false: it has not been so within <paramref name="limit"/>.</summary>
    public async Task<bool> TryUntilAsync(Func<bool> isSo, TimeSpan limit)
    {
        try
        {
            await UntilAsync(isSo, limit, CancellationToken.None).ConfigureAwait(false);
            return true;
        }
        catch (TimeoutException)
        {
            return false;
        }
    }

    /// <summary>Something has changed that somebody may be waiting for.</summary>
    public void Tell()
    {
        foreach (var (isSo, done) in _waiters)
        {
            if (isSo())
            {
                _ = done.TrySetResult();
            }
        }
    }

    private void Exit()
    {
        List<Action>? after = _after;
        bool mustWake = _mustWake;
        _after = null;
        _mustWake = false;
        _lock.Exit();
        if (mustWake)
        {
            wakeMonitor();
        }
        if (after is not null)
        {
            foreach (Action action in after)
            {
                action();
            }
        }
    }

    public readonly ref struct Held(PoolLock held)
    {
        public void Dispose() => held.Exit();
    }
}
