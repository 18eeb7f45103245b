// What time brings to each worker: calls that take too long, workers that are old, that do not come to be, or to their end.

namespace Millrace.Workers;

internal sealed class PoolTime<TWorker>(Dispatcher<TWorker> dispatcher, string name)
{
    private Limits Limits => dispatcher.Limits;

    public void LookAt(Worker<TWorker> worker, long now)
    {
        switch (worker.State)
        {
            case WorkerState.Busy:
                LookAtCall(worker, now);
                break;
            case WorkerState.Idle when now >= worker.ExpiresAt:
                dispatcher.BeginEnding(worker, WorkerEnd.Age, now);
                break;
            case WorkerState.Idle:
                dispatcher.Lock.NoteDue(worker.ExpiresAt);
                break;
            case WorkerState.Starting:
                GiveUpAt(worker, worker.Since + Limits.StartLimit, WorkerEnd.StartLimit, now);
                break;
            case WorkerState.Ending:
                GiveUpAt(worker, worker.Since + Limits.EndLimit, WorkerEnd.EndLimit, now);
                break;
        }
    }

    private void LookAtCall(Worker<TWorker> worker, long now)
    {
        if (Limits.CallLimit == Limits.Never)
        {
            return;
        }
        long due = worker.Since + Limits.CallLimit;
        if (now < due)
        {
            dispatcher.Lock.NoteDue(due);
            return;
        }
        Call<TWorker> call = worker.Current!;
        if (worker.ToldAt is null)
        {
            worker.ToldAt = now;        // which is late where the process stood still: its grace begins here
            if (!call.IsTakenBack)      // its caller has not left
            {
                dispatcher.Counters.OverTime++;
                dispatcher.Orders.Break(call, new WorkerTimeLimitException(name, worker.Id, Limits.CallTime));
            }
        }

        // What could not begin has not held up a worker without a thread: that is free as soon as the thread pool comes to it.
        if (worker.HasThread || !call.IsTakenBack)
        {
            GiveUpAt(worker, worker.ToldAt.Value + Limits.CancelGrace, WorkerEnd.CallLimit, now);
        }
    }

    private void GiveUpAt(Worker<TWorker> worker, long due, WorkerEnd reason, long now)
    {
        if (now >= due)
        {
            dispatcher.GiveUp(worker, reason, now);
        }
        else
        {
            dispatcher.Lock.NoteDue(due);
        }
    }
}
