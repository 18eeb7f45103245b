// A loop in the test's hand: what is posted to it is done when the test says so.

using Millrace.Loops;

namespace Millrace.Tests.Connector;

internal sealed class HandLoop : LoopSources
{
    private readonly Queue<LoopSource> _posted = new();

    public bool HasRoom { get; set; } = true;

    public bool IsTakenOver { get; set; }

    public bool IsWatched { get; private set; }

    public volatile bool HasEnded;

    public int Runs { get; private set; }

    /// <summary>Does what has been posted.</summary>
    public int Work()
    {
        int count = 0;
        while (TryTake() is { } source)
        {
            count++;
            _ = source.OnPosted(null!);
        }
        return count;
    }

    private LoopSource? TryTake()
    {
        lock (_posted)
        {
            return _posted.TryDequeue(out LoopSource? source) ? source : null;
        }
    }

    public override void Post(LoopSource source)
    {
        if (HasEnded)
        {
            source.OnLoopEnded();
            return;
        }
        lock (_posted)
        {
            _posted.Enqueue(source);
        }
    }

    public override bool TryWatch(LoopSource source, int descriptor)
    {
        if (HasRoom)
        {
            source.Open(descriptor, 1);
            IsWatched = true;
        }
        return HasRoom;
    }

    public override void Forget(LoopSource source)
    {
        source.Forget();
        IsWatched = false;
    }

    public override bool RunCode(LoopDriver driver, Action<object?> action, object? state)
    {
        Runs++;
        action(state);
        return !IsTakenOver;
    }
}
