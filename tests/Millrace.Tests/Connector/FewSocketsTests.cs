// A process that has no descriptor left for a connection to a program: its visitors are told to come back, and its operator what to raise.

using System.Net;
using System.Net.Sockets;
using Millrace.Connector;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Connector;

[Collection(AloneCollection.Name)]
public sealed class FewSocketsTests
{
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Where_there_is_no_socket_for_a_connection_the_program_is_busy_LimitNOFILE(bool isUnix)
    {
        using var folder = new SocketFolder();
        EndPoint endPoint = isUnix ? new UnixDomainSocketEndPoint(folder.PathOf("none.sock")) : new IPEndPoint(IPAddress.Loopback, 1);
        using var pool = new ConnectionPool(endPoint, ConnectionLimits.Default);
        Exception? error = await FailureAsync(pool);        // what the runtime loads is loaded
        Assert.Equal(ConnectorFault.NoConnection, Assert.IsType<ConnectorException>(error).Fault);
        using (new FewDescriptors(0))
        {
            error = await FailureAsync(pool);
        }

        var busy = Assert.IsType<ConnectorException>(error);
        Assert.Equal(ConnectorFault.Busy, busy.Fault);
        Assert.Contains("LimitNOFILE=", busy.Message, StringComparison.Ordinal);
        error = await FailureAsync(pool);
        Assert.Equal(ConnectorFault.NoConnection, Assert.IsType<ConnectorException>(error).Fault);
    }

    private static async Task<Exception?> FailureAsync(ConnectionPool pool) =>
        await Record.ExceptionAsync(async () => _ = await pool.RentAsync(fresh: false, default, CancellationToken.None));
}
