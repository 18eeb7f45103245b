// A client that takes its time behind nginx, which passes on what comes as it comes: nginx takes nothing more for as long as its own socket for the client is full enough, and who goes on
// reading is not cut, by either of them.
using System.Net;
using System.Net.Sockets;
using System.Text;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop;

public sealed class SlowReaderTests
{
    private const int PieceSize = 64 * 1024;
    private static readonly TimeSpan s_every = TimeSpan.FromMilliseconds(200);
    private static readonly TimeSpan s_sendTimeout = TimeSpan.FromSeconds(6);
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(14);

    private static async ValueTask Endless(Request request, Response response)
    {
        byte[] part = new byte[64 * 1024];
        while (!request.Aborted.IsCancellationRequested)
        {
            await response.WriteAsync(part);
        }
    }

    [Theory]
    [InlineData(AppProtocol.FastCgi)]
    [InlineData(AppProtocol.Http)]
    public async Task A_client_that_reads_all_the_time_is_not_cut_behind_nginx_that_collects_nothing_SendTimeout(AppProtocol protocol)
    {
        using var sockets = new TemporaryDirectory("sockets", searchable: true);
        string scheme = protocol == AppProtocol.FastCgi ? "fastcgi" : "http";
        await using MillraceServer server = await MillraceServer.StartAsync(
            $"{scheme}://unix:{Path.Combine(sockets.Path, "app.sock")}?mode=666", Endless, new MillraceOptions { Loops = 1, SendTimeout = s_sendTimeout });
        await using FrontEndServer nginx = await FrontEndServer.StartAsync(
            new NginxProgram(), new Upstream(new Combination(protocol, Transport.Unix, UpstreamConnections.KeptAlive), [server.Addresses[0].Split('?')[0]]));
        using var client = new Socket(SocketType.Stream, ProtocolType.Tcp) { ReceiveBufferSize = 8 * 1024 };
        await client.ConnectAsync(IPAddress.Loopback, nginx.Streaming.Port);
        await client.SendAsync(Encoding.ASCII.GetBytes("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));

        byte[] piece = new byte[PieceSize];
        var time = System.Diagnostics.Stopwatch.StartNew();
        for (int pieces = 0; time.Elapsed < s_patience; await Task.Delay(s_every))
        {
            for (; pieces < time.Elapsed / s_every; pieces++)       // as many as are due: who got no processor is no slower
            {
                Assert.True(await client.ReceiveAsync(piece) > 0, $"cut after {time.Elapsed}");
            }
        }
    }
}
