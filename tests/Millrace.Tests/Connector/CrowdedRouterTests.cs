// A router whose connections to an application are nearly used up: who announces a body and sends none does not keep the last ones from those who have theirs.

using System.Collections.Concurrent;
using System.Globalization;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.DependencyInjection;
using Millrace.Command.Routing;
using Millrace.Connector;
using Millrace.Loops;
using Millrace.Tests.Hosting;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Connector;

public sealed class CrowdedRouterTests : IAsyncLifetime
{
    private const int Places = 4;

    private readonly SocketFolder _folder = new();
    private HostedApp _app = null!;
    private Router _router = null!;
    private HostedApp _front = null!;
    private readonly ConcurrentQueue<string> _log = new();
    private readonly TaskCompletionSource _go = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _begun;

    public async ValueTask InitializeAsync()
    {
        string socket = _folder.PathOf("app.sock");
        _app = await HostedApp.StartAsync(Map, address: "fastcgi://unix:" + socket);
        _router = new Router([new Route("app", socket, null, null, "")], "/", line => _log.Enqueue(line), limits: new ConnectionLimits(Places, TimeSpan.FromSeconds(30), TimeSpan.FromSeconds(1)));
        _front = await HostedApp.StartAsync(app => app.Run(_router.AnswerAsync), builder => builder.Services.AddSingleton<RelayMaker>(_router.Relays), address: "http://unix:" + _folder.PathOf("front.sock"));
    }

    public async ValueTask DisposeAsync()
    {
        await _front.DisposeAsync();
        await _app.DisposeAsync();
        _router.Dispose();
        _folder.Dispose();
    }

    private void Map(WebApplication app)
    {
        app.MapGet("/hello", static () => "hello");
        app.MapMethods("/wait", ["GET", "POST"], async (HttpContext context) =>
        {
            Interlocked.Increment(ref _begun);
            await _go.Task;
        });
        app.MapPost("/length", async (HttpContext context) =>
        {
            Interlocked.Increment(ref _begun);
            using var body = new MemoryStream();
            await context.Request.Body.CopyToAsync(body);
            return string.Create(CultureInfo.InvariantCulture, $"<{body.Length}> {Convert.ToHexString(SHA256.HashData(body.GetBuffer().AsSpan(0, (int)body.Length)))}");
        });
    }

    [Fact]
    public void Half_of_the_connections_are_left_to_those_whose_body_is_there()
    {
        List<Socket> silent = [.. Enumerable.Range(0, 3 * Places).Select(_ => Begin(Head(100_000), "a"))];
        Assert.True(SpinWait.SpinUntil(() => Volatile.Read(ref _begun) >= Places / 2, 10_000));

        for (int i = 0; i < 10; i++)
        {
            Assert.StartsWith("HTTP/1.1 200 ", AnswerTo("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), StringComparison.Ordinal);
            Assert.Contains("<3>", AnswerTo(Head(3), "abc"), StringComparison.Ordinal);
            Assert.Contains("<100000>", AnswerTo(Head(100_000), new string('x', 100_000)), StringComparison.Ordinal);
        }

        Assert.Equal(Places / 2 + 20, Volatile.Read(ref _begun));
        silent.ForEach(static one => one.Dispose());
    }

    [Fact]
    public void A_body_that_comes_late_is_passed_on_when_it_has_come()
    {
        List<Socket> silent = [.. Enumerable.Range(0, Places).Select(_ => Begin(Head(100_000), ""))];
        Assert.True(SpinWait.SpinUntil(() => Volatile.Read(ref _begun) >= Places / 2, 10_000));
        using Socket late = Begin(Head(6), "abc");
        Thread.Sleep(50);

        Assert.Equal(Places / 2, Volatile.Read(ref _begun));
        late.Send("def"u8);
        Assert.Contains("<6>", Receive(late), StringComparison.Ordinal);
        Assert.Empty(_log);
        silent.ForEach(static one => one.Dispose());
    }

    // Whatever the pieces are: none is lost, and none is read twice.
    [Theory]
    [InlineData(1, 2)]
    [InlineData(7, 3)]
    [InlineData(10_000, 3)]
    [InlineData(10_000, 10)]
    [InlineData(32_767, 3)]
    [InlineData(32_768, 3)]
    [InlineData(40_000, 5)]
    public void A_body_that_comes_in_pieces_arrives_whole(int size, int count)
    {
        List<Socket> silent = [.. Enumerable.Range(0, Places).Select(_ => Begin(Head(100_000), ""))];
        Assert.True(SpinWait.SpinUntil(() => Volatile.Read(ref _begun) >= Places / 2, 10_000));

        foreach (bool isChunked in (bool[])[false, true])
        {
            using Socket late = Begin(isChunked ? ChunkedHead : Head(size * count), "");
            for (int i = 0; i < count; i++)
            {
                Thread.Sleep(5);
                string piece = new((char)('a' + i), size);
                late.Send(Encoding.ASCII.GetBytes(isChunked ? $"{size:x}\r\n{piece}\r\n" : piece));
            }
            if (isChunked)
            {
                late.Send("0\r\n\r\n"u8);
            }

            string sum = Convert.ToHexString(SHA256.HashData([.. Enumerable.Range(0, count).SelectMany(i => Enumerable.Repeat((byte)('a' + i), size))]));
            Assert.Contains($"<{size * count}> {sum}", Receive(late), StringComparison.Ordinal);
        }
        Assert.Empty(_log);
        silent.ForEach(static one => one.Dispose());
    }

    // 32 KB of it have come, and no more do.
    [Fact]
    public void A_tenth_of_the_connections_is_left_to_those_whose_body_is_there_whole()
    {
        List<Socket> silent = [.. Enumerable.Range(0, 3 * Places).Select(_ => Begin(Head(100_000), new string('x', 60_000)))];
        Assert.True(SpinWait.SpinUntil(() => Volatile.Read(ref _begun) >= Places - 1, 10_000));

        for (int i = 0; i < 10; i++)
        {
            Assert.StartsWith("HTTP/1.1 200 ", AnswerTo("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), StringComparison.Ordinal);
            Assert.Contains("<3>", AnswerTo(Head(3), "abc"), StringComparison.Ordinal);
        }

        Assert.Equal(Places - 1 + 10, Volatile.Read(ref _begun));
        Assert.StartsWith("HTTP/1.1 503 ", AnswerTo(Head(100_000), new string('x', 60_000)), StringComparison.Ordinal);
        silent.ForEach(static one => one.Dispose());
    }

    // An answer may take its time: behind its body a request is one of those whose bodies are there.
    [Fact]
    public void Requests_whose_body_has_come_count_no_more()
    {
        List<Socket> waiting = [.. Enumerable.Range(0, Places / 2).Select(_ => Begin("POST /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n", "abc"))];
        Assert.True(SpinWait.SpinUntil(() => Volatile.Read(ref _begun) == Places / 2, 10_000));

        using Socket next = Begin(Head(100_000), "");

        Assert.True(SpinWait.SpinUntil(() => Volatile.Read(ref _begun) == Places / 2 + 1, 10_000));
        _go.SetResult();
        waiting.ForEach(static one => one.Dispose());
    }

    [Fact]
    public void Where_there_is_no_connection_it_is_busy_and_the_next_request_is_answered()
    {
        List<Socket> all = [.. Enumerable.Range(0, Places).Select(_ => Begin("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n", ""))];
        Assert.True(SpinWait.SpinUntil(() => Volatile.Read(ref _begun) == Places, 10_000));
        List<Socket> early = [.. Enumerable.Range(0, Places / 2).Select(_ => Begin(Head(100_000), ""))];
        Thread.Sleep(50);
        using Socket busy = Begin($"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n", new string('x', 10_000));
        Thread.Sleep(20);
        busy.Send(new byte[40_000]);

        byte[] part = new byte[4096];
        string refusal = "";
        while (!refusal.EndsWith("\r\n0\r\n\r\n", StringComparison.Ordinal))     // its last chunk may come by itself
        {
            int count = busy.Receive(part);
            Assert.NotEqual(0, count);
            refusal += Encoding.ASCII.GetString(part, 0, count);
        }

        Assert.StartsWith("HTTP/1.1 503 ", refusal, StringComparison.Ordinal);
        _go.SetResult();
        busy.Send("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"u8);
        Assert.StartsWith("HTTP/1.1 200 ", Receive(busy), StringComparison.Ordinal);
        all.Concat(early).ToList().ForEach(static one => one.Dispose());
    }

    [Fact]
    public void Who_leaves_before_his_body_has_come_leaves_nothing_behind()
    {
        for (int i = 0; i < 3; i++)
        {
            List<Socket> silent = [.. Enumerable.Range(0, 3 * Places).Select(_ => Begin(Head(100_000), "a"))];
            Thread.Sleep(50);
            silent.ForEach(static one => one.Dispose());
            Assert.StartsWith("HTTP/1.1 200 ", AnswerTo("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), StringComparison.Ordinal);
        }

        // The router has seen the last of them leave a moment after the application.
        Assert.True(SpinWait.SpinUntil(HalfOfThemBegin, 10_000), "places are lost");
    }

    private bool HalfOfThemBegin()
    {
        Thread.Sleep(50);
        int before = Volatile.Read(ref _begun);
        List<Socket> silent = [.. Enumerable.Range(0, Places / 2).Select(_ => Begin(Head(100_000), ""))];
        bool haveBegun = SpinWait.SpinUntil(() => Volatile.Read(ref _begun) >= before + Places / 2, 500);
        silent.ForEach(static one => one.Dispose());
        return haveBegun;
    }

    private const string ChunkedHead = "POST /length HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";

    private static string Head(int length) => $"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n";

    private Socket Begin(string head, string body)
    {
        var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified) { ReceiveTimeout = 5_000 };
        socket.Connect(new UnixDomainSocketEndPoint(_folder.PathOf("front.sock")));
        socket.Send(Encoding.ASCII.GetBytes(head));
        if (body.Length > 0)
        {
            Thread.Sleep(2);        // else a small body is there when the router looks
            socket.Send(Encoding.ASCII.GetBytes(body));
        }

        return socket;
    }

    private string AnswerTo(string head, string body = "")
    {
        using Socket socket = Begin(head, body);
        return Receive(socket);
    }

    private static string Receive(Socket socket)
    {
        var all = new StringBuilder();
        byte[] part = new byte[4096];
        for (int count; (count = socket.Receive(part)) > 0;)
        {
            all.Append(Encoding.ASCII.GetString(part, 0, count));
        }

        return all.ToString();
    }
}
