// How many workers there are: as many as the target says, which lies between Min and Max, grows when calls wait and shrinks when workers are idle. Threads are bounded whatever happens: see
// StuckBound.cs.

namespace Millrace.Workers;

internal sealed partial class Dispatcher<TWorker>
{
    private readonly bool _isThreadBound;
    private WorkerSource<TWorker> _source;
    private int _generation = 1;
    private int _min;
    private int _max;
    private int _target;
    private int _extra;             // 1 while a swap tries the new factory
    private long _lastGrowth;

    private int Target => IsClosed ? 0 : IsExclusive ? 1 : _target;

    private bool HasSurplus => _crew.Live - _crew.Ending > Target + _extra;

    /// <summary>Brings the workers to what is wanted, as far as that can be begun now.</summary>
    public void Settle(long now)
    {
        IsRolling = IsRolling && _crew.HasOtherThan(_generation);
        while (HasSurplus && SurplusIdle() is { } surplus)
        {
            BeginEnding(surplus, IsClosed ? WorkerEnd.Closed : WorkerEnd.Surplus, now);
        }
        RollOver(now);
        while (_crew.Live < Target && MayStart(now))
        {
            Start(_source, _generation, isTrial: false, now);
        }
        Tell();
    }

    // From behind, but while a generation is being replaced only of the old one.
    private Worker<TWorker>? SurplusIdle() => IsRolling && !IsClosed
        ? _crew.Seats.FindLast(seat => seat.Worker is { State: WorkerState.Idle } worker && worker.Generation != _generation)?.Worker
        : _crew.Idle.Last() is >= 0 and var index ? _crew.Seats[index].Worker : null;

    // One at a time behind a failure: there is nothing to be gained by more of them.
    private bool MayStart(long now)
    {
        if (_starts.Failures > 0 && (now < _starts.NotBefore || _crew.Starting > 0))
        {
            if (now < _starts.NotBefore)
            {
                _lock.NoteDue(_starts.NotBefore);
            }
            return false;
        }
        return _bound.MayStart(_max, now, _lock);
    }

    // A generation that has been replaced ends one worker after another, and none while another is on its way: there are always enough that serve.
    private void RollOver(long now)
    {
        for (int i = 0; IsRolling && i < _crew.Seats.Count; i++)
        {
            if (_crew.Seats[i].Worker is { State: WorkerState.Idle } worker && IsOutdated(worker))
            {
                BeginEnding(worker, WorkerEnd.Swapped, now);
            }
        }
    }

    private bool IsOutdated(Worker<TWorker> worker) => worker.Generation != _generation && !_crew.IsChanging && (_crew.Live >= Target || _bound.IsReached(_max));

    /// <summary>Why a worker that has no call is to end; None: it is not.</summary>
    private WorkerEnd WhyEnd(Worker<TWorker> worker, long now) =>
        IsClosed ? WorkerEnd.Closed
        : worker.EndReason != WorkerEnd.None ? worker.EndReason
        : worker.CallsLeft <= 0 ? WorkerEnd.Calls
        : now >= worker.ExpiresAt ? WorkerEnd.Age
        : HasSurplus && !(IsRolling && worker.Generation == _generation) ? WorkerEnd.Surplus
        : IsRolling && IsOutdated(worker) ? WorkerEnd.Swapped
        : WorkerEnd.None;

    // Called when a call begins to wait, and when the time has come to look again.
    private void Grow(long now)
    {
        if (!_mayRun || _queue.First is not { } first || _target >= _max || _crew.Live < _target)
        {
            return;
        }
        long due = Math.Max(first.Since, _lastGrowth) + Limits.GrowAfter;
        if (_crew.Live == 0 || (now >= due && _crew.Starting < _queue.Count))
        {
            GrowNow(now);
            due = now + Limits.GrowAfter;
        }
        if (_target < _max)
        {
            _lock.NoteDue(due);
        }
    }

    private void GrowNow(long now)
    {
        if (_target < _max && _crew.Live >= _target)
        {
            _target++;
            _lastGrowth = now;
            Settle(now);
        }
    }

    private void NoteIdle(long now)
    {
        if (_target > _min)
        {
            _lock.NoteDue(Limits.Due(now, Limits.IdleLimit));
        }
    }

    // From behind: with FirstFree those are the ones that are needed least.
    private void Shrink(long now)
    {
        for (int i = _crew.Seats.Count - 1; i >= 0 && _target > _min; i--)
        {
            if (_crew.Seats[i].Worker is not { State: WorkerState.Idle } worker)
            {
                continue;
            }
            long due = Limits.Due(worker.Since, Limits.IdleLimit);
            if (now < due)
            {
                _lock.NoteDue(due);
                continue;
            }
            _target--;
            BeginEnding(worker, WorkerEnd.Idle, now);
        }
    }

    /// <summary>See <see cref="IWorkerPool.Resize"/>.</summary>
    public void Resize(int min, int max)
    {
        using (_lock.Enter())
        {
            long now = Limits.Now;
            _min = min;
            _max = max;
            _target = Math.Clamp(_target, min, max);
            Settle(now);
            Distribute(now);
            NoteIdle(now);
        }
    }
}
