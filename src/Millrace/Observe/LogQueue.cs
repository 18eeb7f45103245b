// Messages on their way from threads that must not wait to a logger that may: bounded, in order, one at a time. What finds no
// room is counted, and said when there is room again.

using Millrace.Platform;

namespace Millrace.Observe;

internal sealed class LogQueue
{
    public const int MessagesMax = 1_000;

    private readonly SteadyLock _lock = new();
    private readonly Queue<Action> _waiting = new();
    private readonly Action<long, int> _sayDropped;
    private readonly Action<Action> _run;
    private long _dropped;
    private bool _isRunning;

    /// <param name="sayDropped">Says how many were dropped, and how many may wait.</param>
    /// <param name="run">Where the messages are said; null: on the thread pool.</param>
    public LogQueue(Action<long, int> sayDropped, Action<Action>? run = null)
    {
        _sayDropped = sayDropped;
        _run = run ?? (static action => Steady.Queue(static state => ((Action)state!)(), action));
    }

    /// <summary>Any thread; never waits for the logger.</summary>
    public void Add(Action message)
    {
        bool starts;
        using (_lock.Hold())
        {
            if (_waiting.Count >= MessagesMax)
            {
                _dropped++;
                return;
            }

            if (_dropped > 0)
            {
                _waiting.Enqueue(TakeDropped());
            }

            _waiting.Enqueue(message);
            starts = !_isRunning;
            _isRunning = true;
        }

        if (starts)
        {
            _run(SayAll);
        }
    }

    /// <summary>Waits until what has been added so far is said, at most for so long.</summary>
    public async Task FlushAsync(TimeSpan limit)
    {
        using (_lock.Hold())
        {
            if (!_isRunning)
            {
                return;
            }
        }

        var said = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        Add(said.SetResult);
        await Task.WhenAny(said.Task, Task.Delay(limit)).ConfigureAwait(false);
    }

    private void SayAll()
    {
        while (Next() is { } message)
        {
            message();
        }
    }

    private Action? Next()
    {
        using (_lock.Hold())
        {
            if (_waiting.TryDequeue(out Action? message))
            {
                return message;
            }

            _isRunning = _dropped > 0;
            return _isRunning ? TakeDropped() : null;
        }
    }

    // Under the lock. They came after all that wait now, and before what comes next.
    private Action TakeDropped()
    {
        long count = _dropped;
        _dropped = 0;
        return () => _sayDropped(count, MessagesMax);
    }
}
