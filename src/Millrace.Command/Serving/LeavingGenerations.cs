// Generations of an application that serve no longer: they end what they have begun, and are counted when they have gone.

namespace Millrace.Command.Serving;

internal sealed class LeavingGenerations
{
    private readonly Lock _lock = new();
    private readonly List<Generation> _all = [];
    private readonly List<Task> _draining = [];
    private (int Restarts, int Recycles) _gone;

    /// <summary>Those that have not gone, and the restarts and recycles of those that have: of one moment, in which each is one or the other.</summary>
    public (IReadOnlyList<Generation> All, int Restarts, int Recycles) Now
    {
        get
        {
            lock (_lock)
            {
                return ([.. _all], _gone.Restarts, _gone.Recycles);
            }
        }
    }

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
        _gone = gone;
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
        foreach (var generation in Now.All)
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
            _gone = (_gone.Restarts + generation.Restarts, _gone.Recycles + generation.Recycles);
        }
        generation.Dispose();
    }
}
