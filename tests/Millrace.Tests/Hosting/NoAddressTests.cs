// Middleware that looks at the client's or the server's address, and others that wrap the request, where there is no
// address: over a Unix socket IHttpConnectionFeature says null.

using System.Collections.Concurrent;
using System.Diagnostics;
using System.IO.Compression;
using System.Security.Claims;
using System.Text;
using System.Threading.RateLimiting;
using Microsoft.AspNetCore.Authentication;
using Microsoft.AspNetCore.Authentication.Cookies;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.HttpLogging;
using Microsoft.AspNetCore.HttpOverrides;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class NoAddressTests
{
    public static TheoryData<ApplicationProtocol> Protocols => [ApplicationProtocol.FastCgi, ApplicationProtocol.Http];

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task Addresses_are_null_and_ports_zero(ApplicationProtocol protocol)
    {
        await using UnixApp app = await UnixApp.StartAsync(protocol, static app => app.MapGet("/", Addresses));
        Assert.Equal("client none:0, server none:0, http://example.com", (await app.Get("/")).Text);
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task Forwarded_headers_take_the_place_of_the_missing_address(ApplicationProtocol protocol)
    {
        await using UnixApp app = await UnixApp.StartAsync(protocol, static app =>
        {
            app.UseForwardedHeaders(new ForwardedHeadersOptions { ForwardedHeaders = ForwardedHeaders.All });
            app.MapGet("/", Addresses);
        });
        UnixAnswer answer = await app.Get(
            "/", ("X-Forwarded-For", "203.0.113.7:4711"), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "shop.example"));
        Assert.Equal("client 203.0.113.7:4711, server none:0, https://shop.example", answer.Text);
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task Host_filtering_lets_through_what_is_allowed(ApplicationProtocol protocol)
    {
        await using UnixApp app = await UnixApp.StartAsync(
            protocol,
            static app =>
            {
                app.UseHostFiltering();
                app.MapGet("/", static () => "welcome");
            },
            static builder => builder.Services.AddHostFiltering(static options => options.AllowedHosts = ["example.com"]));
        Assert.Equal("welcome", (await app.Get("/")).Text);
        Assert.Equal(400, (await app.Get("/", ("Host", "other.example"))).Status);
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task HTTP_logging_logs_request_and_response_with_their_bodies(ApplicationProtocol protocol)
    {
        var log = new LogLines();
        await using (UnixApp app = await UnixApp.StartAsync(
            protocol,
            static app =>
            {
                app.UseHttpLogging();
                app.MapPost("/mill", static async (HttpContext context) =>
                {
                    using var reader = new StreamReader(context.Request.Body);
                    return "flour of " + await reader.ReadToEndAsync();
                });
            },
            builder =>
            {
                builder.Logging.AddProvider(log);
                builder.Services.AddHttpLogging(static options => options.LoggingFields = HttpLoggingFields.All);
            }))
        {
            Assert.Equal("flour of grain", (await app.Post("/mill", "grain"u8.ToArray(), ("Content-Type", "text/plain"))).Text);
        }

        string lines = string.Join('\n', log.Lines);
        Assert.Contains("Path: /mill", lines, StringComparison.Ordinal);
        Assert.Contains("RequestBody: grain", lines, StringComparison.Ordinal);
        Assert.Contains("ResponseBody: flour of grain", lines, StringComparison.Ordinal);
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task A_rate_limit_by_address_counts_those_without_one_together(ApplicationProtocol protocol)
    {
        await using UnixApp app = await UnixApp.StartAsync(
            protocol,
            static app =>
            {
                app.UseRateLimiter();
                app.MapGet("/", static () => "served");
            },
            static builder => builder.Services.AddRateLimiter(static options =>
            {
                options.RejectionStatusCode = StatusCodes.Status429TooManyRequests;
                options.GlobalLimiter = PartitionedRateLimiter.Create<HttpContext, string>(static context => RateLimitPartition.GetFixedWindowLimiter(
                    context.Connection.RemoteIpAddress?.ToString() ?? "none",
                    static _ => new FixedWindowRateLimiterOptions { PermitLimit = 2, Window = TimeSpan.FromHours(1) }));
            }));
        Assert.Equal((200, 200, 429), ((await app.Get("/")).Status, (await app.Get("/")).Status, (await app.Get("/")).Status));
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task A_cookie_signs_in(ApplicationProtocol protocol)
    {
        await using UnixApp app = await UnixApp.StartAsync(
            protocol,
            static app =>
            {
                app.UseAuthentication();
                app.UseAuthorization();
                app.MapGet("/in", static (HttpContext context) => context.SignInAsync(
                    new ClaimsPrincipal(new ClaimsIdentity([new Claim(ClaimTypes.Name, "miller")], CookieAuthenticationDefaults.AuthenticationScheme))));
                app.MapGet("/who", static (HttpContext context) => context.User.Identity!.Name).RequireAuthorization();
            },
            static builder =>
            {
                builder.Services.AddAuthentication(CookieAuthenticationDefaults.AuthenticationScheme).AddCookie();
                builder.Services.AddAuthorization();
            });
        UnixAnswer stranger = await app.Get("/who");
        Assert.Equal((302, "http://example.com/Account/Login?ReturnUrl=%2Fwho"), (stranger.Status, stranger.Field("Location")));
        string cookie = (await app.Get("/in")).Field("Set-Cookie")!.Split(';')[0];
        Assert.Equal("miller", (await app.Get("/who", ("Cookie", cookie))).Text);
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task W3C_logging_writes_a_line_with_a_dash_for_each_address(ApplicationProtocol protocol)
    {
        using var folder = new SocketFolder();
        string logs = Directory.CreateDirectory(folder.PathOf("logs")).FullName;
        await using UnixApp app = await UnixApp.StartAsync(
            protocol,
            static app =>
            {
                app.UseW3CLogging();
                app.MapGet("/mill", static () => "flour");
            },
            builder => builder.Services.AddW3CLogging(options =>
            {
                options.LoggingFields = W3CLoggingFields.All;
                options.LogDirectory = logs;
                options.FlushInterval = TimeSpan.FromMilliseconds(10);
            }));
        Assert.Equal("flour", (await app.Get("/mill?fine", ("User-Agent", "tests"))).Text);
        string[] log = await ReadLogOnceItHas("/mill", logs);
        string[] names = log.Single(static line => line.StartsWith("#Fields: ", StringComparison.Ordinal)).Split(' ')[1..];
        string[] values = Assert.Single(log, static line => line.Contains("/mill", StringComparison.Ordinal)).Split(' ');
        Dictionary<string, string> entry = names.Zip(values).ToDictionary();
        Assert.Equal(("-", "-"), (entry["c-ip"], entry["s-ip"]));
        Assert.Equal(("GET", "/mill", "?fine", "200", "example.com"), (entry["cs-method"], entry["cs-uri-stem"], entry["cs-uri-query"], entry["sc-status"], entry["cs-host"]));
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task A_compressed_request_is_read_as_its_content(ApplicationProtocol protocol)
    {
        await using UnixApp app = await UnixApp.StartAsync(
            protocol,
            static app =>
            {
                app.UseRequestDecompression();
                app.MapPost("/", static async (HttpContext context) =>
                {
                    using var reader = new StreamReader(context.Request.Body);
                    return (await reader.ReadToEndAsync()).Length;
                });
            },
            static builder => builder.Services.AddRequestDecompression());
        using var packed = new MemoryStream();
        await using (var gzip = new GZipStream(packed, CompressionLevel.Fastest, leaveOpen: true))
        {
            await gzip.WriteAsync(Encoding.ASCII.GetBytes(new string('x', 500_000)));
        }

        Assert.Equal("500000", (await app.Post("/", packed.ToArray(), ("Content-Encoding", "gzip"))).Text);
    }

    [Theory]
    [MemberData(nameof(Protocols))]
    public async Task Output_caching_answers_the_second_request(ApplicationProtocol protocol)
    {
        int runs = 0;
        await using UnixApp app = await UnixApp.StartAsync(
            protocol,
            app =>
            {
                app.UseOutputCache();
                app.MapGet("/", () => $"run {Interlocked.Increment(ref runs)}").CacheOutput();
            },
            static builder => builder.Services.AddOutputCache());
        Assert.Equal(("run 1", "run 1"), ((await app.Get("/")).Text, (await app.Get("/")).Text));
    }

    // The log is written in the background.
    private static async Task<string[]> ReadLogOnceItHas(string text, string folder)
    {
        for (long started = Stopwatch.GetTimestamp(); Stopwatch.GetElapsedTime(started) < TimeSpan.FromSeconds(20); await Task.Delay(10))
        {
            foreach (string path in Directory.GetFiles(folder))
            {
                using var reader = new StreamReader(new FileStream(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite));
                string lines = await reader.ReadToEndAsync();
                int found = lines.IndexOf(text, StringComparison.Ordinal);
                if (found >= 0 && lines.IndexOf('\n', found) >= 0)
                {
                    return lines.Split('\n', StringSplitOptions.TrimEntries);
                }
            }
        }

        throw new TimeoutException($"The log has no line with {text} after 20 seconds.");
    }

    private static string Addresses(HttpContext context)
    {
        ConnectionInfo connection = context.Connection;
        return $"client {connection.RemoteIpAddress?.ToString() ?? "none"}:{connection.RemotePort}, "
            + $"server {connection.LocalIpAddress?.ToString() ?? "none"}:{connection.LocalPort}, {context.Request.Scheme}://{context.Request.Host}";
    }

    private sealed class LogLines : ILoggerProvider, ILogger
    {
        public ConcurrentQueue<string> Lines { get; } = new();

        public ILogger CreateLogger(string categoryName) => this;

        public IDisposable? BeginScope<TState>(TState state) where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => logLevel >= LogLevel.Information;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
            Lines.Enqueue(formatter(state, exception));

        public void Dispose()
        {
        }
    }
}
