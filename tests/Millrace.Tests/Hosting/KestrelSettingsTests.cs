// What an application says to Kestrel counts for the server that takes its place, and what cannot count is said once.

using System.Net;
using System.Reflection;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using Millrace.AspNetCore;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class KestrelSettingsTests
{
    private const string AnyPort = "http://127.0.0.1:0";

    private static MillraceOptions Translate(Action<KestrelServerOptions> say, Action<MillraceOptions>? set = null) => Translate(say, set, out _);

    private static MillraceOptions Translate(Action<KestrelServerOptions> say, Action<MillraceOptions>? set, out KestrelSettings settings)
    {
        var kestrel = new KestrelServerOptions();
        say(kestrel);
        settings = new KestrelSettings(Options.Create(kestrel));
        var options = new MillraceOptions();
        set?.Invoke(options);
        settings.Apply(options);
        return options.Validate();
    }

    private static Dictionary<string, object?> Values(MillraceOptions options) => typeof(MillraceOptions)
        .GetProperties(BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic).ToDictionary(static p => p.Name, p => p.GetValue(options));

    // ---- over the wire ----

    [Theory]
    [InlineData("fastcgi")]
    [InlineData("http")]
    public async Task Limits_and_flags_set_with_ConfigureKestrel_hold(string protocol)
    {
        await using UnixApp app = await UnixApp.StartAsync(
            protocol == "http" ? ApplicationProtocol.Http : ApplicationProtocol.FastCgi,
            static app => app.MapPost("/", static async (HttpContext context) =>
            {
                await context.Request.Body.CopyToAsync(Stream.Null);
                context.Response.Body.Write("written synchronously"u8);
            }),
            static builder => builder.WebHost.ConfigureKestrel(static kestrel =>
            {
                kestrel.AllowSynchronousIO = true;
                kestrel.AddServerHeader = false;
                kestrel.Limits.MaxRequestBodySize = 10;
            }));
        UnixAnswer answer = await app.Post("/", new byte[10]);
        Assert.Equal((200, "written synchronously", null), (answer.Status, answer.Text, answer.Field("Server")));
        Assert.Equal(413, (await app.Post("/", new byte[11])).Status);
    }

    [Fact]
    public async Task A_larger_header_section_than_Millrace_takes_by_itself_is_taken_over_HTTP()
    {
        await using HostedApp app = await HostedApp.StartAsync(
            static app => app.MapGet("/", static (HttpContext context) => context.Request.Headers["X-Long"].ToString().Length),
            static builder => builder.WebHost.ConfigureKestrel(static kestrel => kestrel.Limits.MaxRequestHeadersTotalSize = 100_000), address: AnyPort);
        using var client = new HttpClient();
        client.DefaultRequestHeaders.Add("X-Long", new string('x', 90_000));
        Assert.Equal("90000", await client.GetStringAsync(new Uri(app.Address)));
    }

    [Fact]
    public async Task What_cannot_count_is_named_in_one_warning_and_nothing_else_is()
    {
        using var log = new CollectedLog();
        await using HostedApp app = await HostedApp.StartAsync(static _ => { }, builder =>
        {
            builder.Logging.AddProvider(log);
            builder.WebHost.ConfigureKestrel(static kestrel =>
            {
                kestrel.AllowSynchronousIO = true;
                kestrel.DisableStringReuse = true;
                kestrel.Limits.Http2.MaxStreamsPerConnection = 7;
                kestrel.Limits.KeepAliveTimeout = TimeSpan.FromDays(2);
            });
        });
        Assert.Equal(
            "Millrace: Set for Kestrel, and without effect here: Limits.KeepAliveTimeout (1.00:00:00 comes nearest), DisableStringReuse, Limits.Http2.",
            Assert.Single(log.Lines, static line => line.Contains("Kestrel", StringComparison.Ordinal)));
    }

    [Fact]
    public async Task An_application_that_says_nothing_to_Kestrel_is_told_nothing()
    {
        using var log = new CollectedLog();
        await using HostedApp app = await HostedApp.StartAsync(static _ => { }, builder => builder.Logging.AddProvider(log));
        Assert.DoesNotContain(log.Lines, static line => line.StartsWith("Millrace: ", StringComparison.Ordinal));
    }

    [Fact]
    public async Task Settings_that_fail_to_be_made_are_left_alone_and_said()
    {
        using var log = new CollectedLog();
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", static () => "served"), builder =>
        {
            builder.Logging.AddProvider(log);
            builder.WebHost.ConfigureKestrel(static _ => throw new FileNotFoundException("no certificate"));
        });
        Assert.Equal("served", app.Get("/").Text);
        Assert.Single(log.Lines, static line => line.StartsWith("Millrace: What the application sets for Kestrel could not be read", StringComparison.Ordinal));
    }

    // ---- setting by setting ----

    [Fact]
    public void Defaults_of_Kestrel_change_no_option()
    {
        Assert.Equal(Values(new MillraceOptions()), Values(Translate(static _ => { }, null, out KestrelSettings settings)));
        Assert.Empty(settings.WithoutEffect);
    }

    public static TheoryData<string> Counterparts => [.. s_counterparts.Keys];

    private static readonly Dictionary<string, (Action<KestrelServerOptions> Say, Func<MillraceOptions, object?> Option, object? Value)> s_counterparts = new()
    {
        ["AllowSynchronousIO"] = (static k => k.AllowSynchronousIO = true, static o => o.AllowSynchronousIO, true),
        ["AddServerHeader"] = (static k => k.AddServerHeader = false, static o => o.AddServerHeader, false),
        ["MaxRequestBodySize"] = (static k => k.Limits.MaxRequestBodySize = 60_000_000, static o => o.MaxRequestBodySize, 60_000_000L),
        ["MaxRequestBodySize, none"] = (static k => k.Limits.MaxRequestBodySize = null, static o => o.MaxRequestBodySize, null),
        ["MaxRequestLineSize"] = (static k => k.Limits.MaxRequestLineSize = 20_000, static o => o.MaxRequestLineBytes, 20_000),
        ["MaxRequestHeadersTotalSize"] = (static k => k.Limits.MaxRequestHeadersTotalSize = 1_000, static o => o.HttpHeaderBytesMax, 1_000),
        ["MaxRequestHeadersTotalSize, FastCGI"] = (static k => k.Limits.MaxRequestHeadersTotalSize = 1_000, static o => o.MaxHeadBytes, 33_768),
        ["MaxRequestHeaderCount"] = (static k => k.Limits.MaxRequestHeaderCount = 1_500, static o => o.MaxHeaders, 1_500),
        ["KeepAliveTimeout"] = (static k => k.Limits.KeepAliveTimeout = TimeSpan.FromSeconds(7), static o => o.IdleTimeout, TimeSpan.FromSeconds(7)),
        ["KeepAliveTimeout, infinite"] = (static k => k.Limits.KeepAliveTimeout = Timeout.InfiniteTimeSpan, static o => o.IdleTimeout, TimeSpan.FromDays(1)),
        ["RequestHeadersTimeout"] = (static k => k.Limits.RequestHeadersTimeout = TimeSpan.FromSeconds(7), static o => o.HeadTimeout, TimeSpan.FromSeconds(7)),
        ["MinRequestBodyDataRate"] = (static k => k.Limits.MinRequestBodyDataRate = new(99.5, TimeSpan.FromSeconds(7)), static o => (o.MinBodyBytesPerSecond, o.MinBodyRateGrace), (100, TimeSpan.FromSeconds(7))),
        ["MinRequestBodyDataRate, none"] = (static k => k.Limits.MinRequestBodyDataRate = null, static o => o.MinBodyBytesPerSecond, 0),
        ["MinResponseDataRate"] = (static k => k.Limits.MinResponseDataRate = new(99.5, TimeSpan.FromSeconds(7)), static o => (o.MinResponseBytesPerSecond, o.MinResponseRateGrace), (100, TimeSpan.FromSeconds(7))),
        ["MinResponseDataRate, none"] = (static k => k.Limits.MinResponseDataRate = null, static o => o.MinResponseBytesPerSecond, 0),
        ["MaxConcurrentConnections"] = (static k => k.Limits.MaxConcurrentConnections = 3, static o => o.MaxConnections, 3),
        ["MaxConcurrentUpgradedConnections"] = (static k => k.Limits.MaxConcurrentUpgradedConnections = 0, static o => o.MaxUpgradedConnections, 0),
        ["MaxRequestBufferSize"] = (static k => k.Limits.MaxRequestBufferSize = 20_000, static o => o.RequestBodyBuffer, 20_000),
        ["MaxRequestBufferSize, none"] = (static k => k.Limits.MaxRequestBufferSize = null, static o => o.RequestBodyBuffer, 64 * 1024 * 1024),
    };

    [Theory]
    [MemberData(nameof(Counterparts))]
    public void A_setting_with_a_counterpart_is_followed(string setting)
    {
        (Action<KestrelServerOptions> say, Func<MillraceOptions, object?> option, object? value) = s_counterparts[setting];
        Assert.NotEqual(value, option(new MillraceOptions()));
        Assert.Equal(value, option(Translate(say)));
    }

    public static TheoryData<string> Settings =>
    [
        .. Changeable(typeof(KestrelServerOptions)).Select(static p => p.Name), .. Changeable(typeof(KestrelServerLimits)).Select(static p => "Limits." + p.Name),
        .. Changeable(typeof(Http2Limits)).Select(static p => "Limits.Http2." + p.Name), .. Changeable(typeof(Http3Limits)).Select(static p => "Limits.Http3." + p.Name),
    ];

    // What is said there concerns no connection of HTTP/1.1, or is not a setting.
    private static readonly string[] s_notSettings = ["ApplicationServices", "ConfigurationLoader", "AllowResponseHeaderCompression", "EnableAltSvc"];

    private static IEnumerable<PropertyInfo> Changeable(Type type) => type.GetProperties().Where(static p => p.SetMethod is { IsPublic: true } && !s_notSettings.Contains(p.Name));

    [Theory]
    [MemberData(nameof(Settings))]
    public void Every_setting_of_Kestrel_is_followed_or_named(string setting)
    {
        var before = Values(new MillraceOptions());
        MillraceOptions options = Translate(kestrel => Change(kestrel, setting), null, out KestrelSettings settings);
        bool isFollowed = !Values(options).All(option => Equals(before[option.Key], option.Value));
        bool isNamed = settings.WithoutEffect.Any(name => setting.StartsWith(name.Split(' ')[0], StringComparison.Ordinal));
        Assert.True(isFollowed != isNamed, $"{setting} is {(isFollowed ? "followed and named" : "neither followed nor named")}");
    }

    private static void Change(object target, string path)
    {
        foreach (string step in path.Split('.')[..^1])
        {
            target = target.GetType().GetProperty(step)!.GetValue(target)!;
        }

        PropertyInfo property = target.GetType().GetProperty(path.Split('.')[^1])!;
        property.SetValue(target, property.GetValue(target) switch
        {
            bool flag => !flag,
            int number => number + 1,
            long number => number + 1,
            TimeSpan => TimeSpan.FromSeconds(77),
            MinDataRate => new MinDataRate(77, TimeSpan.FromSeconds(7)),
            Delegate => (Func<string, Encoding?>)(static _ => Encoding.Latin1),
            null => 77L,
            var other => throw new NotSupportedException(other.GetType().Name),
        });
    }

    [Fact]
    public void An_option_that_is_set_for_Millrace_itself_wins_be_it_the_default()
    {
        MillraceOptions options = Translate(
            static kestrel =>
            {
                kestrel.AllowSynchronousIO = true;
                kestrel.AddServerHeader = false;
                kestrel.Limits.MaxRequestBodySize = 60_000_000;
                kestrel.Limits.KeepAliveTimeout = TimeSpan.FromSeconds(7);
            },
            static options =>
            {
                options.AllowSynchronousIO = false;
                options.AddServerHeader = true;
                options.MaxRequestBodySize = 30_000_000;
            });
        Assert.Equal((false, true, 30_000_000, TimeSpan.FromSeconds(7)), (options.AllowSynchronousIO, options.AddServerHeader, options.MaxRequestBodySize, options.IdleTimeout));
    }

    [Fact]
    public async Task A_key_of_the_section_Millrace_wins_over_ConfigureKestrel_be_it_the_default()
    {
        await using HostedApp app = await HostedApp.StartAsync(static _ => { }, static builder =>
        {
            builder.Configuration["Millrace:AllowSynchronousIO"] = "false";
            builder.WebHost.ConfigureKestrel(static kestrel =>
            {
                kestrel.AllowSynchronousIO = true;
                kestrel.AddServerHeader = false;
            });
        });
        MillraceOptions options = app.App.Services.GetRequiredService<IOptions<MillraceOptions>>().Value;
        Assert.Equal((false, false), (options.AllowSynchronousIO, options.AddServerHeader));
    }

    // ---- endpoints ----

    private static IConfigurationBuilder Endpoint(WebApplicationBuilder builder, string name, string url, string? protocols = null) =>
        builder.Configuration.AddInMemoryCollection([new($"Kestrel:Endpoints:{name}:Url", url), new($"Kestrel:Endpoints:{name}:Protocols", protocols)]);

    [Fact]
    public async Task Endpoints_of_the_section_Kestrel_override_http_addresses_as_on_Kestrel()
    {
        using var log = new CollectedLog();
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", static () => "here"), builder =>
        {
            builder.Logging.AddProvider(log);
            Endpoint(builder, "First", AnyPort);
            Endpoint(builder, "Second", "http://localhost:0");
        }, address: "http://127.0.0.1:1");
        Assert.Equal(2, app.App.Urls.Count);
        using var client = new HttpClient();
        Assert.Equal("here", await client.GetStringAsync(new Uri(app.Address)));
        Assert.Single(log.Lines, static line => line.Contains("which override the addresses http://127.0.0.1:1", StringComparison.Ordinal));
    }

    [Fact]
    public async Task Endpoints_in_code_are_opened()
    {
        using var folder = new SocketFolder();
        string path = folder.PathOf("code.sock");
        await using HostedApp app = await HostedApp.StartAsync(
            static app => app.MapGet("/", static () => "here"),
            builder => builder.WebHost.ConfigureKestrel(kestrel =>
            {
                kestrel.Listen(IPAddress.Loopback, 0);
                kestrel.ListenUnixSocket(path);
            }), address: "http://127.0.0.1:1");
        Assert.StartsWith("http://127.0.0.1:", app.App.Urls.First(), StringComparison.Ordinal);
        Assert.Equal("http://unix:" + path, app.App.Urls.Last().Split('?')[0]);
        Assert.True(File.Exists(path));
    }

    [Fact]
    public async Task A_fastcgi_address_is_meant_for_Millrace_and_wins_over_endpoints()
    {
        await using HostedApp app = await HostedApp.StartAsync(static app => app.MapGet("/", static () => "here"), static builder => Endpoint(builder, "Wide", "http://*:0"));
        Assert.StartsWith("fastcgi://unix:", Assert.Single(app.App.Urls), StringComparison.Ordinal);
        Assert.Equal("here", app.Get("/").Text);
    }

    [Fact]
    public async Task Addresses_that_are_preferred_win_over_endpoints()
    {
        await using HostedApp app = await HostedApp.StartAsync(
            static app => app.Services.GetRequiredService<IServer>().Features.Get<IServerAddressesFeature>()!.PreferHostingUrls = true,
            static builder => Endpoint(builder, "Wide", "http://127.0.0.1:1"), address: AnyPort);
        Assert.NotEqual("http://127.0.0.1:1", Assert.Single(app.App.Urls));
    }

    [Fact]
    public async Task Endpoints_with_TLS_or_HTTP2_alone_are_named_and_not_opened()
    {
        using var log = new CollectedLog();
        await using HostedApp app = await HostedApp.StartAsync(static _ => { }, builder =>
        {
            builder.Logging.AddProvider(log);
            Endpoint(builder, "Secure", "https://localhost:5001");
            Endpoint(builder, "Grpc", "http://localhost:5002", "Http2");
            Endpoint(builder, "Bare", "");
            Endpoint(builder, "Plain", AnyPort, "Http1AndHttp2");
        }, address: AnyPort);
        Assert.StartsWith("http://127.0.0.1:", Assert.Single(app.App.Urls), StringComparison.Ordinal);
        string warning = Assert.Single(log.Lines, static line => line.Contains("without effect", StringComparison.Ordinal));
        Assert.Contains("Kestrel:Endpoints:Secure https://localhost:5001 (TLS is the web server's)", warning, StringComparison.Ordinal);
        Assert.Contains("Kestrel:Endpoints:Grpc http://localhost:5002 (Http2 is not spoken)", warning, StringComparison.Ordinal);
        Assert.Contains("Kestrel:Endpoints:Bare (it has no Url)", warning, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("http://[::]:0", "http://*:0")]
    [InlineData("http://*:0", "http://*:0")]
    [InlineData("http://[::1]:0", "http://[::1]:0")]
    public async Task Every_address_of_IPv6_is_every_address_as_on_Kestrel(string url, string address)
    {
        WebApplicationBuilder builder = WebApplication.CreateBuilder();
        Endpoint(builder, "A", url);
        await using WebApplication app = builder.Build();
        var settings = new KestrelSettings(app.Services.GetRequiredService<IOptions<KestrelServerOptions>>());
        settings.Apply(new MillraceOptions());
        Assert.Equal(address, Assert.Single(settings.Endpoints.Http));
    }
}
