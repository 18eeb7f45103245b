// Requests for another protocol, which a router passes on over HTTP: anybody can make one of any request, and it is no less a request for that.

using System.Net;
using System.Net.Sockets;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.HttpOverrides;
using Millrace.Command.Routing;
using Millrace.Connector;
using Millrace.Platform;
using Millrace.StartupHooks;
using Millrace.Tests.Hosting;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Connector;

public sealed class UpgradedRequestTests : IAsyncLifetime
{
    private static readonly string[] s_fields = ["Content-Type", "Content-Language", "Content-Encoding", "Content-Disposition", "Content-Location", "Allow", "Expires", "Last-Modified", "Accept", "X-Own"];
    private const string Asks = "Connection: Upgrade\r\nUpgrade: test\r\n";

    private static CancellationToken Ended => TestContext.Current.CancellationToken;

    private readonly SocketFolder _folder = new();
    private readonly List<string> _log = [];
    private Router _router = null!;
    private HostedApp _app = null!;
    private HostedApp _front = null!;

    public async ValueTask InitializeAsync()
    {
        string fastCgi = _folder.PathOf("app.sock"), http = _folder.PathOf("up.sock");
        _app = await HostedApp.StartAsync(
            app =>
            {
                Map(app);
                app.Urls.Add("http://unix:" + http);
            },
            options: static options => options.IsRouted = true,
            address: "fastcgi://unix:" + fastCgi);
        _router = new Router([new Route("app", fastCgi, http, null, ""), new Route("app", fastCgi, http, null, "/größe"), new Route("few", fastCgi, null, "nowhere.example", "/x")], "/", Log, RouteKey.OfDaemon);
        _front = await HostedApp.StartAsync(app => app.Run(_router.AnswerAsync), address: "http://127.0.0.1:0");
    }

    public async ValueTask DisposeAsync()
    {
        await _front.DisposeAsync();
        await _app.DisposeAsync();
        _router.Dispose();
        _folder.Dispose();
    }

    // ForwardedHeaders believes whoever has no address.
    [Theory]
    [InlineData("")]
    [InlineData(Asks)]
    public async Task The_application_sees_the_clients_address_and_believes_nobody_who_is_not_known(string asks)
    {
        Assert.StartsWith("127.0.0.1|127.0.0.1||/who|", await GetAsync("/who", asks), StringComparison.Ordinal);
        Assert.StartsWith("127.0.0.1|127.0.0.1||/forwarded|", await GetAsync("/forwarded", asks + "X-Forwarded-For: 192.0.2.66\r\n"), StringComparison.Ordinal);
        Assert.EndsWith("|routed=", await GetAsync("/who", asks), StringComparison.Ordinal);
    }

    // HttpClient has some of them beside a body alone; whoever offers h2c with each request (curl --http2) sends them all the same.
    [Theory]
    [InlineData("")]
    [InlineData(Asks)]
    public async Task All_fields_of_a_request_reach_the_application(string asks)
    {
        Assert.EndsWith("fields=" + string.Join(',', s_fields.Select(static name => "its " + name)), await GetAsync("/fields", asks + string.Concat(s_fields.Select(static name => $"{name}: its {name}\r\n"))), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("", false)]
    [InlineData(Asks, false)]
    [InlineData("", true)]
    [InlineData(Asks, true)]
    public async Task What_a_visitor_says_in_the_routers_name_is_not_believed(string asks, bool guessesKey)
    {
        string key = RouteKey.OfDaemon.Of(guessesKey ? "few" : "app");

        Assert.Equal("127.0.0.1|127.0.0.1||/who|routed=", await GetAsync("/who", asks + $"Millrace-Routed: {key} %2Fwho 192.0.2.66 1 - 1\r\n"));
        Assert.Equal("127.0.0.1|127.0.0.1||/who|routed=", await GetAsync("/who", asks + $"Millrace_Routed: {key} %2Fwho 192.0.2.66 1 - 1\r\n"));
    }

    [Theory]
    [InlineData("")]
    [InlineData(Asks)]
    public async Task The_path_that_leads_there_is_the_one_that_the_router_has_found_it_by(string asks)
    {
        Assert.StartsWith("127.0.0.1|127.0.0.1|/größe|/who|", await GetAsync("/gr%C3%B6%C3%9Fe/who", asks), StringComparison.Ordinal);
        Assert.StartsWith("127.0.0.1|127.0.0.1|/größe|/who|", await GetAsync("http://x.example/gr%C3%B6%C3%9Fe/who", asks), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("/echo/a%20b?c=%20d", "/echo/a b|?c=%20d")]
    [InlineData("http://x.example/echo/a?b", "/echo/a|?b")]
    [InlineData("http://x.example?b", "/|?b")]
    [InlineData("http://x.example", "/|")]
    [InlineData("//echo/a", "//echo/a|")]
    public async Task Target_and_fields_arrive_as_they_do_without_the_wish_for_another_protocol(string target, string seen)
    {
        foreach (string asks in (string[])["", Asks])
        {
            Assert.Equal($"{seen}|x.example|b=ü|", await GetAsync(target, asks + "X-Seen: target\r\nCookie: b=ü\r\nX_User: root\r\n"));
        }
    }

    // Nor is a length one that no client has sent.
    [Theory]
    [InlineData("GET", "", "none")]
    [InlineData("GET", "Content-Type: a/b\r\n", "none")]
    [InlineData("GET", "Content-Length: 0\r\n", "0")]
    [InlineData("OPTIONS", "", "none")]
    [InlineData("OPTIONS", "Content-Length: 0\r\n", "0")]
    [InlineData("POST", "", "none")]
    [InlineData("POST", "Content-Length: 0\r\n", "0")]
    public async Task The_length_of_nothing_is_that_of_the_client(string method, string fields, string expected)
    {
        foreach (string asks in (string[])["", Asks])
        {
            Assert.EndsWith($"\r\n\r\n{expected}|", await AskAsync($"{method} /announced HTTP/1.1\r\nHost: x.example\r\n{fields}{asks}\r\n"), StringComparison.Ordinal);
            Assert.EndsWith($"\r\n\r\n{expected}|/größe", await AskAsync($"{method} /gr%C3%B6%C3%9Fe/announced HTTP/1.1\r\nHost: x.example\r\n{fields}{asks}\r\n"), StringComparison.Ordinal);
        }
    }

    // What a router adds is not the client's.
    [Theory]
    [InlineData("", 99, 1)]
    [InlineData(Asks, 97, 1)]
    [InlineData("", 3, 10_870)]
    [InlineData(Asks, 3, 10_870)]
    public async Task A_head_that_the_router_takes_is_taken_by_the_application(string asks, int fields, int length)
    {
        string head = string.Concat(Enumerable.Range(0, fields).Select(i => $"X-{i}: {new string('ä', length / 2)}\r\n"));
        Assert.StartsWith("127.0.0.1|127.0.0.1|/größe|/who|", await GetAsync("/gr%C3%B6%C3%9Fe/who", asks + head), StringComparison.Ordinal);
        Assert.StartsWith("HTTP/1.1 431 ", await AskAsync($"GET /who HTTP/1.1\r\nHost: x.example\r\n{asks}{head}X-More: {new string('x', 1_500)}\r\n\r\n"), StringComparison.Ordinal);
    }

    [Fact]
    public async Task An_answer_without_a_switch_keeps_its_length_also_to_HEAD_and_where_it_is_cut()
    {
        Assert.Contains("\r\nContent-Length: 1000\r\n", await AskAsync($"GET /length/1000 HTTP/1.1\r\nHost: x.example\r\n{Asks}\r\n"), StringComparison.Ordinal);
        string head = await AskAsync($"HEAD /length/1000 HTTP/1.1\r\nHost: x.example\r\n{Asks}\r\n");
        Assert.Contains("\r\nContent-Length: 1000\r\n", head, StringComparison.Ordinal);
        Assert.EndsWith("\r\n\r\n", head, StringComparison.Ordinal);
        string cut = await AskAsync($"GET /cut HTTP/1.1\r\nHost: x.example\r\n{Asks}\r\n");
        Assert.Contains("\r\nContent-Length: 100\r\n", cut, StringComparison.Ordinal);
        Assert.EndsWith("\r\n\r\nhalf", cut, StringComparison.Ordinal);
    }

    // A client that has no more to say than that still wants to hear.
    [Theory]
    [InlineData(1)]
    [InlineData(5_000_000)]
    public async Task Whoever_ends_its_half_behind_a_switch_hears_the_other_to_its_end(int length)
    {
        using TcpClient client = await SwitchAsync($"/sum/{length}");
        NetworkStream stream = client.GetStream();
        byte[] said = new byte[length];
        for (int i = 0; i < 3; i++)
        {
            await stream.WriteAsync(said);
        }
        client.Client.Shutdown(SocketShutdown.Send);
        using var heard = new MemoryStream();
        await stream.CopyToAsync(heard).WaitAsync(TimeSpan.FromSeconds(20));
        string text = Encoding.ASCII.GetString(heard.ToArray());
        Assert.StartsWith($"heard {3 * length} ", text, StringComparison.Ordinal);
        Assert.EndsWith(" end", text, StringComparison.Ordinal);
        Assert.Equal(length, text.Count(static c => c == 'x'));
    }

    [Fact]
    public async Task The_end_of_the_application_behind_a_switch_is_the_end()
    {
        using TcpClient client = await SwitchAsync("/leaves");
        using var heard = new MemoryStream();
        await client.GetStream().CopyToAsync(heard).WaitAsync(TimeSpan.FromSeconds(20));
        Assert.Equal("last words", Encoding.ASCII.GetString(heard.ToArray()));
    }

    [Fact]
    public async Task Who_leaves_behind_a_switch_takes_the_application_along()
    {
        TcpClient client = await SwitchAsync("/stays");
        client.Client.LingerState = new LingerOption(true, 0);
        client.Dispose();
        await s_left.Task.WaitAsync(TimeSpan.FromSeconds(20));
    }

    [Fact]
    public async Task Who_is_lost_behind_a_switch_takes_an_application_along_that_takes_nothing()
    {
        Task deafLeft = NextDeafLeft();
        using TcpClient client = await SwitchAsync("/deaf");
        client.Client.SendTimeout = 1_000;
        client.Client.LingerState = new LingerOption(true, 0);
        byte[] said = new byte[64 * 1024];
        long sent = 0;
        void SayOn()
        {
            while (true)
            {
                sent += client.Client.Send(said);
            }
        }

        _ = Assert.Throws<SocketException>(SayOn);      // the router waits for the application
        Assert.True(sent > 0);

        client.Dispose();

        await deafLeft.WaitAsync(TimeSpan.FromSeconds(20), Ended);
    }

    // Who has ended his half alone still listens, until he is lost. The application is told of neither as long as it has not taken what was said before.
    [Fact]
    public async Task Who_is_lost_behind_the_end_of_his_half_takes_an_application_along_that_takes_nothing()
    {
        const int Said = 2 << 20;       // more than goes on to the application, and less than the kernel keeps for the router: the end of the half comes to that, and no further
        Task deafLeft = NextDeafLeft();
        using TcpClient client = await SwitchAsync("/deaf");
        client.Client.LingerState = new LingerOption(true, 0);
        byte[] piece = new byte[16 * 1024];
        for (int said = 0; said < Said; said += piece.Length)
        {
            await client.GetStream().WriteAsync(piece, Ended);      // one at a time: of what comes at once the kernel keeps less
            Assert.True(SpinWait.SpinUntil(() => default(LinuxKernel).Unsent((int)client.Client.Handle) == 0, 10_000), "not all of it is taken");
        }

        client.Client.Shutdown(SocketShutdown.Send);
        await Task.Delay(2_500, Ended);
        Assert.False(deafLeft.IsCompleted);

        client.Dispose();

        await deafLeft.WaitAsync(TimeSpan.FromSeconds(20), Ended);
    }

    private static Task NextDeafLeft()
    {
        s_deafLeft = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        return s_deafLeft.Task;
    }

    private static readonly TaskCompletionSource s_left = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private static volatile TaskCompletionSource s_deafLeft = null!;

    // Behind the head of the answer.
    private async Task<TcpClient> SwitchAsync(string path)
    {
        var address = new Uri(_front.Address);
        var client = new TcpClient(address.Host, address.Port);
        await client.GetStream().WriteAsync(Encoding.ASCII.GetBytes($"GET {path} HTTP/1.1\r\nHost: x.example\r\n{Asks}\r\n"));
        string head = "";
        byte[] one = new byte[1];
        while (!head.EndsWith("\r\n\r\n", StringComparison.Ordinal))
        {
            Assert.Equal(1, await ReadAsync(client.GetStream(), one));
            head += (char)one[0];
        }
        Assert.StartsWith("HTTP/1.1 101 ", head, StringComparison.Ordinal);
        return client;
    }

    private static async Task SwitchedAsync(HttpContext context)
    {
        context.Response.Headers.Upgrade = "test";
        await using Stream stream = await context.Features.GetRequiredFeature<IHttpUpgradeFeature>().UpgradeAsync();
        string path = context.Request.Path.Value!;
        if (path == "/leaves")
        {
            await stream.WriteAsync("last words"u8.ToArray());
            return;
        }
        byte[] buffer = new byte[16 * 1024];
        if (path is "/stays" or "/deaf")
        {
            TaskCompletionSource left = path == "/stays" ? s_left : s_deafLeft;
            await Task.Delay(Timeout.Infinite, context.RequestAborted).ContinueWith(_ => left.TrySetResult(), TaskScheduler.Default);
            return;
        }
        int heard = 0;
        while (await stream.ReadAsync(buffer) is > 0 and int count)
        {
            heard += count;
        }
        await stream.WriteAsync(Encoding.ASCII.GetBytes($"heard {heard} "));
        await Task.Delay(100);
        await stream.WriteAsync(Encoding.ASCII.GetBytes(new string('x', int.Parse(path["/sum/".Length..], System.Globalization.CultureInfo.InvariantCulture))));
        await stream.WriteAsync(" end"u8.ToArray());
    }

    // RFC 9110 §9.2.2: what an application has acted upon, and not answered, is not said to it again.
    [Fact]
    public async Task A_request_goes_to_the_application_once_whatever_becomes_of_the_connection()
    {
        int heads = 0;
        using var listener = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        listener.Bind(new UnixDomainSocketEndPoint(_folder.PathOf("raw.sock")));
        listener.Listen();
        Task serving = Task.Run(async () =>
        {
            while (true)
            {
                _ = AnswerFirstAsync(await listener.AcceptAsync(Ended));
            }
        });
        using var router = new Router([new Route("raw", _folder.PathOf("none.sock"), _folder.PathOf("raw.sock"), null, "")], "/", Log, RouteKey.OfDaemon);
        await using HostedApp front = await HostedApp.StartAsync(app => app.Run(router.AnswerAsync), address: "http://127.0.0.1:0");
        foreach (string status in (string[])["200 OK", "502 Bad Gateway"])
        {
            string answer = await AskAsync($"POST / HTTP/1.1\r\nHost: x.example\r\nContent-Length: 0\r\n{Asks}\r\n", front);
            Assert.StartsWith("HTTP/1.1 " + status, answer, StringComparison.Ordinal);
        }

        Assert.Equal(2, heads);
        listener.Dispose();
        await Assert.ThrowsAnyAsync<Exception>(() => serving);

        async Task AnswerFirstAsync(Socket socket)
        {
            using (socket)
            {
                byte[] buffer = new byte[8 * 1024];
                while (await socket.ReceiveAsync(buffer) > 0 && Interlocked.Increment(ref heads) == 1)
                {
                    await socket.SendAsync("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"u8.ToArray());
                }
            }
        }
    }

    // A Unix socket refuses at once where TCP waits.
    [Theory]
    [InlineData(10_000, true, "HTTP/1.1 200 ")]
    [InlineData(500, false, "HTTP/1.1 503 ")]
    public async Task A_full_queue_of_the_application_is_waited_for_and_it_is_busy_behind_ConnectTimeout(int limitMs, bool accepts, string status)
    {
        var place = new UnixDomainSocketEndPoint(_folder.PathOf("full.sock"));
        using var listener = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        listener.Bind(place);
        listener.Listen(0);
        using var first = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        await first.ConnectAsync(place);        // all that it holds
        using var upgraded = new UpgradedRequest(place, ConnectionLimits.Default with { ConnectTimeout = TimeSpan.FromMilliseconds(limitMs) });
        var waiting = new TaskCompletionSource();
        await using HostedApp front = await HostedApp.StartAsync(
            app => app.Run(async context =>
            {
                try
                {
                    Task sent = upgraded.SendAsync(context, "", null);
                    waiting.SetResult();
                    await sent;
                }
                catch (ConnectorException error)
                {
                    context.Response.StatusCode = GatewayAnswer.StatusOf(error.Fault);
                    context.Response.ContentLength = 0;
                }
            }),
            address: "http://127.0.0.1:0");

        Task<string> answer = AskAsync($"GET / HTTP/1.1\r\nHost: x.example\r\n{Asks}\r\n", front);
        await waiting.Task.WaitAsync(TimeSpan.FromSeconds(10), Ended);
        using Socket? before = accepts ? await listener.AcceptAsync(Ended) : null;
        using Socket? its = accepts ? await listener.AcceptAsync(Ended) : null;
        if (its is not null)
        {
            Assert.True(await its.ReceiveAsync(new byte[8 * 1024]) > 0);
            await its.SendAsync("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"u8.ToArray());
        }

        Assert.StartsWith(status, await answer, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_line_of_the_log_is_one_line_whatever_it_quotes()
    {
        using var narrow = new Router([new Route("app", _folder.PathOf("app.sock"), null, "only.example", "")], "/", Log);
        await using HostedApp front = await HostedApp.StartAsync(app => app.Run(narrow.AnswerAsync), address: "http://127.0.0.1:0");
        using var client = new HttpClient();

        using HttpResponseMessage answer = await client.GetAsync(front.Address + "/x%0Amillrace:%20shop%20ended%1B%5B2J");

        Assert.Equal(HttpStatusCode.NotFound, answer.StatusCode);
        string line = Assert.Single(_log);
        Assert.DoesNotContain(line, char.IsControl);
    }

    private void Log(string line)
    {
        lock (_log)
        {
            _log.Add(line);
        }
    }

    private async Task<string> GetAsync(string target, string fields)
    {
        string answer = await AskAsync($"GET {target} HTTP/1.1\r\nHost: x.example\r\n{fields}\r\n");
        int body = answer.IndexOf("\r\n\r\n", StringComparison.Ordinal) + 4;
        return answer[body..];
    }

    // To the end of the response: its length, or the end of the connection.
    private async Task<string> AskAsync(string request, HostedApp? front = null)
    {
        var address = new Uri((front ?? _front).Address);
        using var client = new TcpClient(address.Host, address.Port);
        NetworkStream stream = client.GetStream();
        await stream.WriteAsync(Encoding.UTF8.GetBytes(request));
        using var read = new MemoryStream();
        byte[] buffer = new byte[4096];
        string text = "";
        while (!IsWhole(text, isHead: request.StartsWith("HEAD", StringComparison.Ordinal)) && await ReadAsync(stream, buffer) is > 0 and var count)
        {
            read.Write(buffer, 0, count);
            text = Encoding.UTF8.GetString(read.ToArray());
        }
        return text;
    }

    private static async Task<int> ReadAsync(NetworkStream stream, byte[] buffer)
    {
        try
        {
            return await stream.ReadAsync(buffer).AsTask().WaitAsync(TimeSpan.FromSeconds(10));
        }
        catch (IOException)
        {
            return 0;
        }
    }

    private static bool IsWhole(string text, bool isHead)
    {
        int end = text.IndexOf("\r\n\r\n", StringComparison.Ordinal) + 4;
        if (end < 4)
        {
            return false;
        }
        if (text.Contains("Transfer-Encoding: chunked\r\n", StringComparison.Ordinal))
        {
            return isHead || text.EndsWith("\r\n0\r\n\r\n", StringComparison.Ordinal);
        }
        int at = text.IndexOf("Content-Length: ", StringComparison.Ordinal) + "Content-Length: ".Length;
        return isHead || Encoding.UTF8.GetByteCount(text.AsSpan(end)) >= int.Parse(text.AsSpan(at, text.AsSpan(at).IndexOf('\r')), System.Globalization.CultureInfo.InvariantCulture);
    }

    private static void Map(WebApplication app)
    {
        var routed = new RoutedRequests("", RouteKey.OfDaemon.Of("app"));
        app.Use(routed.AnswerAsync);
        var forwarded = new ForwardedHeadersOptions { ForwardedHeaders = ForwardedHeaders.XForwardedFor };
        forwarded.KnownIPNetworks.Clear();
        forwarded.KnownProxies.Clear();
        forwarded.KnownProxies.Add(IPAddress.Parse("192.0.2.1"));
        app.UseWhen(static context => context.Request.Path == "/forwarded", branch => branch.UseForwardedHeaders(forwarded));
        app.Run(static context => AnswerAsync(context));
    }

    private static async Task AnswerAsync(HttpContext context)
    {
        HttpRequest request = context.Request;
        switch (request.Path.Value)
        {
            case "/who" or "/forwarded":
                await WholeAsync(context, $"{context.Connection.RemoteIpAddress}|{context.Connection.LocalIpAddress}|{request.PathBase.Value}|{request.Path.Value}|routed={request.Headers["Millrace-Routed"]}");
                return;
            case "/fields":
                await WholeAsync(context, "fields=" + string.Join(',', request.Headers.Select(static field => field.Value.ToString()).Where(static value => value.StartsWith("its ", StringComparison.Ordinal)).OrderBy(static value => Array.IndexOf(s_fields, value[4..]))));
                return;
            case "/announced":
                await WholeAsync(context, $"{request.ContentLength?.ToString(System.Globalization.CultureInfo.InvariantCulture) ?? "none"}|{request.PathBase.Value}");
                return;
            case "/length/1000":
                context.Response.ContentLength = 1000;
                await (HttpMethods.IsHead(request.Method) ? Task.CompletedTask : context.Response.WriteAsync(new string('x', 1000)));
                return;
            case "/cut":
                context.Response.ContentLength = 100;
                await context.Response.WriteAsync("half");
                await context.Response.Body.FlushAsync();
                throw new InvalidOperationException("on purpose");
            case "/leaves" or "/stays" or "/deaf":
            case { } path when path.StartsWith("/sum/", StringComparison.Ordinal):
                await SwitchedAsync(context);
                return;
            default:
                await WholeAsync(context, $"{request.Path.Value}|{request.QueryString}|{request.Host}|{request.Headers.Cookie}|{request.Headers["X_User"]}{request.Headers["X-User"]}");
                return;
        }
    }

    private static Task WholeAsync(HttpContext context, string text)
    {
        context.Response.ContentLength = Encoding.UTF8.GetByteCount(text);
        return context.Response.WriteAsync(text);
    }
}
