// A place for a worker. Workers come and go; what is counted for the place stays. Belongs to the dispatcher's lock.

namespace Millrace.Workers;

internal sealed class Seat<TWorker>(int index)
{
    private const int RecentMax = 10;

    private readonly Queue<WorkerRestart> _recent = new();

    /// <summary>From 0; users see one more.</summary>
    public int Index => index;

    public Worker<TWorker>? Worker { get; set; }

    public long Hits { get; set; }

    public long Restarts { get; private set; }

    public IReadOnlyList<WorkerRestart> Recent => [.. _recent];

    public void NoteEnd(WorkerRestart end)
    {
        Restarts++;
        _recent.Enqueue(end);
        if (_recent.Count > RecentMax)
        {
            _ = _recent.Dequeue();
        }
    }
}
