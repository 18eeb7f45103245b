// A worker without a thread of its own: used by one call at a time, on threads of the thread pool.

using System.Diagnostics.CodeAnalysis;
using Millrace.Workers.Processes;

namespace Millrace.Workers;

[SuppressMessage("Reliability", "CA1001", Justification = "A source that has no timer and no wait handle holds nothing.")]
internal sealed class FreeWorker<TWorker>(Dispatcher<TWorker> dispatcher, Seat<TWorker> seat, WorkerSource<TWorker> source, int generation)
    : Worker<TWorker>(dispatcher, seat, source, generation), IThreadPoolWorkItem
{
    private const int CallsInTurnMax = 32;      // then others have the thread

    private TWorker _instance = default!;
    private bool _isMade;
    private int _isEnding;
    private volatile IMortal? _mortal;      // null: it is none, or is still being made
    private readonly CancellationTokenSource _making = new();
    private volatile bool _isKilled;        // before it was made

    public override bool HasThread => false;

    public override bool CanBeKilled => typeof(TWorker).IsAssignableTo(typeof(IMortal));

    public override void Launch() => Wake();

    public override void Wake() => ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);

    void IThreadPoolWorkItem.Execute() => _ = _isMade ? RunAsync(TakeAssigned()) : MakeAsync();

    private async Task MakeAsync()
    {
        NoteBare();
        CancellationTokenRegistration ending = Dispatcher.Ending.UnsafeRegister(static making => ((CancellationTokenSource)making!).Cancel(), _making);
        try
        {
            Task<TWorker> making = Source.MakeAsync(_making.Token);
            _ = Interruption.Forget();      // from here on the thread is everybody's
            _instance = await making.ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (_isKilled)
        {
            Dispatcher.Ended(this, null);
            return;
        }
        catch (Exception error)
        {
            Dispatcher.StartFailed(this, error);
            return;
        }
        finally
        {
            _ = ending.Unregister();
        }
        if (_instance is IMortal mortal)
        {
            ProcessId = mortal.ProcessId;
            _mortal = mortal;
            _ = WatchAsync(mortal);
        }
        _isMade = true;
        await RunAsync(Dispatcher.Started(this)).ConfigureAwait(false);
    }

    private async Task WatchAsync(IMortal mortal)
    {
        Death death = await mortal.Death.ConfigureAwait(false);
        Dispatcher.Orders.Lose(this, death);
    }

    public override Exception? EarlyDeath =>
        _mortal is { IsUntried: true, Death: { IsCompletedSuccessfully: true, Result: { Reason: WorkerEnd.Exited or WorkerEnd.Memory } death } } ? death.Cause : null;

    public override bool TryKill(WorkerEnd reason, string call, TimeSpan after)
    {
        if (!CanBeKilled)
        {
            return false;
        }
        if (_mortal is { } mortal)
        {
            _ = KillAsync(mortal, reason, call, after);
            return true;
        }
        _isKilled = true;       // whoever makes it kills it; where it has just been made it is told to end
        _ = _making.CancelAsync();
        Dispatcher.Say(log => log.Killed(Id, reason, "no call yet", after.TotalSeconds, "It was still being made."));
        return true;
    }

    private async Task KillAsync(IMortal mortal, WorkerEnd reason, string call, TimeSpan after)
    {
        string facts = await mortal.KillAsync(reason).ConfigureAwait(false);
        Dispatcher.Say(log => log.Killed(Id, reason, call, after.TotalSeconds, facts));
    }

    private async Task RunAsync(Call<TWorker>? call)
    {
        long began = Dispatcher.Limits.Now;
        for (int count = 1; call is not null; count++)
        {
            if (!call.TryBegin())
            {
                call = Skip(call, out began);
                continue;
            }
            bool isElsewhere = false;
            if (call.Run(_instance, Bare) is { IsCompleted: false } pending)
            {
                isElsewhere = true;
                _ = Interruption.Forget();      // by its part before the first wait, and from here on the thread is everybody's
                await pending.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            }
            bool isInterrupted = Interruption.Forget();     // by the call, and would hit what comes now
            call = Finish(_instance, call, began, out began);
            if (isElsewhere)
            {
                HandOn(call);       // whoever has ended the call goes on behind this, perhaps on a thread of his own, and within a lock: no other's call runs there
                if (isInterrupted && !Thread.CurrentThread.IsThreadPoolThread)
                {
                    Thread.CurrentThread.Interrupt();       // it is for what comes there
                }
                return;
            }
            if (call is not null && count == CallsInTurnMax)
            {
                HandOn(call);
                return;
            }
        }
        if (MustEnd && Interlocked.Exchange(ref _isEnding, 1) == 0)        // it may have been told so, and woken, since it is idle
        {
            await EndAsync().ConfigureAwait(false);
        }
    }

    // Nobody else wakes a worker that has a call, or is to end.
    private void HandOn(Call<TWorker>? call)
    {
        if (call is not null)
        {
            Assign(call);
        }
        if (call is not null || MustEnd)
        {
            Wake();
        }
    }

    private async Task EndAsync()
    {
        Exception? failure = null;
        try
        {
            Task disposing = WorkerSource<TWorker>.DisposeAsync(_instance);
            _ = Interruption.Forget();
            await disposing.ConfigureAwait(false);
        }
        catch (Exception error)
        {
            failure = error;
        }
        _instance = default!;
        Dispatcher.Ended(this, failure);
    }
}
