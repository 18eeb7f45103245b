// Generations of an application that serve no longer: they end what they have begun, and are counted when they have gone.

namespace Millrace.Command.Serving;

internal sealed class LeavingGenerations
{
    private readonly Lock _lock = new();
    private readonly List<Generation> _all = [];
    private readonly List<Task> _draining = [];

    /// <summary>Those that have not gone.</summary>
    public IReadOnlyList<Generation> All
    {
        get
        {
            lock (_lock)
            {
                return [.. _all];
            }
        }
    }

    /// <summary>Restarts and recycles of those that have gone.</summary>
    public (int Restarts, int Recycles) Gone { get; private set; }

    /// <summary>Ends when all that were here have gone.</summary>
    public Task Ended
    {
        get
        {
            lock (_lock)
            {
                return Task.WhenAll(_draining);
            }
        }
    }

    /// <summary>Those that were there before. <see cref="GoOn"/> has them go on.</summary>
    public void Resume(IEnumerable<Generation> leaving, (int Restarts, int Recycles) gone)
    {
        _all.AddRange(leaving);
        Gone = gone;
    }

    /// <summary>Once, of those that are resumed.</summary>
    public void GoOn()
    {
        lock (_lock)
        {
            foreach (var generation in _all)
            {
                generation.GoOnLeaving(generation.HasSuccessor);
                Begin(generation, generation.HasSuccessor);
            }
        }
    }

    /// <summary>Has one end. The answer ends when it takes nobody any more whom its successor could.</summary>
    public Task Add(Generation generation, bool hasSuccessor)
    {
        lock (_lock)
        {
            _all.Add(generation);
            return Task.WhenAny(generation.Left, Begin(generation, hasSuccessor));
        }
    }

    /// <summary>Ends their processes at once.</summary>
    public void KillAll()
    {
        foreach (var generation in All)
        {
            generation.KillAll();
        }
    }

    private Task Begin(Generation generation, bool hasSuccessor)
    {
        var draining = Task.Run(() => DrainAsync(generation, hasSuccessor));
        _draining.RemoveAll(static task => task.IsCompleted);
        _draining.Add(draining);
        return draining;
    }

    private async Task DrainAsync(Generation generation, bool hasSuccessor)
    {
        await generation.DrainAsync(hasSuccessor);
        lock (_lock)
        {
            _all.Remove(generation);
            Gone = (Gone.Restarts + generation.Restarts, Gone.Recycles + generation.Recycles);
        }
        generation.Dispose();
    }
}
