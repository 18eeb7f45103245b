// A pool as it is at one moment.

namespace Millrace.Workers;

internal sealed partial class Dispatcher<TWorker>
{
    public WorkerPoolStatus GetStatus()
    {
        using (_lock.Enter())
        {
            long now = Limits.Now;
            return new WorkerPoolStatus
            {
                Name = _name,
                Min = _min,
                Max = _max,
                Generation = _generation,
                IsHeld = _isHeld,
                IsClosed = IsClosing,
                Waiting = _queue.Count,
                Running = _crew.Running,
                Calls = Counters.Calls,
                Failures = Counters.Failures,
                RefusedFull = Counters.RefusedFull,
                RefusedLate = Counters.RefusedLate,
                LeftQueue = Counters.LeftQueue,
                OverTime = Counters.OverTime,
                Workers = _crew.DescribeSeats(now),
                Stuck = _crew.DescribeStuck(now),
                StartFailure = _starts.Failure?.Message,
                Hits = [.. _crew.Seats.Select(static seat => seat.Hits)],
                Ends = Enum.GetValues<WorkerEnd>().Where(reason => Counters.EndsFor(reason) > 0).ToDictionary(static reason => reason, Counters.EndsFor),
            };
        }
    }

    /// <summary>Workers in this state now.</summary>
    public int CountOf(WorkerState state)
    {
        using (_lock.Enter())
        {
            return _crew.CountOf(state);
        }
    }

    /// <summary>Calls that wait now.</summary>
    public int Waiting
    {
        get
        {
            using (_lock.Enter())
            {
                return _queue.Count;
            }
        }
    }
}
