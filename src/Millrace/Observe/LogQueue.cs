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
    private readonly Action _sayAll;
    private long _dropped;
    private bool _isRunning;

    /// <param name="sayDropped">Says how many were dropped, and how many may wait.</param>
    /// <param name="run">Where the messages are said; null: on the thread pool.</param>
    public LogQueue(Action<long, int> sayDropped, Action<Action>? run = null)
    {
        _sayDropped = sayDropped;
        _sayAll = SayAll;
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
            Start();
        }
    }

    /// <summary>A message for which there is no memory.</summary>
    public void Drop()
    {
        using (_lock.Hold())
        {
            _dropped++;
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

    private void Start()
    {
        try
        {
            _run(_sayAll);
        }
        catch (OutOfMemoryException)
        {
            Pause();
        }
    }

    // Nobody is above who could do anything about an exception, and the process would end by it.
    private void SayAll()
    {
        try
        {
            while (Next() is { } message)
            {
                Say(message);
            }
        }
        catch (OutOfMemoryException)
        {
            Pause();
        }
    }

    private static void Say(Action message)
    {
        try
        {
            message();
        }
        catch (Exception)
        {
            // There is nobody left to tell.
        }
    }

    // What waits is said with the next.
    private void Pause()
    {
        using (_lock.Hold())
        {
            _isRunning = false;
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
