// What the loops have used last: each has a shelf of its own.

using Millrace.Loops;

namespace Millrace.Connector;

internal sealed partial class ConnectionPool
{
    private LoopShelf[] _shelves = [];      // replaced under the lock

    // It has its place.
    private PooledConnection? TryTakeUsable(LoopShelf shelf)
    {
        while (shelf.TryTake() is { } kept)
        {
            if (kept.IsUsable)
            {
                return kept;
            }
            Drop(kept);
        }
        return null;
    }

    private LoopShelf? FindShelf(LoopSources? loop)
    {
        if (loop is not null)
        {
            foreach (LoopShelf shelf in Volatile.Read(ref _shelves))
            {
                if (shelf.Loop == loop)
                {
                    return shelf;
                }
            }
        }
        return null;
    }

    private LoopShelf? ShelfOf(LoopSources loop)
    {
        if (FindShelf(loop) is { } found)
        {
            return found;
        }
        lock (_lock)
        {
            if (FindShelf(loop) is null && !_isDisposed)
            {
                Volatile.Write(ref _shelves, [.. _shelves, new LoopShelf(loop)]);
            }
        }
        return FindShelf(loop);
    }

    // Somebody needs a place: what is kept gives its own back.
    private void ClearShelves()
    {
        foreach (PooledConnection connection in Volatile.Read(ref _shelves).SelectMany(static shelf => shelf.TakeAll()))
        {
            PutBack(connection);
        }
    }
}
