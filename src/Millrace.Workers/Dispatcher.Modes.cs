// Hold, exclusive use, swap, end: the steps, each under the lock. Their order is in PoolModes.cs.

namespace Millrace.Workers;

internal sealed partial class Dispatcher<TWorker>
{
    private bool _isHeld;

    /// <summary>Workers of an earlier generation may be there. This one and the next three under the lock.</summary>
    public bool IsRolling { get; private set; }

    public bool IsExclusive { get; private set; }

    /// <summary>No further calls.</summary>
    public bool IsClosing { get; private set; }

    /// <summary>Nor those that wait.</summary>
    public bool IsClosed { get; private set; }

    // ---- hold ----

    public Task HoldAsync(CancellationToken ct)
    {
        using (_lock.Enter())
        {
            _isHeld = true;
            UpdateMayRun();
            SayAfter(static log => log.IsHeld());
        }
        return _lock.UntilAsync(() => _crew.Running == 0, Timeout.InfiniteTimeSpan, ct);
    }

    public void Release()
    {
        using (_lock.Enter())
        {
            if (_isHeld)
            {
                _isHeld = false;
                UpdateMayRun();
                Distribute(Limits.Now);
                SayAfter(static log => log.IsReleased());
            }
        }
    }

    private void UpdateMayRun() => _mayRun = !_isHeld && !IsExclusive && !IsClosed;

    // ---- ready ----

    public async Task WaitUntilReadyAsync(CancellationToken ct)
    {
        await _lock.UntilAsync(() => IsClosing || _starts.Failures > 0 || _crew.Ready >= _min, Timeout.InfiniteTimeSpan, ct).ConfigureAwait(false);
        using (_lock.Enter())
        {
            if (IsClosing)
            {
                throw new WorkerPoolClosedException(_name);
            }
            if (_starts.Failures > 0 && _crew.Ready < _min)
            {
                throw new WorkerStartException(_name, $"A worker of the pool {_name} cannot be made: {_starts.Failure!.Message}", _starts.Failure);
            }
        }
    }

    // ---- exclusive use ----

    public void BeginExclusive()
    {
        using (_lock.Enter())
        {
            IsExclusive = true;
            UpdateMayRun();
            Settle(Limits.Now);
        }
    }

    public void EndExclusive()
    {
        using (_lock.Enter())
        {
            IsExclusive = false;
            UpdateMayRun();
            Settle(Limits.Now);
            Distribute(Limits.Now);
        }
    }

    /// <summary>Whether one worker lives, and has no call. Under the lock.</summary>
    public bool IsAlone => _crew.Live == 1 && _crew.Idle.Count == 1 && _crew.Stuck.Count == 0;

    public bool TryGiveAlone(Call<TWorker> call)
    {
        call.Since = Limits.Now;
        using (_lock.Enter())
        {
            if (IsClosing)
            {
                throw new WorkerPoolClosedException(_name);
            }
            if (call.Stage != CallStage.New)
            {
                throw new OperationCanceledException(call.CallerToken);
            }
            if (!IsAlone)
            {
                return false;
            }
            Worker<TWorker> worker = TakeIdle()!;
            Give(worker, call, call.Since);
            worker.Assign(call);
            _lock.After(worker.Wake);
        }
        return true;
    }

    // ---- swap ----

    /// <summary>Whether a swap has to wait: for the end of an exclusive use, or of workers that are too many. Under the lock.</summary>
    public bool MustWaitToTry => IsExclusive || _bound.MustWaitToTry(_max);

    /// <summary>Begins to make a worker another way; nothing is decided before it has been made. Null: it has to wait.</summary>
    public Worker<TWorker>? TryStartTrial(Func<CancellationToken, Task<TWorker>>? makeAsync, Func<TWorker>? make)
    {
        using (_lock.Enter())
        {
            if (IsClosing)
            {
                throw new WorkerPoolClosedException(_name);
            }
            if (MustWaitToTry)
            {
                return null;
            }
            _bound.JudgeTrial(_max);
            _extra = 1;
            return Start(_source.With(makeAsync, make), _generation + 1, isTrial: true, Limits.Now);
        }
    }

    private void TakeOver(Worker<TWorker> trial)
    {
        trial.IsTrial = false;
        _extra = 0;
        _source = trial.Source;
        _generation = trial.Generation;
        IsRolling = true;
        SayAfter(log => log.Swapped(trial.Generation));
    }

    // ---- the end ----

    /// <summary>No further calls. False: that was so already.</summary>
    public bool TryBeginClosing()
    {
        using (_lock.Enter())
        {
            if (IsClosing)
            {
                return false;
            }
            IsClosing = true;
            if (!_mayRun)
            {
                RefuseAll();        // nobody would ever take them
            }
            Tell();
            return true;
        }
    }

    /// <summary>Whether no call waits or runs. Under the lock.</summary>
    public bool IsQuiet => _queue.Count == 0 && _crew.Running == 0;

    /// <summary>Whether no worker is left but those that have been given up. Under the lock.</summary>
    public bool IsEmpty => _crew.Live == 0;

    /// <summary>Refuses what waits, cancels what runs, ends the workers.</summary>
    /// <returns>How many calls that meets.</returns>
    public int Close()
    {
        int cut;
        using (_lock.Enter())
        {
            IsClosed = true;
            cut = _queue.Count + _crew.Running;
            UpdateMayRun();
            RefuseAll();
            _crew.ForEachBusy(worker => _lock.After(worker.Current!.Cancel));
            Settle(Limits.Now);
        }
        _ = _endingSource.CancelAsync();
        return cut;
    }

    /// <summary>Calls that have not heeded their tokens are left alone with their workers.</summary>
    public void GiveUpRunning()
    {
        using (_lock.Enter())
        {
            _crew.ForEachBusy(worker =>
            {
                Orders.Break(worker.Current!, new WorkerPoolClosedException(_name));
                GiveUp(worker, WorkerEnd.Closed, Limits.Now);
            });
        }
    }

    public void EndClosing(int cut)
    {
        if (cut > 0)
        {
            _saying.SayNow(log => log.Cut(cut));
        }
        _monitor.Dispose();
    }

    // Something has changed that somebody may be waiting for.
    private void Tell()
    {
        IsRolling = IsRolling && _crew.HasOtherThan(_generation);
        _lock.Tell();
    }
}
