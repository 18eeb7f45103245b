// The life of one worker, as the pool sees it: started, ended, given up.

namespace Millrace.Workers;

internal sealed partial class Dispatcher<TWorker>
{
    private Worker<TWorker> Start(WorkerSource<TWorker> source, int generation, bool isTrial, long now)
    {
        Seat<TWorker> seat = _crew.FreeSeat();
        DateTimeOffset started = Limits.Date;
        double part = 1 - (Limits.RecycleJitter * Random.Shared.NextDouble());
        Worker<TWorker> worker = _isThreadBound
            ? new ThreadWorker<TWorker>(this, seat, source, generation, _name) { Started = started }
            : new FreeWorker<TWorker>(this, seat, source, generation) { Started = started };
        worker.Since = now;
        worker.IsTrial = isTrial;
        worker.CallsLeft = Limits.RecycleAfterCalls == long.MaxValue ? long.MaxValue : Math.Max(1, (long)(Limits.RecycleAfterCalls * part));
        worker.ExpiresAt = Limits.RecycleAfter == Limits.Never ? Limits.Never : now + (long)(Limits.RecycleAfter * part);
        seat.Worker = worker;
        _crew.Live++;
        _crew.Starting++;
        _lock.NoteDue(now + Limits.StartLimit);
        _lock.After(() => Launch(worker));
        return worker;
    }

    // The system may refuse a thread.
    private void Launch(Worker<TWorker> worker)
    {
        try
        {
            worker.Launch();
        }
        catch (Exception error)
        {
            StartFailed(worker, error);
        }
    }

    /// <summary>A worker has been made.</summary>
    /// <returns>Its first call; null: none yet, or it is to end.</returns>
    public Call<TWorker>? Started(Worker<TWorker> worker)
    {
        using (_lock.Enter())
        {
            long now = Limits.Now;
            if (worker.State == WorkerState.Stuck)
            {
                worker.BeginEnd();
                return null;
            }
            _crew.Starting--;
            _starts.NoteLife(worker.ProcessId is null);     // a process has yet to show that it lives
            if (worker.IsTrial)
            {
                TakeOver(worker);
            }
            SayAfter(log => log.Started(worker.Id, worker.Generation));
            Call<TWorker>? first = Free(worker, WorkerEnd.None, now);
            Settle(now);
            return first;
        }
    }

    /// <summary>A worker could not be made. It is no more.</summary>
    public void StartFailed(Worker<TWorker> worker, Exception error)
    {
        using (_lock.Enter())
        {
            long now = Limits.Now;
            if (worker.State == WorkerState.Stuck)
            {
                _ = _crew.Stuck.Remove(worker);
                _bound.NoteReturn();
                if (!IsClosed)
                {
                    _starts.NoteReason(error);      // that it was given up has been said; why it did not come to be is known only now
                    SayAfter(log => log.StuckFailed(error, worker.Id));
                }
            }
            else
            {
                _crew.Starting--;
                _crew.Leave(worker);
                _crew.NoteEnd(worker, WorkerEnd.StartFailed);
                NoteFailure(worker, error, now);
            }
            worker.State = WorkerState.Ended;
            Settle(now);
        }
    }

    private void NoteFailure(Worker<TWorker> worker, Exception error, long now)
    {
        if (worker.IsTrial)
        {
            _extra = 0;
            worker.StartFailure = error;        // said by whoever swaps
            return;
        }
        if (IsClosed)
        {
            return;
        }
        if (_queue.Count == 0 && _target > _min)
        {
            _target--;      // nobody waits for it any more
        }
        NotePause(error, now);
        double seconds = Limits.Time(_starts.NotBefore - now).TotalSeconds;
        SayAfter(log => log.StartFailed(error, worker.Id, seconds));
    }

    /// <summary>A worker that has been told to end has ended.</summary>
    /// <param name="worker">Which.</param>
    /// <param name="failure">What its disposing has thrown; null: nothing.</param>
    public void Ended(Worker<TWorker> worker, Exception? failure)
    {
        using (_lock.Enter())
        {
            long now = Limits.Now;
            if (worker.State == WorkerState.Stuck)
            {
                _ = _crew.Stuck.Remove(worker);
                _bound.NoteReturn();
                double seconds = Limits.Time(now - worker.Since).TotalSeconds;
                if (!worker.CanBeKilled)
                {
                    SayAfter(log => log.StuckReturned(worker.Id, seconds));
                }
            }
            else
            {
                _crew.Ending--;
                _crew.Leave(worker);
                SayAfter(log => log.Ended(worker.Id, worker.EndReason, worker.Times.Count));
            }
            if (failure is not null)
            {
                SayAfter(log => log.DisposeFailed(failure, worker.Id));
            }
            worker.State = WorkerState.Ended;
            Settle(now);
        }
    }

    /// <summary>No worker is started for a while: one could not be made, or has died at once.</summary>
    public void NotePause(Exception error, long now)
    {
        _starts.NoteFailure(error, now);
        _lock.NoteDue(_starts.NotBefore);
    }

    // Idle, or without a call since this moment.
    public void BeginEnding(Worker<TWorker> worker, WorkerEnd reason, long now)
    {
        if (worker.State == WorkerState.Idle)
        {
            _crew.Idle.Remove(worker.Seat.Index);
            _lock.After(worker.Wake);
        }
        else if (worker.State == WorkerState.Busy && worker.Current is not null)
        {
            throw new InvalidOperationException("A worker that has a call cannot be ended.");
        }
        worker.State = WorkerState.Ending;
        worker.Since = now;
        worker.EndReason = reason;
        worker.BeginEnd();
        _crew.Ending++;
        _crew.NoteEnd(worker, reason);
        _lock.NoteDue(now + Limits.EndLimit);
    }

    /// <summary>Gives a worker up, whatever it is doing: its thread cannot be ended, only left alone.</summary>
    public void GiveUp(Worker<TWorker> worker, WorkerEnd reason, long now)
    {
        switch (worker.State)
        {
            case WorkerState.Starting:
                _crew.Starting--;
                break;
            case WorkerState.Ending:
                _crew.Ending--;
                break;
            case WorkerState.Busy:
                _crew.Running--;
                break;
        }
        _crew.Leave(worker);
        _crew.NoteEnd(worker, reason);
        if (worker.State == WorkerState.Starting && (worker.IsTrial || reason == WorkerEnd.StartLimit))
        {
            NoteFailure(worker, _starts.NotMade(reason), now);
        }
        TimeSpan after = Limits.Time(now - worker.Since);
        worker.State = WorkerState.Stuck;
        worker.Since = now;
        _crew.Stuck.Add(worker);
        string with = worker.Current?.Name ?? "";
        worker.Current?.IsGivenUp = true;
        _lock.After(() => Orders.LeaveAlone(worker, reason, with, after));
        Settle(now);
    }
}
