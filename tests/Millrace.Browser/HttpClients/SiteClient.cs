// .NET's own HttpClient for the site, over TCP or over its Unix socket; counts the connections it opens.

using System.Net.Sockets;
using Millrace.Browser.Site;
using Millrace.Interop.FrontEnds;

namespace Millrace.Browser.HttpClients;

internal sealed class SiteClient : IDisposable
{
    private readonly SocketsHttpHandler _handler;
    private int _connections;

    public SiteClient(SiteServer site, Transport transport, Action<SocketsHttpHandler>? configure = null)
    {
        _handler = new SocketsHttpHandler
        {
            Expect100ContinueTimeout = TimeSpan.FromSeconds(30),
            ConnectCallback = async (context, cancellation) =>
            {
                Interlocked.Increment(ref _connections);
                return await ConnectAsync(site, transport, cancellation);
            },
        };
        configure?.Invoke(_handler);
        Invoker = new HttpMessageInvoker(_handler, disposeHandler: false);
        Http = new HttpClient(_handler, disposeHandler: false) { BaseAddress = site.Direct, Timeout = TimeSpan.FromSeconds(15) };
    }

    public HttpClient Http { get; }

    public HttpMessageInvoker Invoker { get; }

    public int Connections => Volatile.Read(ref _connections);

    public static async Task<NetworkStream> ConnectAsync(SiteServer site, Transport transport, CancellationToken cancellation = default)
    {
        Socket socket = transport == Transport.Tcp
            ? new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true }
            : new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        await (transport == Transport.Tcp
            ? socket.ConnectAsync(site.Direct.Host, site.Direct.Port, cancellation)
            : socket.ConnectAsync(new UnixDomainSocketEndPoint(site.UnixSocket), cancellation));
        return new NetworkStream(socket, ownsSocket: true);
    }

    public void Dispose()
    {
        Http.Dispose();
        Invoker.Dispose();
        _handler.Dispose();
    }
}
