// A worker with a thread of its own: made, called and disposed of there, and what its calls go on with behind an await runs there as well, between calls too.

using System.Collections.Concurrent;

namespace Millrace.Workers;

internal sealed class ThreadWorker<TWorker>(Dispatcher<TWorker> dispatcher, Seat<TWorker> seat, WorkerSource<TWorker> source, int generation, string pool)
    : Worker<TWorker>(dispatcher, seat, source, generation), IPostOffice
{
    private const int SpinsMax = 20;

    // An interruption may be asked for until the call ends, and has been made when the thread goes on.
    private const int OutsideCall = 0;
    private const int InCall = 1;
    private const int Interrupting = 2;
    private const int Interrupted = 3;

    private readonly Doorbell _bell = new();
    private readonly ConcurrentQueue<(SendOrPostCallback Callback, object? State)> _posted = new();
    private Thread? _thread;
    private WorkerContext? _context;
    private Action? _ring;
    private TWorker _instance = default!;
    private int _where;
    private volatile bool _hasEnded;

    public override bool HasThread => true;

    public override void Launch()
    {
        _thread = new Thread(Live) { IsBackground = true, Name = $"{pool} {Id}" };
        _thread.UnsafeStart();
    }

    public override void Wake() => _bell.Ring();

    public void Post(SendOrPostCallback callback, object? state)
    {
        _posted.Enqueue((callback, state));
        if (_hasEnded)
        {
            DropPosted();       // nobody else may come any more
        }
        else
        {
            _bell.Ring();
        }
    }

    public bool IsHere => Thread.CurrentThread == _thread;

    public override void Interrupt()
    {
        if (Interlocked.CompareExchange(ref _where, Interrupting, InCall) == InCall)
        {
            _thread!.Interrupt();
            Volatile.Write(ref _where, Interrupted);
        }
    }

    // ---- the thread ----

    private void Live()
    {
        NoteBare();
        ThreadId = ThreadFacts.OwnId();
        _ring = _bell.Ring;
        _context = new WorkerContext(this);
        SynchronizationContext.SetSynchronizationContext(_context);
        if (!TryMake())
        {
            return;
        }
        Call<TWorker>? call = Dispatcher.Started(this);
        long began = Dispatcher.Limits.Now;
        while (true)
        {
            if (call is null)
            {
                call = WaitForCall();
                if (call is null)
                {
                    break;
                }
                began = Dispatcher.Limits.Now;
            }
            if (call.TryBegin())
            {
                Run(call);
                call = Finish(_instance, call, began, out began);
            }
            else
            {
                call = Skip(call, out began);
            }
        }
        End();
    }

    private bool TryMake()
    {
        try
        {
            _instance = Complete(Source.MakeAsync(Dispatcher.Ending));
            _ = Interruption.Forget();
            return true;
        }
        catch (Exception error)
        {
            EndPosts();
            Dispatcher.StartFailed(this, error);
            return false;
        }
    }

    private void Run(Call<TWorker> call)
    {
        _where = InCall;
        try
        {
            if (call.Run(_instance, Bare) is { } pending)
            {
                WaitFor(pending);
            }
        }
        finally
        {
            LeaveCall();
        }
    }

    // An interruption that has come too late, the pool's or the application's own, must not hit what the pool does next.
    private void LeaveCall()
    {
        if (Interlocked.CompareExchange(ref _where, OutsideCall, InCall) != InCall)
        {
            while (Volatile.Read(ref _where) != Interrupted)
            {
                _ = Thread.Yield();
            }
        }
        _ = Interruption.Forget();
    }

    private Call<TWorker>? WaitForCall()
    {
        while (true)
        {
            if (TakeAssigned() is { } call)
            {
                return call;
            }
            if (MustEnd)
            {
                return null;
            }
            if (!RunPosted())
            {
                _bell.Wait(SpinsMax);
            }
        }
    }

    private void End()
    {
        Exception? failure = null;
        try
        {
            _ = Complete(DisposeAsync());
        }
        catch (Exception error)
        {
            failure = error;
        }
        _instance = default!;
        while (RunPosted())
        {
        }
        EndPosts();
        Dispatcher.Ended(this, failure);
    }

    private async Task<bool> DisposeAsync()
    {
        await WorkerSource<TWorker>.DisposeAsync(_instance);
        return true;
    }

    // ---- what comes back to the thread ----

    private T Complete<T>(Task<T> task)
    {
        WaitFor(task);
        return task.GetAwaiter().GetResult();
    }

    private void WaitFor(Task task)
    {
        if (task.IsCompleted)
        {
            return;
        }
        task.ConfigureAwait(false).GetAwaiter().UnsafeOnCompleted(_ring!);
        while (!task.IsCompleted)
        {
            if (!RunPosted())
            {
                _bell.Wait();
            }
        }
    }

    // Whoever posts afterwards sees that it has ended, and whoever has posted before is seen here.
    private void EndPosts()
    {
        _hasEnded = true;
        Interlocked.MemoryBarrier();
        DropPosted();
    }

    private void DropPosted()
    {
        while (_posted.TryDequeue(out var work))
        {
            (work.State as SentWork)?.Refuse();
            Dispatcher.Say(log => log.LeftBehindDropped(Id));
        }
    }

    private bool RunPosted()
    {
        if (!_posted.TryDequeue(out var work))
        {
            return false;
        }
        try
        {
            work.Callback(work.State);
        }
        catch (Exception error)
        {
            Dispatcher.Orders.Distrust(this, error);
        }
        _ = Interruption.Forget();
        ExecutionContext.Restore(Bare);     // what the application itself has posted has come without a context, and what it has set stays with it
        SynchronizationContext.SetSynchronizationContext(_context);
        return true;
    }
}
