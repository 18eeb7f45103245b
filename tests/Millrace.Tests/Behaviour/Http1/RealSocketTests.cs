// What only the kernel's own TCP and clock can show: that a reset is a reset, that an answer survives a client that is still
// sending, and that the date is today's. Everything else is tested over the simulated kernel.

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Millrace.Tests.Behaviour.Http1;

public sealed class RealSocketTests
{
    private static async Task<string> Exchange(Func<Request, Response, ValueTask> handler, Func<Socket, Task<string>> client)
    {
        await using MillraceServer server = await MillraceServer.StartAsync("http://127.0.0.1:0", handler, new MillraceOptions { Loops = 1 });
        using var socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        await socket.ConnectAsync(IPEndPoint.Parse(server.Addresses[0]["http://".Length..]));
        return await client(socket);
    }

    /// <summary>All that comes, and how it ends: "end", or "reset".</summary>
    private static async Task<string> ReadToEnd(Socket socket)
    {
        using var patience = new CancellationTokenSource(TimeSpan.FromSeconds(20));
        var text = new StringBuilder();
        byte[] buffer = new byte[64 * 1024];
        while (true)
        {
            try
            {
                int count = await socket.ReceiveAsync(buffer, patience.Token);
                if (count == 0)
                {
                    return text.Append("|end").ToString();
                }

                text.Append(Encoding.Latin1.GetString(buffer, 0, count));
            }
            catch (SocketException error) when (error.SocketErrorCode == SocketError.ConnectionReset)
            {
                return text.Append("|reset").ToString();
            }
        }
    }

    private static async Task<string> Ask(Socket socket, string request)
    {
        _ = await socket.SendAsync(Encoding.ASCII.GetBytes(request));
        return await ReadToEnd(socket);
    }

    [Theory]
    [InlineData("HTTP/1.0", "abort", "|reset")]
    [InlineData("HTTP/1.1", "abort", "|reset")]
    [InlineData("HTTP/1.0", "abort later", "|reset")]
    [InlineData("HTTP/1.1", "abort later", "|reset")]
    [InlineData("HTTP/1.0", "throw", "\r\n\r\na part of it|reset")]
    [InlineData("HTTP/1.1", "throw", "\r\na part of it\r\n1\r\n|end")]
    [InlineData("HTTP/1.0", "throw later", "\r\n\r\na part of it|reset")]
    [InlineData("HTTP/1.1", "throw later", "\r\na part of it\r\n1\r\n|end")]
    public async Task A_response_that_is_cut_never_looks_whole_RFC9112_8(string version, string how, string end)
    {
        string seen = await Exchange(
            async (request, response) =>
            {
                response.WriteText("a part of it");
                await response.FlushAsync();
                if (how.EndsWith("later", StringComparison.Ordinal))
                {
                    await Task.Delay(50);
                }

                if (how.StartsWith("throw", StringComparison.Ordinal))
                {
                    throw new InvalidOperationException();
                }

                response.Abort();
            },
            socket => Ask(socket, $"GET / {version}\r\nHost: a\r\n\r\n"));
        Assert.EndsWith(end, seen, StringComparison.Ordinal);
    }

    // The client's system has what it has acknowledged, whatever comes behind.
    [Theory]
    [InlineData("HTTP/1.0", "|reset")]
    [InlineData("HTTP/1.1", "\r\n1\r\n|end")]
    public async Task All_that_was_sent_arrives_before_the_break_RFC9112_8(string version, string end)
    {
        const int Size = 4_000_000;
        string seen = await Exchange(
            async (request, response) =>
            {
                await response.WriteAsync(new byte[Size]);
                await response.FlushAsync();
                throw new InvalidOperationException();
            },
            async socket =>
            {
                _ = await socket.SendAsync(Encoding.ASCII.GetBytes($"GET / {version}\r\nHost: a\r\n\r\n"));
                await Task.Delay(500);
                return await ReadToEnd(socket);
            });
        Assert.EndsWith(end, seen, StringComparison.Ordinal);
        Assert.Equal(Size, seen.Count(static c => c == '\0'));
    }

    [Theory]
    [InlineData("chunked")]
    [InlineData("length")]
    public async Task A_response_that_shows_that_it_is_not_whole_ends_without_a_reset_over_pipelined_answers_before_it_RFC9112_9_6(string framing)
    {
        string seen = await Exchange(
            async (request, response) =>
            {
                if (request.Path == "/whole")
                {
                    response.WriteText("the first");
                    return;
                }

                response.ContentLength = framing == "length" ? 100 : null;
                response.WriteText("a part of it");
                await response.FlushAsync();
                throw new InvalidOperationException();
            },
            static async socket =>
            {
                _ = await socket.SendAsync(Encoding.ASCII.GetBytes("GET /whole HTTP/1.1\r\nHost: a\r\n\r\nGET /cut HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n"));
                await Task.Delay(300);
                return await ReadToEnd(socket);
            });
        Assert.Contains("the first", seen, StringComparison.Ordinal);
        Assert.EndsWith(framing == "length" ? "a part of it|end" : "c\r\na part of it\r\n1\r\n|end", seen, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_response_for_HTTP_1_0_that_is_whole_ends_without_a_reset_RFC9112_6_3()
    {
        string seen = await Exchange(
            static async (request, response) =>
            {
                response.WriteText("all ");
                await response.FlushAsync();
                response.WriteText("of it");
            },
            static socket => Ask(socket, "GET / HTTP/1.0\r\n\r\n"));
        Assert.EndsWith("\r\n\r\nall of it|end", seen, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("POST / HTTP/1.1\r\nHost: a b\r\nContent-Length: 3000000\r\n\r\n", "HTTP/1.1 400")]
    [InlineData("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30000000000\r\n\r\n", "HTTP/1.1 413")]
    [InlineData("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3000000\r\n\r\n", "HTTP/1.1 200")]
    public async Task An_early_answer_reaches_a_client_that_is_still_sending_RFC9112_9_6(string head, string expected)
    {
        string seen = await Exchange(
            static async (request, response) =>
            {
                if (request.ContentLength > 3_000_000)
                {
                    _ = await request.ReadAsync(new byte[1]);
                }
            },
            async socket =>
            {
                _ = await socket.SendAsync(Encoding.ASCII.GetBytes(head));
                byte[] part = new byte[10_000];
                for (int i = 0; i < 300; i++)
                {
                    // A client that sends its whole body before it looks for the answer.
                    _ = await socket.SendAsync(part);
                }

                return await ReadToEnd(socket);
            });
        Assert.StartsWith(expected, seen, StringComparison.Ordinal);
    }

    // A read stops there, in the middle of what lies in the socket.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task What_lies_behind_something_urgent_is_read_RFC9293_3_8_5(bool inTheBody)
    {
        string seen = await Exchange(
            static async (request, response) =>
            {
                byte[] bytes = new byte[16];
                int count = 0;
                for (int read; (read = await request.ReadAsync(bytes)) > 0;)
                {
                    count += read;
                }

                response.WriteText($"{count} bytes");
            },
            async socket =>
            {
                byte[] request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789"u8.ToArray();
                int cut = inTheBody ? request.Length - 5 : 20;
                using var patience = new CancellationTokenSource(TimeSpan.FromSeconds(20));
                byte[] answer = new byte[1_000];
                string last = "";
                for (int i = 0; i < 40 && (last.Length == 0 || last.EndsWith("\r\n\r\n10 bytes", StringComparison.Ordinal)); i++)
                {
                    _ = await socket.SendAsync(request.AsMemory(0, cut));
                    _ = socket.Send("!"u8, SocketFlags.OutOfBand);      // no byte of the stream
                    _ = await socket.SendAsync(request.AsMemory(cut));
                    last = Encoding.ASCII.GetString(answer, 0, await socket.ReceiveAsync(answer, patience.Token));
                }

                return last;
            });
        Assert.EndsWith("\r\n\r\n10 bytes", seen, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Date_is_the_time_of_the_answer_to_the_second_RFC9110_6_6_1()
    {
        for (int i = 0; i < 2; i++)
        {
            DateTimeOffset before = DateTimeOffset.UtcNow;
            string seen = await Exchange(static (_, _) => default, static socket => Ask(socket, "GET / HTTP/1.0\r\n\r\n"));
            string date = seen.Split("\r\n").Single(static line => line.StartsWith("Date: ", StringComparison.Ordinal))["Date: ".Length..];
            Assert.InRange(DateTimeOffset.ParseExact(date, "R", CultureInfo.InvariantCulture), before.AddSeconds(-2), DateTimeOffset.UtcNow);
            await Task.Delay(1_100);
        }
    }
}
