// What has happened to an application, last.

namespace Millrace.Command.Serving;

internal sealed class AppEvents
{
    private const int Max = 100;

    private readonly Lock _lock = new();
    private readonly Queue<AppEvent> _events = [];

    /// <summary>Oldest first.</summary>
    public IReadOnlyList<AppEvent> All
    {
        get
        {
            lock (_lock)
            {
                return [.. _events];
            }
        }
    }

    /// <param name="one">Takes the place of the oldest where there are as many as are kept. What it says may be an application's own words.</param>
    public void Add(AppEvent one)
    {
        lock (_lock)
        {
            _events.Enqueue(one with { What = Sentence.Of(one.What) });
            if (_events.Count > Max)
            {
                _events.Dequeue();
            }
        }
    }
}
