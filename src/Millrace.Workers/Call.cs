// One call on its way: it waits in the queue, a worker has it, begins it, and it is over. Its caller may be answered before that, by a time limit, and once only. Whoever answers before the call
// has begun takes it back: it begins or is taken back, never both. The caller goes on on the thread pool, never on a worker's thread.

using System.Diagnostics.CodeAnalysis;

namespace Millrace.Workers;

/// <summary>What flows with the execution context of a call, so that a call from inside it can be told.</summary>
internal abstract class CallInFlight(object pool)
{
    public static readonly AsyncLocal<CallInFlight?> Current = new();

    private CallInFlight? _outer = Running(Current.Value);
    private volatile bool _isOver;

    /// <summary>Whether whoever asks is inside a call of this pool.</summary>
    public static bool IsInside(object pool)
    {
        for (CallInFlight? call = Current.Value; call is not null; call = call._outer)
        {
            if (ReferenceEquals(call.Pool, pool) && !call._isOver)
            {
                return true;
            }
        }
        return false;
    }

    /// <summary>The worker is free again, and what the call has left behind may call. It keeps this call, so this one lets go of those around it that are over: a job that starts its next run would keep all
    /// earlier ones. Whoever looks at the same moment finds those that are not over either way.</summary>
    public void NoteOver()
    {
        _isOver = true;
        _outer = Running(_outer);
    }

    private object Pool => pool;

    // That call, or the first around it that is not over.
    private static CallInFlight? Running(CallInFlight? call)
    {
        while (call is { _isOver: true })
        {
            call = call._outer;
        }
        return call;
    }
}

internal enum CallStage
{
    /// <summary>Not in the queue yet.</summary>
    New,

    /// <summary>In the queue.</summary>
    Waiting,

    /// <summary>A worker has it.</summary>
    Running,

    /// <summary>No worker has it, or will.</summary>
    Over,
}

/// <typeparam name="TWorker">Whom it calls.</typeparam>
[SuppressMessage("Reliability", "CA1001", Justification = "A source that has no timer and no wait handle holds nothing, and what a call has left behind may still look at its token.")]
internal abstract class Call<TWorker>(Dispatcher<TWorker> dispatcher, string? name, CancellationToken callerToken) : CallInFlight(dispatcher)
{
    private const int Given = 0;
    private const int Begun = 1;
    private const int TakenBack = 2;

    private static readonly ContextCallback s_begin = static state => ((Call<TWorker>)state!).BeginInContext();

    private ExecutionContext? _context = ExecutionContext.Capture();
    private readonly CancellationTokenSource _cancelling = new();
    private CancellationTokenRegistration _registration;
    private TWorker _worker = default!;
    private int _beginning = Given;

    // ---- the queue's ----

    public Call<TWorker>? Before;
    public Call<TWorker>? Behind;

    /// <summary>Belongs to the dispatcher's lock.</summary>
    public CallStage Stage;

    /// <summary>Its worker has been given up, and nobody waits for the end of it. Under the lock.</summary>
    public bool IsGivenUp;

    /// <summary>When it was made; a time stamp of the pool's clock.</summary>
    public long Since;

    /// <summary>How long it was in the queue.</summary>
    public long Waited;

    public string? Name => name;

    /// <summary>The caller's.</summary>
    public CancellationToken CallerToken => callerToken;

    /// <summary>The call's: cancelled with the caller's, at the time limit, when the worker is killed, and at the end of the pool.</summary>
    protected CancellationToken Token => _cancelling.Token;

    /// <summary>Null: it has not thrown, or only that it was cancelled.</summary>
    public Exception? Failure { get; protected set; }

    // ---- cancellation ----

    /// <summary>Listens to the caller's token from now on.</summary>
    public void Listen()
    {
        if (callerToken.CanBeCanceled)
        {
            _registration = callerToken.UnsafeRegister(static call => ((Call<TWorker>)call!).OnCallerLeaves(), this);
        }
    }

    public void Cancel() => _ = _cancelling.CancelAsync();      // what is registered is the application's, and runs on the thread pool

    private void OnCallerLeaves()
    {
        if (dispatcher.TryLeaveQueue(this))
        {
            return;
        }
        if (TryTakeBack())
        {
            Leave();
        }
        else
        {
            Cancel();
        }
    }

    // ---- begun, or taken back ----

    /// <summary>Has it begin. False: it was taken back, and its worker is to skip it.</summary>
    public bool TryBegin() => Interlocked.CompareExchange(ref _beginning, Begun, Given) == Given;

    /// <summary>Sees to it that it never begins. False: it has, or was taken back before.</summary>
    public bool TryTakeBack() => Interlocked.CompareExchange(ref _beginning, TakenBack, Given) == Given;

    public bool IsTakenBack => Volatile.Read(ref _beginning) == TakenBack;

    /// <summary>Lets go of the caller's token; its worker has skipped it.</summary>
    public void Forget() => _ = _registration.Unregister();

    // ---- the worker's ----

    /// <summary>Runs the call, or the part of it before its first wait.</summary>
    /// <param name="worker">By whom.</param>
    /// <param name="bare">The context of a call whose caller lets nothing flow: nothing of what another one has set is in it.</param>
    /// <returns>What is to be waited for; null: it has ended.</returns>
    public Task? Run(TWorker worker, ExecutionContext bare)
    {
        ExecutionContext context = _context ?? bare;
        _context = null;        // the call before may be in it, which what this one leaves behind must not keep
        _worker = worker;
        ExecutionContext.Run(context, s_begin, this);
        _worker = default!;
        return Pending;
    }

    private void BeginInContext()
    {
        Current.Value = this;
        Invoke(_worker);
    }

    protected abstract Task? Pending { get; }

    protected abstract void Invoke(TWorker worker);

    /// <summary>Takes what <see cref="Run"/> has returned, when it has ended.</summary>
    public abstract void Conclude();

    /// <summary>Gives the caller what came of it, unless the caller has been answered already.</summary>
    public void Answer()
    {
        _ = _registration.Unregister();
        GiveAnswer();
    }

    protected abstract void GiveAnswer();

    /// <summary>Answers the caller instead of a worker.</summary>
    public void Refuse(Exception reason)
    {
        _ = _registration.Unregister();
        Fail(reason);
    }

    /// <summary>Answers the caller before its worker does, or instead.</summary>
    public abstract void Fail(Exception error);

    /// <summary>Tells the caller, who has left, that the call was cancelled.</summary>
    public abstract void Leave();
}

internal abstract class Call<TWorker, TResult>(Dispatcher<TWorker> dispatcher, string? name, CancellationToken callerToken) : Call<TWorker>(dispatcher, name, callerToken)
{
    private readonly TaskCompletionSource<TResult> _answer = new(TaskCreationOptions.RunContinuationsAsynchronously);

    /// <summary>What the caller has.</summary>
    public Task<TResult> Task => _answer.Task;

    protected TResult? Result { get; set; }

    /// <summary>The call was cancelled, by this token.</summary>
    protected CancellationToken? CancelledBy { get; set; }

    protected override void GiveAnswer()
    {
        if (Failure is not null)
        {
            _ = _answer.TrySetException(Failure);
        }
        else if (CancelledBy is { } token)
        {
            _ = _answer.TrySetCanceled(CallerToken.IsCancellationRequested ? CallerToken : token);
        }
        else
        {
            _ = _answer.TrySetResult(Result!);
        }
    }

    public override void Fail(Exception error) => _answer.TrySetException(error);

    public override void Leave() => _answer.TrySetCanceled(CallerToken);

    protected void Take(Exception error)
    {
        if (error is OperationCanceledException cancelled)
        {
            CancelledBy = cancelled.CancellationToken;
        }
        else
        {
            Failure = error;
        }
    }
}

/// <summary>A call that ends when its delegate does.</summary>
internal sealed class SyncCall<TWorker, TResult>(Dispatcher<TWorker> dispatcher, Func<TWorker, CancellationToken, TResult> callback, string? name, CancellationToken callerToken)
    : Call<TWorker, TResult>(dispatcher, name, callerToken)
{
    protected override Task? Pending => null;

    protected override void Invoke(TWorker worker)
    {
        try
        {
            Result = callback(worker, Token);
        }
        catch (Exception error)
        {
            Take(error);
        }
    }

    public override void Conclude()
    {
    }
}

/// <summary>A call that ends when its task does.</summary>
internal sealed class AsyncCall<TWorker, TResult>(Dispatcher<TWorker> dispatcher, Func<TWorker, CancellationToken, Task<TResult>> callback, string? name, CancellationToken callerToken)
    : Call<TWorker, TResult>(dispatcher, name, callerToken)
{
    private Task<TResult>? _task;

    protected override Task? Pending => _task;

    protected override void Invoke(TWorker worker)
    {
        try
        {
            _task = callback(worker, Token) ?? throw new InvalidOperationException("The call has returned null instead of a task.");
        }
        catch (Exception error)
        {
            Take(error);
        }
    }

    public override void Conclude()
    {
        if (_task is null)
        {
            return;
        }
        try
        {
            Result = _task.GetAwaiter().GetResult();
        }
        catch (Exception error)
        {
            Take(error);
        }
    }
}
