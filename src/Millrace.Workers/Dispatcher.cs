// Who gets which call. One lock holds it all together, and is held for moments: what wakes threads, starts them, or is code of the application's (loggers) runs when it has been let go.
//
// This file: calls. How many workers there are: Dispatcher.Size.cs. The life of one: Dispatcher.Lives.cs. Hold, exclusive use, swap and end: Dispatcher.Modes.cs.

using System.Diagnostics.CodeAnalysis;

namespace Millrace.Workers;

[SuppressMessage("Reliability", "CA1001", Justification = "Close and EndClosing end what it has; the token of its end may be looked at behind it.")]
internal sealed partial class Dispatcher<TWorker>
{
    private readonly PoolLock _lock;
    private readonly PoolTime<TWorker> _time;
    private readonly Crew<TWorker> _crew;
    private readonly StuckBound<TWorker> _bound;
    private readonly StartPauses _starts;
    private readonly CallQueue<TWorker> _queue = new();
    private readonly string _name;
    private readonly SayingQueue _saying;
    private readonly PoolMonitor _monitor;
    private readonly CancellationTokenSource _endingSource = new();
    private bool _mayRun = true;        // a free worker may take a call: not held, not used exclusively, not at the end
    private int _turn;                  // round robin: where to look first

    public Dispatcher(string name, WorkerPoolOptions options, WorkerSource<TWorker> source, Log log)
    {
        _name = name;
        _saying = new SayingQueue(log);
        _source = source;
        _isThreadBound = options.ThreadBound;
        _min = options.Min;
        _max = options.Max;
        _target = _min;
        Limits = new Limits(options);
        Counters = new PoolCounters();
        _time = new PoolTime<TWorker>(this, name);
        Orders = new PoolOrders<TWorker>(this, name);
        _crew = new Crew<TWorker>(Limits, Counters);
        _bound = new StuckBound<TWorker>(name, _crew, Limits, SayAfter);
        _starts = new StartPauses(Limits);
        _monitor = new PoolMonitor(name, Look, Limits);
        _lock = new PoolLock(_monitor.Wake);
        using (_lock.Enter())
        {
            Settle(Limits.Now);
        }
    }

    public Limits Limits { get; }

    public PoolCounters Counters { get; }

    public PoolLock Lock => _lock;

    public Crew<TWorker> Crew => _crew;

    public PoolOrders<TWorker> Orders { get; }

    /// <summary>Cancelled when the pool has ended: what makes workers should end too.</summary>
    public CancellationToken Ending => _endingSource.Token;

    // ---- calls ----

    /// <summary>Takes a call: a free worker has it, or it waits, or it is refused.</summary>
    public void Take(Call<TWorker> call)
    {
        call.Since = Limits.Now;
        call.Listen();
        Worker<TWorker>? worker = null;
        WorkerPoolException? refusal = null;
        using (_lock.Enter())
        {
            if (call.Stage != CallStage.New)
            {
                return;     // its caller has left
            }
            if (IsClosing)
            {
                refusal = new WorkerPoolClosedException(_name);
            }
            else if (_mayRun && TakeIdle() is { } free)
            {
                worker = free;
                Give(free, call, call.Since);
                free.Assign(call);
            }
            else if (!HasRoom(call.Since))
            {
                refusal = Full();
            }
            else
            {
                Wait(call);
            }
        }
        worker?.Wake();
        if (refusal is not null)
        {
            call.Refuse(refusal);
        }
    }

    /// <summary>The caller of a call leaves. False: it waits no longer, and its worker has to be told.</summary>
    public bool TryLeaveQueue(Call<TWorker> call)
    {
        using (_lock.Enter())
        {
            if (call.Stage is CallStage.Running or CallStage.Over)
            {
                return false;
            }
            if (call.Stage == CallStage.Waiting)
            {
                _queue.Remove(call);
                Counters.LeftQueue++;
            }
            call.Stage = CallStage.Over;
            Tell();
        }
        call.Leave();
        return true;
    }

    /// <summary>A worker has ended a call, or has skipped one that was taken back.</summary>
    /// <param name="worker">Which.</param>
    /// <param name="call">Which.</param>
    /// <param name="wish">Why it is to end now, as far as it knows itself.</param>
    /// <param name="now">The time.</param>
    /// <returns>The next call; null: it has none, or has been told to end.</returns>
    public Call<TWorker>? Finish(Worker<TWorker> worker, Call<TWorker> call, WorkerEnd wish, long now)
    {
        using (_lock.Enter())
        {
            call.Stage = CallStage.Over;
            call.NoteOver();
            worker.Current = null;
            Counters.Calls += call.IsTakenBack ? 0 : 1;
            Counters.Failures += call.Failure is null ? 0 : 1;
            if (worker.State == WorkerState.Stuck)
            {
                if (call.Failure is ThreadInterruptedException stack)
                {
                    SayAfter(log => log.StuckAt(stack, worker.Id));
                }
                worker.BeginEnd();
                return null;
            }
            _crew.Running--;
            _starts.NoteLife(worker.ProcessId is not null && wish == WorkerEnd.None && !call.IsTakenBack);
            if (worker.Times.Count == worker.Failures && worker.EarlyDeath is { } cause)
            {
                NotePause(cause, now);      // calls that wait would start one after another
            }
            return Free(worker, wish, now);
        }
    }

    // A call that a worker is being made for is not one of those that wait for others to end: without a queue, too, a pool comes to its size, and an empty one serves.
    private bool HasRoom(long now)
    {
        if (_mayRun && _queue.Count >= Limits.QueueMax + _crew.Starting)
        {
            GrowNow(now);
        }
        return _queue.Count < Limits.QueueMax + (_mayRun ? _crew.Starting : 0);
    }

    // Whoever comes when others wait is behind them: while calls wait no worker is idle that may run.
    private Worker<TWorker>? TakeIdle()
    {
        int index = _crew.Idle.Next(Limits.Routing == WorkerRouting.FirstFree ? 0 : _turn);
        if (index < 0)
        {
            return null;
        }
        _turn = index + 1;
        _crew.Idle.Remove(index);
        return _crew.Seats[index].Worker;
    }

    private void Give(Worker<TWorker> worker, Call<TWorker> call, long now)
    {
        call.Stage = CallStage.Running;
        worker.State = WorkerState.Busy;
        worker.Since = now;
        worker.CallSince = now;
        worker.Current = call;
        worker.ToldAt = null;
        worker.CallsLeft--;
        worker.Seat.Hits++;
        _crew.Running++;
        _lock.NoteDue(Limits.Due(now, Limits.CallLimit));
        call.Waited = now - call.Since;
    }

    private void Wait(Call<TWorker> call)
    {
        call.Stage = CallStage.Waiting;
        _queue.Add(call);
        _lock.NoteDue(Limits.Due(call.Since, Limits.WaitLimit));
        Grow(call.Since);
    }

    // A worker has nothing to do: it ends, or has the next call, or is idle.
    private Call<TWorker>? Free(Worker<TWorker> worker, WorkerEnd wish, long now)
    {
        WorkerEnd reason = wish != WorkerEnd.None ? wish : WhyEnd(worker, now);
        if (reason != WorkerEnd.None)
        {
            BeginEnding(worker, reason, now);
            Settle(now);
            return null;
        }
        if (_mayRun && _queue.Take() is { } next)
        {
            Give(worker, next, now);
            return next;
        }
        worker.State = WorkerState.Idle;
        worker.Since = now;
        _crew.Idle.Add(worker.Seat.Index);
        _lock.NoteDue(worker.ExpiresAt);        // nobody has thought of it while it had a call
        NoteIdle(now);
        Tell();
        return null;
    }

    // Calls have waited for another reason than that all workers were busy.
    private void Distribute(long now)
    {
        while (_mayRun && _queue.First is not null && TakeIdle() is { } worker)
        {
            Call<TWorker> call = _queue.Take()!;
            Give(worker, call, now);
            worker.Assign(call);
            _lock.After(worker.Wake);
        }
        Grow(now);
    }

    // ---- refusals ----

    private WorkerQueueFullException Full()
    {
        Counters.RefusedFull++;
        return new WorkerQueueFullException(_name, Limits.QueueMax, Describe());
    }

    private void RefuseLate(long now)
    {
        while (_queue.First is { } call && now >= Limits.Due(call.Since, Limits.WaitLimit))
        {
            _queue.Remove(call);
            Counters.RefusedLate++;
            Refuse(call, new WorkerWaitException(_name, Limits.WaitTime, Describe(), _starts.Failure));
        }
        if (_queue.First is { } first)
        {
            _lock.NoteDue(Limits.Due(first.Since, Limits.WaitLimit));
        }
    }

    private void RefuseAll()
    {
        while (_queue.Take() is { } call)
        {
            Refuse(call, new WorkerPoolClosedException(_name));
        }
    }

    private void Refuse(Call<TWorker> call, WorkerPoolException reason)
    {
        call.Stage = CallStage.Over;
        _lock.After(() => call.Refuse(reason));
    }

    private string Describe() => _crew.Describe() + (_isHeld ? " The pool is held." : IsExclusive ? " The pool is used exclusively." : "");

    // ---- messages ----

    /// <summary>Has a logger told, soon and in order.</summary>
    public void Say(Action<Log> message) => _saying.Add(message);

    private void SayAfter(Action<Log> message) => _lock.After(() => _saying.Add(message));

    // ---- time ----

    /// <summary>Does what is due.</summary>
    /// <returns>When to look again; <see cref="Limits.Never"/>: when woken.</returns>
    public long Look()
    {
        using (_lock.Enter())
        {
            long now = Limits.Now;
            _lock.BeginLook();
            RefuseLate(now);
            for (int i = 0; i < _crew.Seats.Count; i++)
            {
                if (_crew.Seats[i].Worker is { } worker)
                {
                    _time.LookAt(worker, now);
                }
            }
            Shrink(now);
            Settle(now);
            Grow(now);
            return _lock.EndLook();
        }
    }
}
