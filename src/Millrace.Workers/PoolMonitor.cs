// A thread that looks at a pool when something is due. One of its own: a time limit has to hold also when the thread pool is starved.

namespace Millrace.Workers;

internal sealed class PoolMonitor : IDisposable
{
    private const int WaitMsMax = 60 * 60 * 1_000;

    private readonly Doorbell _bell = new();
    private readonly Func<long> _look;
    private readonly Limits _limits;
    private readonly Thread _thread;
    private volatile bool _mustEnd;
    private int _isStarted;

    /// <param name="name">The pool's.</param>
    /// <param name="look">Does what is due, and says when to look again.</param>
    /// <param name="limits">The clock.</param>
    public PoolMonitor(string name, Func<long> look, Limits limits)
    {
        _look = look;
        _limits = limits;
        _thread = new Thread(Run) { IsBackground = true, Name = $"{name} monitor" };
    }

    /// <summary>Something is due earlier than it was. The first time starts the thread.</summary>
    public void Wake()
    {
        if (Interlocked.Exchange(ref _isStarted, 1) == 0)
        {
            _thread.UnsafeStart();
        }
        _bell.Ring();
    }

    private void Run()
    {
        while (!_mustEnd)
        {
            long due = _look();
            if (due == Limits.Never)
            {
                _bell.Wait();
            }
            else
            {
                _bell.WaitFor((int)Math.Clamp(Math.Ceiling(_limits.Time(due - _limits.Now).TotalMilliseconds), 1, WaitMsMax));
            }
        }
    }

    public void Dispose()
    {
        _mustEnd = true;
        _bell.Ring();
    }
}
