// Who waits in the queue of an application's listening socket, and was told to a process that has ended before it accepted him: the daemon passes him on.

using System.Net.Sockets;
using Millrace.Command.Serving;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Command;

[Collection(AloneCollection.Name)]
public sealed class PassedOnTests : IDisposable
{
    private readonly SocketFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    private AppListeners Open(string parameters = "") => AppListeners.Open(
        new AppSettings { Name = "app", Target = "", Urls = [_folder.NewAddress("http") + parameters] }, new DaemonFolders(new DaemonPlaces(_folder.PathOf("control.sock"), _folder.PathOf("code"))));

    private static async Task<Socket> AskAsync(AppListeners listeners)
    {
        var client = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified) { ReceiveTimeout = 20_000 };
        await client.ConnectAsync(new UnixDomainSocketEndPoint(listeners.Shown[0].Split("unix:")[1]));
        await client.SendAsync("GET / HTTP/1.1\r\nHost: a\r\n\r\n"u8.ToArray());
        return client;
    }

    // The server takes connections, and has not been told of the queue: as one whose neighbour was, and has crashed.
    [Fact]
    public async Task Who_waits_in_a_queue_is_given_to_whoever_takes_connections()
    {
        using AppListeners listeners = Open();
        using Socket waiting = await AskAsync(listeners);
        using Socket another = await AskAsync(listeners);
        await using MillraceServer server = await MillraceServer.StartAsync(_folder.NewAddress("http"), static (_, response) => response.WriteText("served"), new MillraceOptions { Loops = 1, IgnoreSignals = false });
        await server.Engine.TakeFromAsync(listeners.CopyOfTakes());
        Assert.Equal(0, waiting.Available);
        await listeners.PassOnAsync();
        foreach (Socket client in (Socket[])[waiting, another])
        {
            byte[] answer = new byte[1_000];
            int length = client.Receive(answer);
            Assert.EndsWith("served", System.Text.Encoding.ASCII.GetString(answer, 0, length), StringComparison.Ordinal);
        }
    }

    [Fact]
    public async Task Nothing_is_passed_on_when_the_sockets_have_been_closed()
    {
        AppListeners listeners = Open();
        listeners.Dispose();
        await listeners.PassOnAsync();
    }
}
