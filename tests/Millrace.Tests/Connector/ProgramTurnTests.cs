// A request for a program that a pool has answered for: where its process has not begun it by then, it never does.

using Microsoft.AspNetCore.Http;
using Millrace.Connector;

namespace Millrace.Tests.Connector;

public sealed class ProgramTurnTests
{
    [Fact]
    public async Task A_request_that_is_over_before_it_begins_never_begins_and_one_that_is_asked_again_does()
    {
        var connections = new Counting();
        using var request = new ProgramRequest(new DefaultHttpContext(), new FastCgiProgramOptions(), null);

        await request.EndTurnAsync();
        await Assert.ThrowsAsync<OperationCanceledException>(() => request.RunAsync(connections, CancellationToken.None));
        Assert.Equal(0, connections.Count);

        request.OpenTurn();
        await Assert.ThrowsAsync<ConnectorException>(() => request.RunAsync(connections, CancellationToken.None));
        await request.EndTurnAsync();
        Assert.Equal(1, connections.Count);
        await Assert.ThrowsAsync<OperationCanceledException>(() => request.RunAsync(connections, CancellationToken.None));
        Assert.Equal(1, connections.Count);
    }

    private sealed class Counting : IProgramConnections
    {
        public int Count { get; private set; }

        public bool KeepsConnections => true;

        public bool Settles => true;

        public PooledConnection? TryRent(TransportKind kind) => null;

        public ValueTask<PooledConnection> RentAsync(bool fresh, TransportKind kind, CancellationToken ct)
        {
            Count++;
            throw new ConnectorException(ConnectorFault.NoConnection, "There is none.");
        }

        public void Return(PooledConnection connection) => throw new NotSupportedException();

        public void Drop(PooledConnection connection) => throw new NotSupportedException();

        public ValueTask SettleAsync(PooledConnection connection, bool hasEnded) => throw new NotSupportedException();
    }
}
