// Where a request for a program gets its connection from: a pool of connections to one address, or the one process that it has been given.

namespace Millrace.Connector;

internal interface IProgramConnections
{
    /// <summary>Whether the program is asked to keep connections (FastCGI 1.0 §5.1).</summary>
    bool KeepsConnections { get; }

    /// <summary>Whether whoever serves the connection serves no other, so that its next request has to wait until this one has ended.</summary>
    bool Settles { get; }

    /// <summary>A kept connection, where there is one and nobody has to wait; null: see <see cref="RentAsync"/>. It comes back as that of RentAsync.</summary>
    PooledConnection? TryRent(TransportKind kind);

    /// <summary>A connection that nobody else uses; it comes back by <see cref="Return"/>, <see cref="Drop"/> or <see cref="SettleAsync"/>.</summary>
    /// <param name="fresh">Whether it must be a new one.</param>
    /// <param name="kind">How a new one is carried.</param>
    /// <param name="ct">The request has been given up.</param>
    /// <exception cref="ConnectorException">There is none.</exception>
    ValueTask<PooledConnection> RentAsync(bool fresh, TransportKind kind, CancellationToken ct);

    /// <summary>The request is over, and the next may go over it.</summary>
    void Return(PooledConnection connection);

    /// <summary>It is of no further use.</summary>
    void Drop(PooledConnection connection);

    /// <summary>Ends a request that has not come to its end as it should, and the connection. Where <see cref="Settles"/>.</summary>
    ValueTask SettleAsync(PooledConnection connection, bool hasEnded);
}
