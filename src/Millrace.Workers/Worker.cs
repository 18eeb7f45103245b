// One worker from its making to its disposing. What it is doing belongs to the dispatcher's lock; its instance belongs to whoever runs it: a thread of its own (ThreadWorker), or
// one thread of the thread pool after another (FreeWorker).
//
//              Started            Assign                Finish
//   Starting ----------> Idle <---------> Busy ------------------------> Ending ----> Ended
//      |                   | BeginEnd       | over its time, killed         |
//      |                   +--------------> | ------------> Stuck ----------+ when it comes back
//      +-- over its time ------------------------------------^

using Millrace.Workers.Processes;

namespace Millrace.Workers;

internal abstract class Worker<TWorker>(Dispatcher<TWorker> dispatcher, Seat<TWorker> seat, WorkerSource<TWorker> source, int generation)
{
    private Call<TWorker>? _assigned;
    private volatile bool _mustEnd;
    private ExecutionContext? _bare;

    public Seat<TWorker> Seat => seat;

    public int Id => seat.Index + 1;

    public int Generation => generation;

    protected Dispatcher<TWorker> Dispatcher => dispatcher;

    public WorkerSource<TWorker> Source => source;

    // ---- the dispatcher's lock ----

    public WorkerState State { get; set; } = WorkerState.Starting;

    /// <summary>Since when it is in this state.</summary>
    public long Since { get; set; }

    /// <summary>The call it has; null: none.</summary>
    public Call<TWorker>? Current { get; set; }

    /// <summary>Since when it has had its call.</summary>
    public long CallSince { get; set; }

    /// <summary>When <see cref="Current"/> has been told that its time is over; null: it has not.</summary>
    public long? ToldAt { get; set; }

    /// <summary>Why it is to end when its call has; None: it is not.</summary>
    public WorkerEnd EndReason { get; set; }

    /// <summary>When it is old.</summary>
    public long ExpiresAt { get; set; }

    /// <summary>How many calls it may still have.</summary>
    public long CallsLeft { get; set; }

    /// <summary>Whether it is the first of a new generation, and nothing is decided until it has been made.</summary>
    public bool IsTrial { get; set; }

    /// <summary>Why one on trial could not be made; null: it could, or is still being made.</summary>
    public Exception? StartFailure { get; set; }

    public DateTimeOffset Started { get; init; }

    // ---- written by whoever runs it ----

    public LatencyHistogram Times { get; } = new();

    public long Last { get; set; }

    public long Failures { get; set; }

    /// <summary>The kernel's id of its thread.</summary>
    public int? ThreadId { get; protected set; }

    /// <summary>Its process; null: this one.</summary>
    public int? ProcessId { get; protected set; }

    /// <summary>How its process has ended before it has shown that it serves; null: it has not.</summary>
    public virtual Exception? EarlyDeath => null;

    // ---- orders; from any thread ----

    /// <summary>Whether it has a thread, so that it is itself to blame for a call that does not begin.</summary>
    public abstract bool HasThread { get; }

    /// <summary>Whether it can be killed, so that one that has been given up comes to its end.</summary>
    public virtual bool CanBeKilled => false;

    /// <summary>Begins to make it.</summary>
    public abstract void Launch();

    /// <summary>Has it look at what it has been told.</summary>
    public abstract void Wake();

    /// <summary>Gives it a call, which it takes when it is woken. It has none.</summary>
    public void Assign(Call<TWorker> call) => Volatile.Write(ref _assigned, call);

    /// <summary>Has it end when it is woken. It has no call.</summary>
    public void BeginEnd() => _mustEnd = true;

    /// <summary>It has been given up with a call in its hands, and where it can be interrupted it is.</summary>
    public virtual void Interrupt()
    {
    }

    /// <summary>It has been given up, and where it can be killed it is, and that is said.</summary>
    /// <returns>False: it cannot (<see cref="CanBeKilled"/>).</returns>
    public virtual bool TryKill(WorkerEnd reason, string call, TimeSpan after) => false;

    // ---- its own ----

    protected bool MustEnd => _mustEnd;

    /// <summary>See <see cref="Call{TWorker}.Run"/>.</summary>
    protected ExecutionContext Bare => _bare!;

    /// <summary>The first that it does, before anything of the application's runs where it is.</summary>
    protected void NoteBare() => _bare = ExecutionContext.Capture()!;

    protected Call<TWorker>? TakeAssigned()
    {
        Call<TWorker>? call = Volatile.Read(ref _assigned);
        if (call is not null)
        {
            Volatile.Write(ref _assigned, null);
        }
        return call;
    }

    /// <summary>Instead of a call that was answered before it could begin.</summary>
    /// <returns>As <see cref="Finish"/>.</returns>
    protected Call<TWorker>? Skip(Call<TWorker> call, out long now)
    {
        now = dispatcher.Limits.Now;
        call.Forget();
        return dispatcher.Finish(this, call, WorkerEnd.None, now);
    }

    /// <summary>Behind the end of a call: counts, answers the caller, and says what comes next.</summary>
    /// <returns>The next call; null: there is none, or it is to end.</returns>
    protected Call<TWorker>? Finish(TWorker instance, Call<TWorker> call, long began, out long now)
    {
        call.Conclude();
        WorkerEnd wish = instance is IMortal { Wish: not WorkerEnd.None and var its } ? its
            : call.Failure is not null && dispatcher.Limits.RecycleOnError ? WorkerEnd.Error
            : source.WantsRecycling(instance) ? WorkerEnd.Predicate
            : WorkerEnd.None;
        now = dispatcher.Limits.Now;
        Last = now - began;
        Times.Add(Math.Max(0, Last));
        if (call.Failure is not null)
        {
            Failures++;
        }
        Call<TWorker>? next = dispatcher.Finish(this, call, wish, now);     // free for the next one before the caller knows
        call.Answer();
        dispatcher.Counters.NoteCall(dispatcher.Limits, call.Waited, Last);
        return next;
    }
}

/// <summary>How workers are made, and what is asked of them.</summary>
internal sealed class WorkerSource<TWorker>(Func<CancellationToken, Task<TWorker>>? makeAsync, Func<TWorker>? make, Action<TWorker>? warmUp, Func<TWorker, bool>? recycleWhen)
{
    /// <summary>The same, made otherwise; without another way, the same anew.</summary>
    public WorkerSource<TWorker> With(Func<CancellationToken, Task<TWorker>>? otherAsync, Func<TWorker>? other) =>
        otherAsync is null && other is null ? this : new(otherAsync, other, warmUp, recycleWhen);

    public async Task<TWorker> MakeAsync(CancellationToken ct)
    {
        TWorker worker = makeAsync is not null ? await (makeAsync(ct) ?? throw new InvalidOperationException("The factory has returned null instead of a task.")) : make!();
        if (worker is null)
        {
            throw new InvalidOperationException("The factory has returned null.");
        }
        try
        {
            warmUp?.Invoke(worker);
        }
        catch
        {
            await DisposeAsync(worker);
            throw;
        }
        return worker;
    }

    // A predicate that throws does not know: a fresh worker is the safe answer.
    public bool WantsRecycling(TWorker worker)
    {
        if (recycleWhen is null)
        {
            return false;
        }
        try
        {
            return recycleWhen(worker);
        }
        catch (Exception)
        {
            return true;
        }
        finally
        {
            _ = Interruption.Forget();
        }
    }

    public static async Task DisposeAsync(TWorker worker)
    {
        switch (worker)
        {
            case IAsyncDisposable disposable:
                await disposable.DisposeAsync();
                break;
            case IDisposable disposable:
                disposable.Dispose();
                break;
        }
    }
}
