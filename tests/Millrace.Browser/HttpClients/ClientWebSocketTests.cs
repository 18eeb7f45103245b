// .NET's ClientWebSocket against an echo that keeps the boundaries of frames.

using System.Net.WebSockets;
using System.Text;
using Millrace.Browser.Site;
using Millrace.Interop.FrontEnds;

namespace Millrace.Browser.HttpClients;

public sealed class ClientWebSocketTests(SiteServer site)
{
    [Theory]
    [InlineData(Transport.Tcp)]
    [InlineData(Transport.Unix)]
    public async Task Text_and_bytes_of_every_size_come_back(Transport transport)
    {
        using var client = new SiteClient(site, transport);
        using ClientWebSocket socket = await Connect(client);
        foreach (int size in new[] { 0, 1, 125, 126, 65_535, 65_536, 1_000_003 })
        {
            byte[] sent = Pattern.Take(size);
            Task sending = socket.SendAsync(sent, WebSocketMessageType.Binary, endOfMessage: true, CancellationToken.None);
            (WebSocketMessageType type, byte[] received) = await Receive(socket);
            await sending;
            Assert.Equal(WebSocketMessageType.Binary, type);
            Assert.True(received.AsSpan().SequenceEqual(sent), $"{size} bytes came back as {received.Length}");
        }

        await socket.SendAsync(Encoding.UTF8.GetBytes("Mühle"), WebSocketMessageType.Text, endOfMessage: true, CancellationToken.None);
        (WebSocketMessageType textType, byte[] text) = await Receive(socket);
        Assert.Equal((WebSocketMessageType.Text, "Mühle"), (textType, Encoding.UTF8.GetString(text)));
    }

    [Fact]
    public async Task A_message_in_fragments_comes_back_in_fragments_RFC6455_5_4()
    {
        using var client = new SiteClient(site, Transport.Tcp);
        using ClientWebSocket socket = await Connect(client);
        byte[] buffer = new byte[100];
        for (int i = 1; i <= 4; i++)
        {
            await socket.SendAsync(Pattern.Take(i * 10), WebSocketMessageType.Binary, endOfMessage: i == 4, CancellationToken.None);
            WebSocketReceiveResult received = await socket.ReceiveAsync(buffer, CancellationToken.None);
            Assert.Equal((i * 10, i == 4), (received.Count, received.EndOfMessage));
        }
    }

    [Theory]
    [InlineData(Transport.Tcp)]
    [InlineData(Transport.Unix)]
    public async Task A_close_is_answered_with_its_code_and_the_connection_ends_RFC6455_7(Transport transport)
    {
        using var client = new SiteClient(site, transport);
        using ClientWebSocket socket = await Connect(client);
        Assert.Equal("grist", socket.SubProtocol);
        await socket.CloseAsync(WebSocketCloseStatus.NormalClosure, "enough", CancellationToken.None);
        Assert.Equal((WebSocketState.Closed, "seen: enough"), (socket.State, socket.CloseStatusDescription));
    }

    [Fact]
    public async Task A_request_without_upgrade_is_refused_and_its_connection_kept()
    {
        using var client = new SiteClient(site, Transport.Tcp);
        for (int i = 0; i < 2; i++)
        {
            using HttpResponseMessage response = await client.Http.GetAsync("socket");
            Assert.Equal(System.Net.HttpStatusCode.BadRequest, response.StatusCode);
        }

        Assert.Equal(1, client.Connections);
    }

    [Fact]
    public async Task Fifty_sockets_at_once_stay_apart()
    {
        using var client = new SiteClient(site, Transport.Tcp);
        await Parallel.ForAsync(0, 50, new ParallelOptions { MaxDegreeOfParallelism = 50 }, async (i, _) =>
        {
            using ClientWebSocket socket = await Connect(client);
            for (int round = 0; round < 20; round++)
            {
                byte[] sent = Pattern.Take((i * 100) + round);
                await socket.SendAsync(sent, WebSocketMessageType.Binary, endOfMessage: true, CancellationToken.None);
                Assert.Equal(sent, (await Receive(socket)).Bytes);
            }

            await socket.CloseAsync(WebSocketCloseStatus.NormalClosure, null, CancellationToken.None);
        });
    }

    private async Task<ClientWebSocket> Connect(SiteClient client)
    {
        var socket = new ClientWebSocket();
        socket.Options.AddSubProtocol("grist");
        var address = new UriBuilder(new Uri(site.Direct, "/socket?protocol=grist")) { Scheme = "ws" };
        await socket.ConnectAsync(address.Uri, client.Invoker, CancellationToken.None);
        return socket;
    }

    private static async Task<(WebSocketMessageType Type, byte[] Bytes)> Receive(ClientWebSocket socket)
    {
        using var message = new MemoryStream();
        byte[] buffer = new byte[70_000];
        while (true)
        {
            WebSocketReceiveResult received = await socket.ReceiveAsync(buffer, CancellationToken.None);
            message.Write(buffer, 0, received.Count);
            if (received.EndOfMessage)
            {
                return (received.MessageType, message.ToArray());
            }
        }
    }
}
