// New connections to a responder.

using System.Net;
using System.Net.Sockets;
using Millrace.Platform;

namespace Millrace.Connector;

internal sealed partial class ConnectionPool
{
    private ValueTask<Socket> ConnectAsync(CancellationToken ct) => ConnectAsync(_endPoint, _limits.ConnectTimeout, ct);

    /// <summary>Connects to a responder. A Unix socket whose queue is full refuses at once, where TCP waits: here both do.</summary>
    /// <exception cref="ConnectorException">There is no connection.</exception>
    public static ValueTask<Socket> ConnectAsync(EndPoint endPoint, TimeSpan timeout, CancellationToken ct) =>
        endPoint is UnixDomainSocketEndPoint && !ct.IsCancellationRequested && TryConnect(endPoint) is { } socket ? new ValueTask<Socket>(socket) : ConnectWithinAsync(endPoint, timeout, ct);

    // A Unix socket connects at once, or says why not: only then is there a time to be measured.
    private static Socket? TryConnect(EndPoint endPoint)
    {
        Socket socket = NewSocket(endPoint);
        try
        {
            socket.Blocking = false;
            socket.Connect(endPoint);
            return socket;
        }
        catch (SocketException)
        {
            socket.Dispose();
            return null;
        }
    }

    private static async ValueTask<Socket> ConnectWithinAsync(EndPoint endPoint, TimeSpan timeout, CancellationToken ct)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct);
        limit.CancelAfter(timeout);
        while (true)
        {
            Socket socket = NewSocket(endPoint);
            try
            {
                await socket.ConnectAsync(endPoint, limit.Token).ConfigureAwait(false);
                return socket;
            }
            catch (SocketException error) when (error.SocketErrorCode is SocketError.WouldBlock or SocketError.TryAgain)
            {
                socket.Dispose();
            }
            catch (SocketException error)
            {
                socket.Dispose();
                throw new ConnectorException(ConnectorFault.NoConnection, $"{endPoint} cannot be connected to: {error.Message}", error);
            }
            catch (OperationCanceledException) when (!ct.IsCancellationRequested)
            {
                socket.Dispose();
                throw new ConnectorException(ConnectorFault.Busy, $"{endPoint} has not accepted a connection within {timeout.TotalSeconds:0.#} s.");
            }
            catch
            {
                socket.Dispose();
                throw;
            }
            try
            {
                await Task.Delay(s_queueIsFull, limit.Token).ConfigureAwait(false);
            }
            catch (OperationCanceledException) when (!ct.IsCancellationRequested)
            {
                throw new ConnectorException(ConnectorFault.Busy, $"The queue of {endPoint} has been full for {timeout.TotalSeconds:0.#} s.");
            }
        }
    }

    private static Socket NewSocket(EndPoint endPoint)
    {
        try
        {
            return endPoint is UnixDomainSocketEndPoint ? UnixSocket.New() : new Socket(endPoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        }
        catch (SocketException error)
        {
            throw new ConnectorException(ConnectorFault.Busy, $"There is no socket for a connection to {endPoint}: {error.Message}. Allow the process more open files (LimitNOFILE= of its unit, ulimit -n).", error) { IsShortage = true };
        }
    }
}
