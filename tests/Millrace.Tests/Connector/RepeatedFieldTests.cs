// Fields that come more than once, to an application behind a router and to the same one without it: it sees the same lines, and what is refused is refused by both.

using System.Net.Sockets;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.DependencyInjection;
using Millrace.Command.Routing;
using Millrace.Loops;
using Millrace.Tests.Hosting;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Connector;

public sealed class RepeatedFieldTests : IAsyncLifetime
{
    private readonly SocketFolder _folder = new();
    private readonly List<HostedApp> _fronts = [];
    private HostedApp _app = null!;
    private Router _router = null!;

    public async ValueTask InitializeAsync()
    {
        string socket = _folder.PathOf("app.sock");
        _app = await HostedApp.StartAsync(
            static app =>
            {
                app.Run(AnswerAsync);
                app.Urls.Add("http://127.0.0.1:0");
            },
            options: static options => (options.IsRouted, options.AmbiguousHeaders) = (true, AmbiguousHeaders.Refuse),
            address: "fastcgi://unix:" + socket);
        _router = new Router([new Route("app", socket, null, null, "")], "/", static _ => { }, RouteKey.OfDaemon);
        foreach (bool isRelayed in (bool[])[false, true])
        {
            _fronts.Add(await StartFrontAsync(isRelayed, "http://127.0.0.1:0"));
        }
    }

    public async ValueTask DisposeAsync()
    {
        foreach (HostedApp front in _fronts)
        {
            await front.DisposeAsync();
        }
        await _app.DisposeAsync();
        _router.Dispose();
        _folder.Dispose();
    }

    [Theory]
    [InlineData("User-Agent")]
    [InlineData("Referer")]
    [InlineData("Authorization")]
    [InlineData("Range")]
    [InlineData("If-Range")]
    [InlineData("Origin")]
    [InlineData("traceparent")]
    [InlineData("X-Forwarded-Proto")]
    [InlineData("X-Forwarded-For")]
    [InlineData("X-Real-IP")]
    [InlineData("X-User")]
    [InlineData("X-Api-Key")]
    [InlineData("X-Any")]
    [InlineData("x.any")]
    [InlineData("Accept")]
    [InlineData("Cookie")]
    public async Task Lines_of_one_field_arrive_as_without_a_router_RFC9110_5_3(string name)
    {
        await IsTheSameAsync(200, $"{name}: a=1\r\n{name}: b=2\r\n");
        await IsTheSameAsync(200, $"{name}: a=1\r\n{name}: a=1\r\n");
        await IsTheSameAsync(200, $"{name}: a, b\r\nAccept-Language: de\r\n{name.ToUpperInvariant()}:\r\n{name.ToLowerInvariant()}: \"c\"; d\r\n");
    }

    [Fact]
    public async Task Many_lines_arrive_as_without_a_router() =>
        await IsTheSameAsync(200, string.Concat(Enumerable.Range(0, 96).Select(static i => $"X-{i / 2}: {i}\r\n")));

    [Theory]
    [InlineData("Host: x.example\r\n")]
    [InlineData("Host: y.example\r\n")]
    [InlineData("Content-Length: 0\r\nContent-Length: 0\r\n")]
    [InlineData("Content-Length: 0\r\nContent-Length: 1\r\n")]
    [InlineData("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n")]
    [InlineData("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n")]
    public async Task Fields_that_frame_and_route_are_refused_as_without_a_router(string fields) => await IsTheSameAsync(400, fields);

    // CONTENT_TYPE is one variable: what Request.ContentType makes of two lines.
    [Fact]
    public async Task Two_types_of_the_content_are_one_text()
    {
        foreach (HostedApp server in (HostedApp[])[.. _fronts, _app])
        {
            Assert.Contains("\ntype: a/b,c/d\n", await AskAsync(server, "Content-Type: a/b\r\nContent-Type: c/d\r\n"), StringComparison.Ordinal);
        }
    }

    [Fact]
    public async Task A_name_with_an_underscore_is_no_line_of_the_one_with_a_hyphen()
    {
        foreach (HostedApp front in _fronts)
        {
            string answer = await AskAsync(front, "X_User: root\r\nX-User: one\r\nX_USER: root\r\nX-User: two\r\n");

            Assert.Contains("\nx-user: [one][two]\n", answer, StringComparison.Ordinal);
            Assert.DoesNotContain("root", answer, StringComparison.Ordinal);
        }
    }

    // What a web server makes of X-User and X_User a router cannot tell either, whoever the web server says that it is.
    [Theory]
    [InlineData("nginx/1.22.1")]
    [InlineData("millrace-router")]
    public async Task Over_FastCGI_one_variable_may_be_two_fields(string software)
    {
        foreach (bool isRelayed in (bool[])[false, true])
        {
            await using HostedApp front = await StartFrontAsync(isRelayed, "fastcgi://unix:" + _folder.PathOf($"front-{isRelayed}.sock"));

            FastCgiResponse answer = front.Exchange(new FastCgiRequest("/").With("SERVER_SOFTWARE", software).WithHeader("X-User", "good").WithHeader("X-User", "evil"));

            Assert.Equal(400, answer.Status);
        }
    }

    private Task<HostedApp> StartFrontAsync(bool isRelayed, string address) => HostedApp.StartAsync(
        app => app.Run(_router.AnswerAsync),
        builder =>
        {
            if (isRelayed)
            {
                builder.Services.AddSingleton<RelayMaker>(_router.Relays);
            }
        },
        address: address);

    private async Task IsTheSameAsync(int status, string fields)
    {
        string expected = await AskAsync(_app, fields);
        Assert.StartsWith($"HTTP/1.1 {status} ", expected, StringComparison.Ordinal);
        foreach (HostedApp front in _fronts)
        {
            Assert.Equal(expected, await AskAsync(front, fields));
        }
    }

    // The status line and the body.
    private static async Task<string> AskAsync(HostedApp server, string fields)
    {
        var address = new Uri(server.App.Urls.First(static url => url.StartsWith("http://", StringComparison.Ordinal)));
        using var client = new TcpClient(address.Host, address.Port);
        NetworkStream stream = client.GetStream();
        await stream.WriteAsync(Encoding.ASCII.GetBytes($"GET / HTTP/1.1\r\nHost: x.example\r\nConnection: close\r\n{fields}\r\n"));
        using var reader = new StreamReader(stream);
        string answer = await reader.ReadToEndAsync().WaitAsync(TimeSpan.FromSeconds(20));
        return answer[..answer.IndexOf("\r\n", StringComparison.Ordinal)] + answer[answer.IndexOf("\r\n\r\n", StringComparison.Ordinal)..];
    }

    // How a name is spelt a variable does not tell.
    private static Task AnswerAsync(HttpContext context)
    {
        HttpRequest request = context.Request;
        string text = string.Concat(request.Headers
            .Where(static field => field.Key is not ("Connection" or "Content-Type"))
            .OrderBy(static field => field.Key, StringComparer.OrdinalIgnoreCase)
            .Select(static field => $"{field.Key.ToLowerInvariant()}: {string.Concat(field.Value.Select(static value => $"[{value}]"))}\n"));
        text = $"\n{text}type: {request.ContentType}\n";
        context.Response.ContentLength = Encoding.UTF8.GetByteCount(text);
        return context.Response.WriteAsync(text);
    }
}
