// A router between a client and an application: requests and answers arrive as they would without it, over both protocols, whether the handler passes them on or
// the loop that they came by.

using System.Net.Sockets;
using System.Security.Cryptography;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Primitives;
using Millrace.Command.Routing;
using Millrace.Loops;
using Millrace.Tests.Hosting;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Connector;

public sealed class HandledRouterTests() : RouterTests(isRelayed: false);

public sealed class RelayedRouterTests() : RouterTests(isRelayed: true);

public abstract class RouterTests(bool isRelayed) : IAsyncLifetime
{
    private readonly SocketFolder _folder = new();
    private readonly List<string> _log = [];
    private readonly TaskCompletionSource _aborted = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private HostedApp _app = null!;
    private Router _router = null!;
    private Router _narrow = null!;
    private Router _named = null!;

    public static TheoryData<ApplicationProtocol> Protocols => [ApplicationProtocol.FastCgi, ApplicationProtocol.Http];

    public async ValueTask InitializeAsync()
    {
        string socket = _folder.PathOf("app.sock");
        _app = await HostedApp.StartAsync(Map, address: "fastcgi://unix:" + socket);
        _router = new Router([new Route("app", socket, null, null, ""), new Route("gone", _folder.PathOf("gone.sock"), null, null, "/gone"), new Route("app", socket, null, "only.example", "/only")], "/", Log);
        _named = new Router([new Route("app", socket, null, "xn--bcher-kva.example", ""), new Route("app", socket, null, "*.xn--fgen-boa.example", "")], "/", Log);
        _narrow = new Router([new Route("app", socket, null, "only.example", "")], "/", Log);
    }

    public async ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        await _app.DisposeAsync();
        _router.Dispose();
        _narrow.Dispose();
        _named.Dispose();
        _folder.Dispose();
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task Method_target_query_host_and_fields_arrive_as_they_were_sent(ApplicationProtocol protocol)
    {
        await using UnixApp front = await StartAsync(protocol);

        UnixAnswer answer = await front.Get("/echo/a%20b%2Fc?x=%20y&z", ("X-One", "1"), ("Accept", "text/plain, */*"), ("Cookie", "a=1; b=2"), ("X-Empty", ""), ("User-Agent", "test/1"));

        Assert.Equal(200, answer.Status);
        Assert.Contains("GET http example.com  /echo/a b%2Fc ?x=%20y&z\n", answer.Text, StringComparison.Ordinal);
        Assert.Contains("\nX-One: 1\n", answer.Text, StringComparison.Ordinal);
        Assert.Contains("\nAccept: text/plain, */*\n", answer.Text, StringComparison.Ordinal);
        Assert.Contains("\nCookie: a=1; b=2\n", answer.Text, StringComparison.Ordinal);
        Assert.Contains("\nUser-Agent: test/1\n", answer.Text, StringComparison.Ordinal);
        Assert.Equal("one|two", answer.Field("X-Twice"));
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task Fields_that_end_at_a_router_go_no_further(ApplicationProtocol protocol)
    {
        await using UnixApp front = await StartAsync(protocol);

        UnixAnswer answer = await front.Get("/echo", ("Keep-Alive", "9"), ("TE", "trailers"), ("Proxy", "http://evil"), ("Proxy-Connection", "x"), ("X-Kept", "1"));

        Assert.Contains("X-Kept: 1\n", answer.Text, StringComparison.Ordinal);
        Assert.DoesNotMatch("(?m)^(Keep-Alive|TE|Proxy|Proxy-Connection|Connection): ", answer.Text);
    }

    [Fact]
    public async Task Over_HTTP_a_name_with_an_underscore_cannot_stand_for_the_one_with_a_hyphen()
    {
        await using UnixApp front = await StartAsync(ApplicationProtocol.Http);

        UnixAnswer answer = await front.Get("/echo", ("X_User", "root"), ("X_Only", "x"));

        Assert.DoesNotContain("root", answer.Text, StringComparison.Ordinal);
        Assert.DoesNotContain("X-Only", answer.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task What_the_front_server_says_over_FastCGI_goes_on_to_the_application()
    {
        await using HostedApp front = await HostedApp.StartAsync(app => app.Run(_router.AnswerAsync), builder => Configure(builder, _router));

        FastCgiResponse answer = front.Exchange(new FastCgiRequest("/variables") { SaysAddresses = false }
            .With("REMOTE_ADDR", "192.0.2.7").With("REMOTE_PORT", "1234").With("HTTPS", "on").With("REMOTE_USER", "jörg").With("SSL_CLIENT_VERIFY", "SUCCESS").With("SCRIPT_NAME", "/x").WithHeader("X-Twice", "1").WithHeader("X-Twice", "2"));

        Assert.Equal("192.0.2.7:1234 https jörg SUCCESS script= x=1|2", answer.Text);
    }

    [Fact]
    public async Task Over_HTTP_the_client_is_whom_the_router_sees()
    {
        await using HostedApp front = await HostedApp.StartAsync(app => app.Run(_router.AnswerAsync), builder => Configure(builder, _router), address: "http://127.0.0.1:0");
        using var client = new HttpClient();

        Assert.StartsWith("127.0.0.1:", await client.GetStringAsync(front.Address + "/variables"), StringComparison.Ordinal);
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task Bodies_of_all_sizes_arrive_whole(ApplicationProtocol protocol)
    {
        await using UnixApp front = await StartAsync(protocol);
        foreach (int length in (int[])[0, 1, 100, 32 * 1024, 32 * 1024 + 1, 65_535, 65_536, 1_000_000, 5_000_000])
        {
            byte[] body = [.. Enumerable.Range(0, length).Select(static i => (byte)(i * 31 >> 3))];

            UnixAnswer answer = await front.Post("/hash", body, ("Content-Type", "application/x-test"));

            Assert.Equal($"{length} {length} application/x-test {Convert.ToHexString(SHA256.HashData(body))}", answer.Text);
        }
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task A_long_answer_arrives_whole_with_and_without_its_length_also_to_a_client_that_reads_late(ApplicationProtocol protocol)
    {
        await using UnixApp front = await StartAsync(protocol);
        foreach (string target in (string[])["/long/0/plain", "/long/1/plain", "/long/16384/plain", "/long/3000000/plain", "/long/3000000/length"])
        {
            int length = int.Parse(target.Split('/')[2], System.Globalization.CultureInfo.InvariantCulture);

            UnixAnswer answer = await front.GetLate(target, TimeSpan.FromMilliseconds(50));

            Assert.Equal((200, length), (answer.Status, answer.Text.Length));
            Assert.Equal(Content(length), Encoding.ASCII.GetBytes(answer.Text));
        }
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task Statuses_that_have_no_body_and_HEAD_arrive_so(ApplicationProtocol protocol)
    {
        await using UnixApp front = await StartAsync(protocol);

        Assert.Equal((204, ""), await Pair(front.Get("/status/204")));
        Assert.Equal((304, ""), await Pair(front.Get("/status/304")));
        Assert.Equal((418, "418"), await Pair(front.Get("/status/418")));
        Assert.Equal((500, ""), await Pair(front.Get("/throw")));
        Assert.Equal((302, ""), await Pair(front.Get("/redirect")));
        await using UnixApp narrow = await StartNarrowAsync(protocol);
        Assert.Equal((404, "Not found\n"), await Pair(narrow.Get("/elsewhere")));
    }

    [Fact]
    public async Task The_answer_to_HEAD_has_the_length_of_that_to_GET_and_no_body()
    {
        await using HostedApp front = await HostedApp.StartAsync(app => app.Run(_router.AnswerAsync), builder => Configure(builder, _router), address: "http://127.0.0.1:0");
        using var client = new HttpClient();

        using HttpResponseMessage answer = await client.SendAsync(new HttpRequestMessage(HttpMethod.Head, front.Address + "/long/100000/length"));

        Assert.Equal((100_000, ""), (answer.Content.Headers.ContentLength, await answer.Content.ReadAsStringAsync()));
    }

    [Fact]
    public async Task What_the_application_sends_piece_by_piece_arrives_so_and_the_application_learns_that_the_client_has_left()
    {
        await using HostedApp front = await HostedApp.StartAsync(app => app.Run(_router.AnswerAsync), builder => Configure(builder, _router), address: "http://127.0.0.1:0");
        using (var client = new HttpClient())
        {
            await using Stream stream = await client.GetStreamAsync(front.Address + "/until-aborted");
            Assert.Equal("first"u8.ToArray(), await ReadAsync(stream, 5));
        }

        await _aborted.Task.WaitAsync(TimeSpan.FromSeconds(10));
    }

    [Fact]
    public async Task A_conversation_goes_on_in_both_directions_at_a_time()
    {
        await using HostedApp front = await HostedApp.StartAsync(app => app.Run(_router.AnswerAsync), builder => Configure(builder, _router), address: "http://127.0.0.1:0");
        var address = new Uri(front.Address);
        using var client = new TcpClient(address.Host, address.Port);
        NetworkStream stream = client.GetStream();
        await stream.WriteAsync("POST /talk HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"u8.ToArray());
        using var reader = new StreamReader(stream);
        for (int i = 0; i < 5; i++)
        {
            await stream.WriteAsync(Encoding.ASCII.GetBytes($"7\r\nline {i}\n\r\n"));
            string? line;
            do
            {
                line = await reader.ReadLineAsync().WaitAsync(TimeSpan.FromSeconds(10));
            }
            while (line is not null && !line.StartsWith("LINE", StringComparison.Ordinal));
            Assert.Equal($"LINE {i}", line);
        }
    }

    // The file has them as they are sent.
    [Theory]
    [InlineData("xn--bcher-kva.example", 200)]
    [InlineData("XN--BCHER-KVA.example:8080", 200)]
    [InlineData("a.xn--fgen-boa.example", 200)]
    [InlineData("xn--b.example", 404)]
    [InlineData("bcher.example", 404)]
    public async Task An_international_name_leads_to_its_application_RFC5891(string host, int status)
    {
        foreach (ApplicationProtocol protocol in Enum.GetValues<ApplicationProtocol>())
        {
            await using UnixApp front = await UnixApp.StartAsync(protocol, app => app.Run(_named.AnswerAsync), builder => Configure(builder, _named));

            UnixAnswer answer = await front.Get("/host", ("Host", host));

            Assert.Equal((status, status == 200 ? host : "Not found\n"), (answer.Status, answer.Text));
        }
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task An_application_that_is_not_there_is_502_and_the_log_says_where(ApplicationProtocol protocol)
    {
        await using UnixApp front = await StartAsync(protocol);

        Assert.Equal((502, "Bad gateway\n"), await Pair(front.Get("/gone/x")));
        Assert.Contains(_log, line => line.StartsWith("gone: ", StringComparison.Ordinal) && line.Contains(_folder.PathOf("gone.sock"), StringComparison.Ordinal));
        Assert.Equal(200, (await front.Get("/echo")).Status);
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task A_response_that_fails_midway_does_not_pass_for_a_whole_one(ApplicationProtocol protocol)
    {
        if (protocol == ApplicationProtocol.Http)
        {
            await using UnixApp front = await StartAsync(protocol);
            await Assert.ThrowsAnyAsync<HttpRequestException>(() => front.Get("/midway"));
            return;
        }
        await using HostedApp fastCgi = await HostedApp.StartAsync(app => app.Run(_router.AnswerAsync), builder => Configure(builder, _router));
        using FastCgiPeer peer = fastCgi.Connect();
        peer.Send(new FastCgiRequest("/midway").ToBytes());
        FastCgiResponse cut = peer.Receive();
        Assert.False(cut.IsWhole);
        Assert.Equal("half", cut.Text);     // what had come before, also where nobody had read it yet
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task Requests_one_after_the_other_go_over_one_connection_and_never_answer_one_another(ApplicationProtocol protocol)
    {
        await using UnixApp front = await StartAsync(protocol);
        HashSet<string> connections = [];
        for (int i = 0; i < 50; i++)
        {
            UnixAnswer answer = await front.Post($"/connection?{i}", Encoding.ASCII.GetBytes($"body {i}"));
            string[] parts = answer.Text.Split('|');
            Assert.Equal([$"?{i}", $"body {i}"], parts[1..]);
            connections.Add(parts[0]);
        }
        Assert.Single(connections);
    }

    private static async Task<(int, string)> Pair(Task<UnixAnswer> answer) => ((await answer).Status, (await answer).Text);

    private Task<UnixApp> StartAsync(ApplicationProtocol protocol) => UnixApp.StartAsync(protocol, app => app.Run(_router.AnswerAsync), builder => Configure(builder, _router));

    private Task<UnixApp> StartNarrowAsync(ApplicationProtocol protocol) => UnixApp.StartAsync(protocol, app => app.Run(_narrow.AnswerAsync), builder => Configure(builder, _narrow));

    // One loop, so that requests find the connection of the one before.
    private void Configure(WebApplicationBuilder builder, Router router)
    {
        if (isRelayed)
        {
            builder.Services.AddSingleton<RelayMaker>(router.Relays).Configure<MillraceOptions>(static options => options.Loops = 1);
        }
    }

    private void Log(string line)
    {
        lock (_log)
        {
            _log.Add(line);
        }
    }

    private static byte[] Content(int length) => [.. Enumerable.Range(0, length).Select(static i => (byte)('a' + i % 26))];

    private static async Task<byte[]> ReadAsync(Stream stream, int count)
    {
        byte[] bytes = new byte[count];
        await stream.ReadExactlyAsync(bytes).AsTask().WaitAsync(TimeSpan.FromSeconds(10));
        return bytes;
    }

    private void Map(WebApplication app)
    {
        app.Map("/echo/{**rest}", static (HttpContext context) => Echo(context));
        app.Map("/variables", static (HttpContext context) =>
        {
            var parameters = context.Features.GetRequiredFeature<AspNetCore.IFastCgiFeature>().Parameters;
            return $"{context.Connection.RemoteIpAddress}:{context.Connection.RemotePort} {context.Request.Scheme} {parameters.GetValueOrDefault("REMOTE_USER")} {parameters.GetValueOrDefault("SSL_CLIENT_VERIFY")} script={parameters.GetValueOrDefault("SCRIPT_NAME")} x={string.Join('|', context.Request.Headers["X-Twice"].ToArray())}";
        });
        app.MapPost("/hash", static async (HttpContext context) =>
        {
            using var body = new MemoryStream();
            await context.Request.Body.CopyToAsync(body);
            return $"{context.Request.ContentLength} {body.Length} {context.Request.ContentType} {Convert.ToHexString(SHA256.HashData(body.ToArray()))}";
        });
        app.MapGet("/long/{length:int}/{kind}", static async (HttpContext context, int length, string kind) =>
        {
            context.Response.ContentLength = kind == "length" ? length : null;
            foreach (byte[] part in Content(length).Chunk(10_000))
            {
                await context.Response.Body.WriteAsync(part);
            }
        });
        app.MapMethods("/long/{length:int}/{kind}", ["HEAD"], static (HttpContext context, int length) => context.Response.ContentLength = length);
        app.MapGet("/status/{status:int}", static (HttpContext context, int status) =>
        {
            context.Response.StatusCode = status;
            return status == 418 ? context.Response.WriteAsync("418") : Task.CompletedTask;
        });
        app.MapGet("/host", static (HttpContext context) => context.Request.Headers.Host.ToString());
        app.MapGet("/throw", static void () => throw new InvalidOperationException("on purpose"));
        app.MapGet("/redirect", static (HttpContext context) => context.Response.Redirect("/there"));
        app.MapGet("/midway", static async (HttpContext context) =>
        {
            await context.Response.WriteAsync("half");
            await context.Response.Body.FlushAsync();
            throw new InvalidOperationException("on purpose");
        });
        app.MapGet("/until-aborted", async (HttpContext context) =>
        {
            await context.Response.WriteAsync("first");
            await context.Response.Body.FlushAsync();
            try
            {
                await Task.Delay(TimeSpan.FromSeconds(20), context.RequestAborted);
            }
            catch (OperationCanceledException)
            {
                _aborted.SetResult();
            }
        });
        app.MapPost("/talk", static async (HttpContext context) =>
        {
            using var reader = new StreamReader(context.Request.Body);
            while (await reader.ReadLineAsync() is { } line)
            {
                await context.Response.WriteAsync(line.ToUpperInvariant() + "\n");
                await context.Response.Body.FlushAsync();
            }
        });
        app.MapPost("/connection", static async (HttpContext context) =>
        {
            using var reader = new StreamReader(context.Request.Body);
            return $"{context.Connection.Id}|{context.Request.QueryString}|{await reader.ReadToEndAsync()}";
        });
    }

    private static async Task Echo(HttpContext context)
    {
        HttpRequest request = context.Request;
        context.Response.Headers.Append("X-Twice", new StringValues(["one", "two"]));
        var text = new StringBuilder($"{request.Method} {request.Scheme} {request.Host} {request.PathBase} {request.Path.Value} {request.QueryString}\n");
        foreach (var (name, value) in request.Headers)
        {
            text.Append(System.Globalization.CultureInfo.InvariantCulture, $"{name}: {value}\n");
        }
        await context.Response.WriteAsync(text.ToString());
    }
}
