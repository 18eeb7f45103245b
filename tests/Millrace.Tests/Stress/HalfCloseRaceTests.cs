// A client that finishes sending and waits for its answer (RFC 9112 §9.6): it gets the answer, and then the end of the
// connection, however the last bytes of its body and its end fall together.

using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Millrace.Tests.Stress;

[Collection(AloneCollection.Name)]
public sealed class HalfCloseRaceTests
{
    private const int Rounds = 100;

    [Fact]
    public async Task End_that_comes_with_the_last_bytes_of_a_body_ends_the_connection_after_the_answer()
    {
        using var reading = new SemaphoreSlim(0);
        await using MillraceServer server = await MillraceServer.StartAsync(
            "http://127.0.0.1:0",
            async (request, response) =>
            {
                byte[] buffer = new byte[64];
                int length = await request.ReadAsync(buffer);
                reading.Release();
                for (int count; (count = await request.ReadAsync(buffer)) > 0; length += count)
                {
                }

                await Task.Delay(2);
                response.WriteText($"got {length}");
            },
            new MillraceOptions { Loops = 1 });
        var place = IPEndPoint.Parse(server.Addresses[0]["http://".Length..].TrimEnd('/'));
        for (int round = 0; round < Rounds; round++)
        {
            using var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
            client.Connect(place);
            client.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345"u8);
            Assert.True(await reading.WaitAsync(10_000));
            client.Send("67890"u8);
            client.Shutdown(SocketShutdown.Send);
            Assert.EndsWith("got 10", ReadToEnd(client), StringComparison.Ordinal);
        }
    }

    private static string ReadToEnd(Socket client)
    {
        client.ReceiveTimeout = 10_000;
        var text = new StringBuilder();
        byte[] buffer = new byte[1024];
        for (int count; (count = client.Receive(buffer)) > 0;)
        {
            text.Append(Encoding.Latin1.GetString(buffer, 0, count));
        }

        return text.ToString();
    }
}
