// A router whose connections to an application are nearly used up: who announces a body and sends none does not keep the last ones from those who have theirs.

using System.Collections.Concurrent;
using System.Globalization;
using System.Net.Sockets;
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
    private int _begun;
    private int _ended;

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
        app.MapPost("/length", async (HttpContext context) =>
        {
            Interlocked.Increment(ref _begun);
            try
            {
                using var body = new MemoryStream();
                await context.Request.Body.CopyToAsync(body);
                return string.Create(CultureInfo.InvariantCulture, $"<{body.Length}>");
            }
            finally
            {
                Interlocked.Increment(ref _ended);
            }
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

        Assert.True(SpinWait.SpinUntil(() => Volatile.Read(ref _begun) == Volatile.Read(ref _ended), 10_000));
        int before = Volatile.Read(ref _begun);
        List<Socket> first = [.. Enumerable.Range(0, Places / 2).Select(_ => Begin(Head(100_000), ""))];
        Assert.True(SpinWait.SpinUntil(() => Volatile.Read(ref _begun) == before + Places / 2, 10_000), "places are lost");
        first.ForEach(static one => one.Dispose());
    }

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
