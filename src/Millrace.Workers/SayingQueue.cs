// What a pool has to say, in order, on the thread pool: a logger is code of the application's, and neither the watch over time limits nor a worker waits for one.

using System.Collections.Concurrent;

namespace Millrace.Workers;

internal sealed class SayingQueue(Log log) : IThreadPoolWorkItem
{
    private const int WaitingMax = 1_000;       // behind a logger that hangs; what comes then is dropped

    private readonly ConcurrentQueue<Action<Log>> _waiting = new();
    private int _isRunning;

    public void Add(Action<Log> message)
    {
        if (_waiting.Count >= WaitingMax)
        {
            return;
        }
        _waiting.Enqueue(message);
        Start();
    }

    /// <summary>At once, on the caller's thread. A logger that throws does no harm.</summary>
    public void SayNow(Action<Log> message)
    {
        try
        {
            message(log);
        }
        catch (Exception)
        {
            // There is nobody left to tell.
        }
    }

    void IThreadPoolWorkItem.Execute()
    {
        while (_waiting.TryDequeue(out Action<Log>? message))
        {
            SayNow(message);
        }
        _ = Interlocked.Exchange(ref _isRunning, 0);        // before the look
        if (!_waiting.IsEmpty)
        {
            Start();
        }
    }

    private void Start()
    {
        if (Interlocked.Exchange(ref _isRunning, 1) == 0)
        {
            _ = ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);
        }
    }
}
