// The workers of a pool by their places, those that have been given up, and how many are doing what. Belongs to the pool's lock.

namespace Millrace.Workers;

internal sealed class Crew<TWorker>(Limits limits, PoolCounters counters)
{
    public List<Seat<TWorker>> Seats { get; } = [];

    /// <summary>Given up, and not back yet.</summary>
    public List<Worker<TWorker>> Stuck { get; } = [];

    /// <summary>Seats whose worker is idle.</summary>
    public IdleSet Idle { get; } = new();

    /// <summary>In a seat, also those that start or end.</summary>
    public int Live { get; set; }

    public int Starting { get; set; }

    public int Ending { get; set; }

    /// <summary>In a seat, with a call.</summary>
    public int Running { get; set; }

    public bool IsChanging => Starting + Ending > 0;

    /// <summary>Those that take calls.</summary>
    public int Ready => Live - Starting - Ending;

    /// <summary>The first seat that nobody has.</summary>
    public Seat<TWorker> FreeSeat()
    {
        Seat<TWorker>? seat = Seats.Find(static seat => seat.Worker is null);
        if (seat is null)
        {
            seat = new Seat<TWorker>(Seats.Count);
            Seats.Add(seat);
        }
        return seat;
    }

    public void Leave(Worker<TWorker> worker)
    {
        worker.Seat.Worker = null;
        Live--;
    }

    public void NoteEnd(Worker<TWorker> worker, WorkerEnd reason)
    {
        worker.Seat.NoteEnd(new WorkerRestart(limits.Date, reason));
        counters.NoteEnd(reason);
    }

    /// <param name="id">From 1.</param>
    public Worker<TWorker>? Find(int id) => id >= 1 && id <= Seats.Count ? Seats[id - 1].Worker : null;

    public int CountOf(WorkerState state) => state == WorkerState.Stuck ? Stuck.Count : Seats.Count(seat => seat.Worker?.State == state);

    public bool HasOtherThan(int generation) => Seats.Exists(seat => seat.Worker is { } worker && worker.Generation != generation);

    public void ForEachBusy(Action<Worker<TWorker>> action)
    {
        for (int i = 0; i < Seats.Count; i++)
        {
            if (Seats[i].Worker is { State: WorkerState.Busy } worker)
            {
                action(worker);
            }
        }
    }

    // ---- seen from outside ----

    public string Describe() => FormattableString.Invariant($"{Running} of {Live} workers are busy, {Starting} are starting, {Stuck.Count} are stuck.");

    public IReadOnlyList<WorkerStatus> DescribeSeats(long now) => [.. Seats.Where(static seat => seat.Worker is not null).Select(seat => Describe(seat.Worker!, now))];

    public IReadOnlyList<WorkerStatus> DescribeStuck(long now) => [.. Stuck.Select(worker => Describe(worker, now))];

    private WorkerStatus Describe(Worker<TWorker> worker, long now) => new()
    {
        Id = worker.Id,
        Generation = worker.Generation,
        State = worker.State,
        ThreadId = worker.ThreadId,
        ProcessId = worker.ProcessId,
        BusyFor = worker.Current is null ? null : limits.Time(now - worker.CallSince),
        BusyWith = worker.Current?.Name,
        Calls = worker.Times.Count,
        Failures = worker.Failures,
        Mean = limits.Time(worker.Times.Mean),
        P99 = limits.Time(worker.Times.Percentile(0.99)),
        Last = limits.Time(worker.Last),
        Started = worker.Started,
        Hits = worker.Seat.Hits,
        Restarts = worker.Seat.Restarts,
        RecentRestarts = worker.Seat.Recent,
    };
}
