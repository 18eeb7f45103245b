// Connections to one responder that are kept for the next request: the one that was used last first, so that those that nobody needs grow old and are closed.
// How many there may be is bounded, those of the relays (RelayPool.cs) among them; who comes when all are in use waits for a while. What a loop tells of lies on a shelf of that loop (LoopShelf.cs)
// until somebody has to wait: a kept connection has its place there, where all others have given it back.

using System.Net;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connector;

internal sealed partial class ConnectionPool : IProgramConnections, IDisposable
{
    private static readonly TimeSpan s_queueIsFull = TimeSpan.FromMilliseconds(5);

    private readonly EndPoint _endPoint;
    private readonly ConnectionLimits _limits;
    private readonly SemaphoreSlim _places;
    private readonly Lock _lock = new();
    private readonly List<PooledConnection> _idle = [];
    private readonly Timer _closing;
    private int _waiting;
    private bool _isDisposed;

    /// <summary>Whether connections are kept for programs behind MapFastCgi.</summary>
    public bool KeepsConnections { get; init; } = true;

    /// <summary>Connects otherwise than by a socket to the address; null: so.</summary>
    public Func<CancellationToken, ValueTask<ITransport>>? Connecting { get; init; }

    bool IProgramConnections.Settles => false;

    ValueTask IProgramConnections.SettleAsync(PooledConnection connection, bool hasEnded) => throw new NotSupportedException();

    void IProgramConnections.Return(PooledConnection connection)
    {
        if (KeepsConnections)
        {
            Return(connection);
            return;
        }
        Drop(connection);
    }

    /// <param name="endPoint">Where the responder listens.</param>
    /// <param name="limits">How many, and how long.</param>
    public ConnectionPool(EndPoint endPoint, ConnectionLimits limits)
    {
        _endPoint = endPoint;
        _limits = limits;
        _places = new SemaphoreSlim(limits.ConnectionsMax);
        EarlyBodies = new SemaphoreSlim(Math.Max(1, limits.ConnectionsMax / 2));
        PartialBodies = new SemaphoreSlim(Math.Max(1, limits.ConnectionsMax * 4 / 10));
        _closing = new Timer(static pool => ((ConnectionPool)pool!).CloseOld(), this, limits.IdleTimeout / 4, limits.IdleTimeout / 4);
    }

    /// <summary>Connections that nobody uses at the moment.</summary>
    public int Idle
    {
        get
        {
            lock (_lock)
            {
                return _idle.Count + _shelves.Sum(static shelf => shelf.Count);
            }
        }
    }

    /// <summary>A connection that nobody else uses; it comes back by <see cref="Return"/> or <see cref="Drop"/>.</summary>
    /// <param name="fresh">Whether it must be a new one.</param>
    /// <param name="ct">The request has been given up.</param>
    /// <exception cref="ConnectorException">There is none.</exception>
    public ValueTask<PooledConnection> RentAsync(bool fresh, CancellationToken ct) => RentAsync(fresh, default, ct);

    /// <inheritdoc cref="IProgramConnections.TryRent"/>
    public PooledConnection? TryRent(TransportKind kind) =>
        (FindShelf(kind.Loop) is { } its ? TryTakeUsable(its) : null) ?? TryRentIdle() ?? TryRentOfOthers(kind.Loop);

    private PooledConnection? TryRentIdle()
    {
        if (!_places.Wait(0, CancellationToken.None))
        {
            return null;
        }
        PooledConnection? kept = TryTakeUsable();
        if (kept is null)
        {
            _places.Release();
        }
        return kept;
    }

    private PooledConnection? TryRentOfOthers(LoopSources? loop)
    {
        foreach (LoopShelf shelf in Volatile.Read(ref _shelves))
        {
            if (shelf.Loop != loop && TryTakeUsable(shelf) is { } kept)
            {
                return kept;
            }
        }
        return null;
    }

    /// <inheritdoc cref="IProgramConnections.RentAsync"/>
    public async ValueTask<PooledConnection> RentAsync(bool fresh, TransportKind kind, CancellationToken ct)
    {
        if (!_places.Wait(0, CancellationToken.None) && !await TryWaitAsync(ct).ConfigureAwait(false))
        {
            throw new ConnectorException(ConnectorFault.Busy, $"All {_limits.ConnectionsMax} connections to {_endPoint} are in use.");
        }
        try
        {
            if (!fresh && TryTakeUsable() is { } kept)
            {
                return kept;
            }
            TrimIdle();
            return new PooledConnection(Connecting is null ? kind.Over(await ConnectAsync(ct).ConfigureAwait(false)) : await Connecting(ct).ConfigureAwait(false));
        }
        catch
        {
            _places.Release();
            throw;
        }
    }

    private async ValueTask<bool> TryWaitAsync(CancellationToken ct)
    {
        Interlocked.Increment(ref _waiting);
        try
        {
            PlacesWanted?.Invoke();
            ClearShelves();
            return await _places.WaitAsync(_limits.ConnectTimeout, ct).ConfigureAwait(false);
        }
        finally
        {
            Interlocked.Decrement(ref _waiting);
        }
    }

    // ---- requests whose body is still coming ----

    /// <summary>
    /// A place for each request that has its connection before any of its body need be there: half of the connections. Who finds none waits for the body first, so that who announces one and sends none
    /// keeps nobody from the other half.
    /// </summary>
    public SemaphoreSlim EarlyBodies { get; }

    /// <summary>
    /// A place for each other request whose body has begun to come: four tenths of the connections, so that who sends a part of a body and no more keeps nobody from the last tenth who has sent all of it.
    /// </summary>
    public SemaphoreSlim PartialBodies { get; }

    /// <summary>A place of <see cref="PartialBodies"/>, which the request gives back when its body has come.</summary>
    /// <exception cref="ConnectorException">There is none.</exception>
    public async ValueTask WaitForPartialBodyAsync(CancellationToken ct)
    {
        if (!await PartialBodies.WaitAsync(_limits.ConnectTimeout, ct).ConfigureAwait(false))
        {
            throw new ConnectorException(ConnectorFault.Busy, $"Of the {_limits.ConnectionsMax} connections to {_endPoint}, those for requests whose body is still coming are in use.");
        }
    }

    // ---- places of others ----

    /// <summary>Somebody has begun to wait for a place: whoever has one that he does not use gives it back. Any thread.</summary>
    public Action? PlacesWanted { get; set; }

    /// <summary>Somebody waits for a place. Any thread.</summary>
    public bool HasWaiters
    {
        get
        {
            bool has = Volatile.Read(ref _waiting) > 0;
            WaitersAsked?.Invoke();
            return has;
        }
    }

    /// <summary>Whether somebody waits has been seen: tests have somebody begin to just then.</summary>
    internal Action? WaitersAsked { get; set; }

    /// <summary>A place for a connection that is not of this pool, which <see cref="ReleasePlace"/> gives back. Does not wait.</summary>
    public bool TryTakePlace()
    {
        if (!_places.Wait(0, CancellationToken.None))
        {
            return false;
        }
        TrimIdle();
        return true;
    }

    public void ReleasePlace() => _places.Release();

    // What is kept has a place that nobody else has taken.
    private void TrimIdle()
    {
        PooledConnection? oldest = null;
        lock (_lock)
        {
            if (_idle.Count > _places.CurrentCount)
            {
                oldest = _idle[0];
                _idle.RemoveAt(0);
            }
        }
        oldest?.Dispose();
    }

    /// <summary>The request is over, and the next may go over it.</summary>
    public void Return(PooledConnection connection)
    {
        connection.BecomeIdle();
        if (connection.Loop is { } loop && Volatile.Read(ref _waiting) == 0 && ShelfOf(loop)?.TryPut(connection) == true)
        {
            Interlocked.MemoryBarrier();        // whoever begins to wait sees it there, or is seen here
            if (Volatile.Read(ref _waiting) > 0)
            {
                ClearShelves();
            }
            return;
        }
        PutBack(connection);
    }

    private void PutBack(PooledConnection connection)
    {
        bool isKept;
        lock (_lock)
        {
            isKept = !_isDisposed;
            if (isKept)
            {
                int at = _idle.Count;       // the oldest come first
                while (at > 0 && _idle[at - 1].IsIdleSinceLaterThan(connection))
                {
                    at--;
                }
                _idle.Insert(at, connection);
            }
        }
        if (!isKept)
        {
            connection.Dispose();
        }
        _places.Release();
    }

    /// <summary>It is of no further use.</summary>
    public void Drop(PooledConnection connection)
    {
        connection.Dispose();
        _places.Release();
    }

    public void Dispose()
    {
        _closing.Dispose();
        lock (_lock)
        {
            _isDisposed = true;
            _idle.ForEach(static connection => connection.Dispose());
            _idle.Clear();
            Array.ForEach([.. _shelves.SelectMany(static shelf => shelf.TakeAll(closes: true))], Drop);
            _shelves = [];
        }
    }

    private PooledConnection? TryTakeUsable()
    {
        while (TryTake(out PooledConnection kept))
        {
            if (kept.IsUsable)
            {
                return kept;
            }
            kept.Dispose();
        }
        return null;
    }

    private bool TryTake(out PooledConnection connection)
    {
        lock (_lock)
        {
            if (_idle.Count == 0)
            {
                connection = null!;
                return false;
            }
            connection = _idle[^1];
            _idle.RemoveAt(_idle.Count - 1);
            return true;
        }
    }

    private void CloseOld()
    {
        PooledConnection[] old;
        lock (_lock)
        {
            old = PooledConnection.TakeOld(_idle, _limits.IdleTimeout);
        }
        Array.ForEach(old, static connection => connection.Dispose());
        foreach (LoopShelf shelf in Volatile.Read(ref _shelves))
        {
            Array.ForEach(shelf.TakeOld(_limits.IdleTimeout), Drop);
        }
    }
}

/// <param name="ConnectionsMax">In use or kept; at least 1.</param>
/// <param name="IdleTimeout">How long one is kept that nobody uses; less than the responder's.</param>
/// <param name="ConnectTimeout">How long a request may wait for one.</param>
internal sealed record ConnectionLimits(int ConnectionsMax, TimeSpan IdleTimeout, TimeSpan ConnectTimeout)
{
    public static ConnectionLimits Default { get; } = new(1_000, TimeSpan.FromSeconds(30), TimeSpan.FromSeconds(10));
}
