// Exclusive use, swap, end: what somebody asks for and waits until it is so, step by step. The steps themselves are the dispatcher's.

using System.Diagnostics.CodeAnalysis;

namespace Millrace.Workers;

[SuppressMessage("Reliability", "CA1001", Justification = "The semaphores have no wait handles, and somebody may still wait for a turn when the pool has ended.")]
internal sealed class PoolModes<TWorker>(Dispatcher<TWorker> dispatcher, string name)
{
    private readonly SemaphoreSlim _exclusiveTurn = new(1);
    private readonly SemaphoreSlim _swapTurn = new(1);
    private readonly TaskCompletionSource _closed = new(TaskCreationOptions.RunContinuationsAsynchronously);

    private PoolLock Lock => dispatcher.Lock;

    /// <summary>Ends all workers but one, and gives it the call.</summary>
    public async Task TakeExclusiveAsync(Call<TWorker> call, Task answer, CancellationToken ct)
    {
        call.Listen();
        await _exclusiveTurn.WaitAsync(ct).ConfigureAwait(false);
        bool isGiven = false;
        try
        {
            dispatcher.BeginExclusive();
            do
            {
                await Lock.UntilAsync(() => dispatcher.IsClosing || dispatcher.IsAlone, Timeout.InfiniteTimeSpan, ct).ConfigureAwait(false);
            }
            while (!dispatcher.TryGiveAlone(call));
            isGiven = true;
        }
        finally
        {
            if (!isGiven)
            {
                EndExclusive();
            }
        }
        Task end = EndBehindAsync(call);
        await answer.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (answer.Exception?.InnerException is not WorkerPoolException)        // a time limit, or a kill: then its caller is answered before it has ended
        {
            await end.ConfigureAwait(false);
        }
    }

    // Not before the call has ended, or its worker has been given up: what it does alone nobody does beside it.
    private async Task EndBehindAsync(Call<TWorker> call)
    {
        await Lock.UntilAsync(() => dispatcher.IsClosed || call.Stage == CallStage.Over || call.IsGivenUp, Timeout.InfiniteTimeSpan, CancellationToken.None).ConfigureAwait(false);
        EndExclusive();
    }

    private void EndExclusive()
    {
        dispatcher.EndExclusive();
        _ = _exclusiveTurn.Release();
    }

    /// <summary>Makes one worker the new way first. Only if it can be made do the others follow, one after another.</summary>
    public async Task SwapAsync(Func<CancellationToken, Task<TWorker>>? makeAsync, Func<TWorker>? make, CancellationToken ct)
    {
        await _swapTurn.WaitAsync(ct).ConfigureAwait(false);
        try
        {
            Worker<TWorker>? trial;
            while ((trial = dispatcher.TryStartTrial(makeAsync, make)) is null)
            {
                await Lock.UntilAsync(() => dispatcher.IsClosing || !dispatcher.MustWaitToTry, Timeout.InfiniteTimeSpan, ct).ConfigureAwait(false);
            }
            await Lock.UntilAsync(() => dispatcher.IsClosed || trial.StartFailure is not null || !trial.IsTrial, Timeout.InfiniteTimeSpan, CancellationToken.None).ConfigureAwait(false);
            if (trial.StartFailure is { } failure)
            {
                throw new WorkerStartException(name, $"A worker of the pool {name} cannot be made the new way; the old ones go on: {failure.Message}", failure);
            }
            await Lock.UntilAsync(() => dispatcher.IsClosed || !dispatcher.IsRolling, Timeout.InfiniteTimeSpan, ct).ConfigureAwait(false);
            if (trial.IsTrial)
            {
                throw new WorkerPoolClosedException(name);
            }
        }
        finally
        {
            _ = _swapTurn.Release();
        }
    }

    /// <summary>Lets calls end that wait or run, for a while, then the workers. A second one waits for the first.</summary>
    public async Task CloseAsync(TimeSpan drain, TimeSpan grace)
    {
        if (!dispatcher.TryBeginClosing())
        {
            await _closed.Task.ConfigureAwait(false);
            return;
        }
        _ = await Lock.TryUntilAsync(() => dispatcher.IsQuiet, drain).ConfigureAwait(false);
        int cut = dispatcher.Close();
        if (!await Lock.TryUntilAsync(() => dispatcher.IsQuiet, grace).ConfigureAwait(false))
        {
            dispatcher.GiveUpRunning();
        }
        await Lock.UntilAsync(() => dispatcher.IsEmpty, Timeout.InfiniteTimeSpan, CancellationToken.None).ConfigureAwait(false);    // StartLimit and EndLimit see to it
        dispatcher.EndClosing(cut);
        _closed.SetResult();
    }
}
