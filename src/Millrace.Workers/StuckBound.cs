// How many workers there may be where some have been given up, so that threads are bounded whatever happens: Max of those that work, StuckMax of those that are stuck, and one that a swap tries. Where
// that one gets stuck it stays the one: it takes nobody's place, and no other swap begins until it has come back. Belongs to the pool's lock.

namespace Millrace.Workers;

internal sealed class StuckBound<TWorker>(string pool, Crew<TWorker> crew, Limits limits, Action<Action<Log>> say)
{
    private bool _isSaid;

    /// <summary>How many may be there beside those that are stuck, without one that a swap tries.</summary>
    public int Room(int max) => max + limits.StuckMax - crew.Stuck.Count(static worker => !worker.IsTrial);

    /// <summary>Whether there are as many as may be. Where one of them ends another takes its place, or some are left.</summary>
    public bool IsReached(int max) => Room(max) is var room && crew.Live >= room && (room > 0 || crew.Live > 1);

    /// <summary>Whether one that a swap tries would be one too many now, and need not be when those have ended that are more than Max.</summary>
    public bool MustWaitToTry(int max) => crew.Live > max && crew.Live > Room(max);

    /// <exception cref="WorkerStartException">A swap can try none, and waiting is no help.</exception>
    public void JudgeTrial(int max)
    {
        string? why = crew.Stuck.Exists(static worker => worker.IsTrial) ? "the one that an earlier swap has tried is stuck, and is still being made."
            : crew.Live > Room(max) ? FormattableString.Invariant($"{crew.Stuck.Count} workers are stuck, and StuckMax is {limits.StuckMax}.")
            : null;
        if (why is not null)
        {
            throw new WorkerStartException(pool, $"No worker of the pool {pool} can be tried the new way, and the old ones go on: {why}", null);
        }
    }

    /// <summary>Whether another may be started. That none may be is said.</summary>
    /// <param name="max">See <see cref="Room"/>.</param>
    /// <param name="now">The time.</param>
    /// <param name="gate">Is told when to ask again.</param>
    public bool MayStart(int max, long now, PoolLock gate)
    {
        if (crew.Live < Room(max))
        {
            return true;
        }
        if (!_isSaid)
        {
            SayReached(max, now, gate);
        }
        return false;
    }

    // Once, until one comes back. One that is being killed is no reason as long as its end may be on its way.
    private void SayReached(int max, long now, PoolLock gate)
    {
        int count = 0;
        foreach (Worker<TWorker> worker in crew.Stuck)
        {
            long due = worker.CanBeKilled ? worker.Since + limits.EndLimit : now;
            if (now < due)
            {
                gate.NoteDue(due);
            }
            else if (!worker.IsTrial)
            {
                count++;
            }
        }
        if (crew.Live + count >= max + limits.StuckMax)
        {
            _isSaid = true;
            say(log => log.StuckMax(count, limits.StuckMax));
        }
    }

    /// <summary>One that was stuck has come back.</summary>
    public void NoteReturn() => _isSaid = false;
}
