// An application that believes forwarded headers of whoever connects believes each client over FastCGI: it is told.

using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.HttpOverrides;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

public sealed class ForwardedTrustTests
{
    private const string Http = "http://127.0.0.1:0";

    [Theory]
    [InlineData("anybody", null, true)]
    [InlineData("anybody, said as for .NET 9", null, true)]
    [InlineData("every address", null, true)]
    [InlineData("every address beside a proxy", null, true)]
    [InlineData("one proxy", null, false)]
    [InlineData("this machine", null, false)]
    [InlineData("nothing", null, false)]
    [InlineData("anybody", Http, false)]
    public async Task Who_believes_anybody_is_warned_where_that_is_each_client(string believes, string? address, bool isWarned)
    {
        using var log = new CollectedLog();
        await using HostedApp app = await HostedApp.StartAsync(
            static app => app.UseForwardedHeaders(),
            builder =>
            {
                builder.Logging.AddProvider(log);
                builder.Services.Configure<ForwardedHeadersOptions>(options => Believe(options, believes));
            },
            address: address);
        Assert.Equal(isWarned ? 1 : 0, log.Lines.Count(static line => line.StartsWith("Millrace: The application believes X-Forwarded-For", StringComparison.Ordinal)));
    }

    // What the warning says: over the wire.
    [Theory]
    [InlineData("anybody", "https 6.6.6.6")]
    [InlineData("one proxy", "http 192.0.2.7")]
    [InlineData("this machine", "http 192.0.2.7")]
    public async Task A_client_is_believed_over_FastCGI_by_who_believes_anybody_and_by_no_other(string believes, string expected)
    {
        await using HostedApp app = await HostedApp.StartAsync(
            static app =>
            {
                app.UseForwardedHeaders();
                app.MapGet("/", static (HttpContext context) => $"{context.Request.Scheme} {context.Connection.RemoteIpAddress}");
            },
            builder => builder.Services.Configure<ForwardedHeadersOptions>(options => Believe(options, believes)));
        FastCgiRequest request = new FastCgiRequest("/") { SaysAddresses = false }.With("REMOTE_ADDR", "192.0.2.7")
            .WithHeader("X-Forwarded-For", "6.6.6.6").WithHeader("X-Forwarded-Proto", "https");
        Assert.Equal(expected, app.Exchange(request).Text);
    }

    [Fact]
    public async Task Options_that_fail_to_be_made_are_the_middlewares_business()
    {
        await using HostedApp app = await HostedApp.StartAsync(
            static app => app.MapGet("/", static () => "served"),
            static builder => builder.Services.Configure<ForwardedHeadersOptions>(static _ => throw new InvalidOperationException("not now")));
        Assert.Equal("served", app.Get("/").Text);
    }

    private static void Believe(ForwardedHeadersOptions options, string whom)
    {
        options.ForwardedHeaders = whom == "nothing" ? ForwardedHeaders.None : ForwardedHeaders.XForwardedFor | ForwardedHeaders.XForwardedProto;
        if (whom == "this machine")
        {
            return;
        }

        options.KnownProxies.Clear();
        if (whom.EndsWith(".NET 9", StringComparison.Ordinal))
        {
#pragma warning disable ASPDEPR005 // what applications clear that were written before
            options.KnownNetworks.Clear();
#pragma warning restore ASPDEPR005
            return;
        }

        options.KnownIPNetworks.Clear();
        if (whom.StartsWith("every address", StringComparison.Ordinal))
        {
            options.KnownIPNetworks.Add(System.Net.IPNetwork.Parse("0.0.0.0/0"));
        }

        if (whom.EndsWith("proxy", StringComparison.Ordinal))
        {
            options.KnownProxies.Add(System.Net.IPAddress.Parse("10.0.0.5"));
        }
    }
}
