// What an administrator, time, or death has done to single workers and their calls.

using Millrace.Workers.Processes;

namespace Millrace.Workers;

internal sealed class PoolOrders<TWorker>(Dispatcher<TWorker> dispatcher, string name)
{
    /// <summary>See <see cref="IWorkerPool.Kill"/>.</summary>
    public bool Kill(int id)
    {
        using (dispatcher.Lock.Enter())
        {
            long now = dispatcher.Limits.Now;
            if (dispatcher.Crew.Find(id) is not { } worker)
            {
                return false;
            }
            switch (worker.State)
            {
                case WorkerState.Idle:
                    dispatcher.BeginEnding(worker, WorkerEnd.Killed, now);
                    dispatcher.Settle(now);
                    break;
                case WorkerState.Busy:
                    Break(worker.Current!, new WorkerKilledException(name, id));
                    dispatcher.GiveUp(worker, WorkerEnd.Killed, now);
                    break;
                default:
                    dispatcher.GiveUp(worker, WorkerEnd.Killed, now);
                    break;
            }
            return true;
        }
    }

    /// <summary>See <see cref="IWorkerPool.Recycle"/>.</summary>
    public bool Recycle(int id)
    {
        using (dispatcher.Lock.Enter())
        {
            if (dispatcher.Crew.Find(id) is not { } worker)
            {
                return false;
            }
            Replace(worker, WorkerEnd.Recycled);
            return true;
        }
    }

    /// <summary>Something that a call of a worker has left behind has thrown.</summary>
    public void Distrust(Worker<TWorker> worker, Exception error)
    {
        using (dispatcher.Lock.Enter())
        {
            Replace(worker, WorkerEnd.Error);
            dispatcher.Say(log => log.LeftBehindThrew(error, worker.Id));
        }
    }

    /// <summary>A worker has died. One that has not lived for a single call is as one that could not be made.</summary>
    public void Lose(Worker<TWorker> worker, Death death)
    {
        using (dispatcher.Lock.Enter())
        {
            if (death.Reason is WorkerEnd.Exited or WorkerEnd.Memory)
            {
                dispatcher.Say(log => log.Died(worker.Id, death.Reason, worker.ProcessId, death.Cause.Message));        // whoever else has killed it has said so
            }
            if (worker.State is not (WorkerState.Idle or WorkerState.Busy or WorkerState.Starting) || worker.EndReason != WorkerEnd.None)
            {
                return;     // it was to end, or its last call has found out before
            }
            if (worker.State is WorkerState.Idle or WorkerState.Starting && worker.Times.Count == 0)
            {
                dispatcher.NotePause(death.Cause, dispatcher.Limits.Now);
            }
            Replace(worker, death.Reason);
        }
    }

    /// <summary>The caller is answered. A call that has not begun never will; whether one that has heeds its token is its own affair. Under the lock.</summary>
    public void Break(Call<TWorker> call, WorkerPoolException reason)
    {
        _ = call.TryTakeBack();
        dispatcher.Lock.After(() =>
        {
            call.Fail(reason);
            call.Cancel();
        });
    }

    /// <summary>A worker has been given up. Behind the lock: it is killed, or what it is doing is said.</summary>
    public void LeaveAlone(Worker<TWorker> worker, WorkerEnd reason, string call, TimeSpan after)
    {
        if (worker.TryKill(reason, call, after))
        {
            return;
        }
        string facts = ThreadFacts.Describe(worker.ThreadId);
        if (dispatcher.Limits.InterruptStuck)
        {
            worker.Interrupt();
        }
        dispatcher.Say(log => log.GivenUp(worker.Id, reason, call, after.TotalSeconds, facts));
    }

    // Now, or when its call has ended.
    private void Replace(Worker<TWorker> worker, WorkerEnd reason)
    {
        if (worker.State == WorkerState.Idle)
        {
            long now = dispatcher.Limits.Now;
            dispatcher.BeginEnding(worker, reason, now);
            dispatcher.Settle(now);
        }
        else if (worker.State is WorkerState.Busy or WorkerState.Starting)
        {
            worker.EndReason = reason;
        }
    }
}
