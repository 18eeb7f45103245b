// A Unix socket of the daemon's, or of one of its processes, as its client sees it: the framework's client for HTTP, without what it does for web sites.

using System.Net.Sockets;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal static class PrivateSocket
{
    /// <summary>A client of what speaks HTTP there, whatever the host of a request; time limits are the caller's.</summary>
    public static HttpClient HttpClient(string path) => new(new SocketsHttpHandler
    {
        ConnectCallback = async (_, ct) => await ConnectAsync(path, ct),
        AllowAutoRedirect = false,
        UseCookies = false,
        UseProxy = false,
    })
    {
        Timeout = Timeout.InfiniteTimeSpan,
    };

    /// <exception cref="SocketException">Nobody listens there, or it is not to be used, or it is somebody else's (<see cref="SocketError.AccessDenied"/>).</exception>
    public static async Task<Stream> ConnectAsync(string path, CancellationToken ct)
    {
        var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        try
        {
            await socket.ConnectAsync(new UnixDomainSocketEndPoint(path), ct);
            RequireOwn(socket);
            return new NetworkStream(socket, ownsSocket: true);
        }
        catch
        {
            socket.Dispose();
            throw;
        }
    }

    // The default place may lie in /tmp, where anybody can have been first. Root asks whom it likes.
    private static void RequireOwn(Socket socket)
    {
        uint user = DescriptorPassing.Peer((int)socket.Handle).User;
        uint own = SystemCalls.GetEffectiveUser();
        if (own != 0 && user != 0 && user != own)
        {
            throw new SocketException((int)SocketError.AccessDenied);
        }
    }
}
