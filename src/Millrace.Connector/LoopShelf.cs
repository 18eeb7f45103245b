// Connections that one loop has used last and nobody uses at the moment. They keep their places in the pool (ConnectionPool.cs), so that a loop that takes one and puts it back shares nothing with the others.

using Millrace.Loops;

namespace Millrace.Connector;

/// <param name="loop">Tells of them.</param>
internal sealed class LoopShelf(LoopSources loop)
{
    private readonly Lock _lock = new();
    private readonly List<PooledConnection> _idle = [];
    private bool _isClosed;

    public LoopSources Loop => loop;

    public int Count
    {
        get
        {
            lock (_lock)
            {
                return _idle.Count;
            }
        }
    }

    /// <summary>False: there is no such shelf any more.</summary>
    public bool TryPut(PooledConnection connection)
    {
        lock (_lock)
        {
            if (!_isClosed)
            {
                _idle.Add(connection);
            }
            return !_isClosed;
        }
    }

    /// <summary>The one that was used last; null: there is none.</summary>
    public PooledConnection? TryTake()
    {
        lock (_lock)
        {
            if (_idle.Count == 0)
            {
                return null;
            }
            PooledConnection last = _idle[^1];
            _idle.RemoveAt(_idle.Count - 1);
            return last;
        }
    }

    /// <summary>Those that nobody has used for as long.</summary>
    public PooledConnection[] TakeOld(TimeSpan idleFor)
    {
        lock (_lock)
        {
            return PooledConnection.TakeOld(_idle, idleFor);
        }
    }

    /// <summary>All of them, the oldest first.</summary>
    /// <param name="closes">Whether it takes no more from here on.</param>
    public PooledConnection[] TakeAll(bool closes = false)
    {
        lock (_lock)
        {
            _isClosed |= closes;
            PooledConnection[] all = [.. _idle];
            _idle.Clear();
            return all;
        }
    }
}
