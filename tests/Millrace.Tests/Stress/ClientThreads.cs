// Blocking clients on threads of their own, so that the thread pool is left to the server under test.

using System.Collections.Concurrent;

namespace Millrace.Tests.Stress;

internal sealed class ClientThreads
{
    private readonly ConcurrentQueue<Exception> _errors = new();
    private readonly Thread[] _threads;

    private ClientThreads(int count, Action<int> client)
    {
        _threads = [.. Enumerable.Range(0, count).Select(i => new Thread(() => Guard(client, i)) { IsBackground = true })];
        Array.ForEach(_threads, static thread => thread.Start());
    }

    public bool AreRunning => Array.Exists(_threads, static thread => thread.IsAlive);

    public bool HaveFailed => !_errors.IsEmpty;

    public static ClientThreads Start(int count, Action<int> client) => new(count, client);

    /// <summary>Waits for all of them.</summary>
    /// <exception cref="AggregateException">What they threw.</exception>
    public void Join()
    {
        Array.ForEach(_threads, static thread => thread.Join());
        if (HaveFailed)
        {
            throw new AggregateException(_errors);
        }
    }

    private void Guard(Action<int> client, int index)
    {
        try
        {
            client(index);
        }
        catch (Exception error)
        {
            _errors.Enqueue(error);
        }
    }
}
