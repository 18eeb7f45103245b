// A Unix socket of the daemon's, or of one of its processes, as its client sees it: the framework's client for HTTP, without what it does for web sites.

using System.Net.Sockets;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal static class PrivateSocket
{
    // Before Linux 6.16 none is kept: another program that this process becomes would close it with the descriptors that have been sent on it, and wait for them.
    private static readonly Lazy<TimeSpan> s_keptFor = new(static () =>
    {
        using var socket = UnixSocket.New();
        return PassedDescriptors.AreRefused((int)socket.Handle) ? Timeout.InfiniteTimeSpan : TimeSpan.Zero;
    });

    /// <summary>A client of what speaks HTTP there, whatever the host of a request; time limits are the caller's.</summary>
    /// <param name="path">Its socket.</param>
    /// <param name="misused">See <see cref="ConnectAsync"/>.</param>
    public static HttpClient HttpClient(string path, Action? misused = null) => new(new SocketsHttpHandler
    {
        ConnectCallback = async (_, ct) => await ConnectAsync(path, ct, misused),
        AllowAutoRedirect = false,
        UseCookies = false,
        UseProxy = false,
        PooledConnectionLifetime = s_keptFor.Value,
    })
    {
        Timeout = Timeout.InfiniteTimeSpan,
    };

    /// <summary>A request as it is: a name such as ".." is one that no application has, and no way to another address.</summary>
    /// <param name="method">GET, or one that is sent once at most: without a body the framework's client would repeat it where its connection ends without an answer.</param>
    /// <param name="url">Any host, and the target.</param>
    /// <param name="body">Null: there is none.</param>
    public static HttpRequestMessage Request(HttpMethod method, string url, byte[]? body = null) => new(method, new Uri(url, new UriCreationOptions { DangerousDisablePathAndQueryCanonicalization = true }))
    {
        Content = body is null && method == HttpMethod.Get ? null : new ByteArrayContent(body ?? []),
    };

    /// <summary>All of an answer's body: whoever answers may be anybody.</summary>
    /// <param name="response">The answer, of which the head has been read.</param>
    /// <param name="most">Bytes.</param>
    /// <param name="ct">Gives it up.</param>
    /// <exception cref="LongAnswerException">There is more.</exception>
    /// <exception cref="IOException">It breaks off.</exception>
    public static async Task<byte[]> BytesAsync(HttpResponseMessage response, int most, CancellationToken ct)
    {
        await using var stream = await response.Content.ReadAsStreamAsync(ct);
        return await BoundedRead.AllAsync(stream, most, ct) ?? throw new LongAnswerException();
    }

    /// <exception cref="SocketException">Nobody listens there, or it is not to be used, or it is somebody else's (<see cref="SocketError.AccessDenied"/>).</exception>
    /// <param name="path">The socket.</param>
    /// <param name="ct">Gives it up.</param>
    /// <param name="misused">Is called when whoever answers has sent descriptors, where the kernel cannot refuse them.</param>
    public static async Task<Stream> ConnectAsync(string path, CancellationToken ct, Action? misused = null)
    {
        var socket = UnixSocket.New();
        try
        {
            await socket.ConnectAsync(new UnixDomainSocketEndPoint(path), ct);
            RequireOwn(socket);
            return PassedDescriptors.AreRefused((int)socket.Handle) ? new NetworkStream(socket, ownsSocket: true) : new WaryStream(socket, misused);
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

/// <summary>An answer has more bytes than anybody wants to read.</summary>
internal sealed class LongAnswerException() : IOException("The answer is too long.");
