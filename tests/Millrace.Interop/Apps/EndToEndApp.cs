// The ASP.NET Core application under test, in the process of the tests: an ordinary minimal API that knows nothing of the
// server it runs on except in ServerUnderTest.Use. Its endpoints are in Endpoints.cs and the files beside it.
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.HttpOverrides;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Apps;

public sealed class EndToEndApp : IAsyncDisposable
{
    private static readonly TimeSpan DrainTimeMax = TimeSpan.FromSeconds(10);

    private readonly WebApplication _web;
    private readonly TemporaryDirectory _directory = new("app");

    private EndToEndApp(string address)
    {
        Files = new SampleFiles(_directory.Path);
        WebApplicationBuilder builder = WebApplication.CreateSlimBuilder(new WebApplicationOptions
        {
            ContentRootPath = _directory.Path,
            EnvironmentName = Environments.Production,
        });
        builder.Logging.ClearProviders().AddProvider(Log);
        builder.Services.Configure<HostOptions>(static options => options.ShutdownTimeout = DrainTimeMax);
        builder.WebHost.UseUrls(address);
        ServerUnderTest.Use(builder.WebHost, address);
        _web = builder.Build();
        _web.UseWebSockets();

        // As the documents write it for an application behind a web server over HTTP.
        _web.UseWhen(
            static context => context.Request.Path.StartsWithSegments("/env/forwarded", StringComparison.Ordinal),
            static branch => branch.UseForwardedHeaders(new ForwardedHeadersOptions { ForwardedHeaders = ForwardedHeaders.XForwardedFor | ForwardedHeaders.XForwardedProto }));
        Endpoints.Map(_web, this);
    }

    /// <summary>The address it is reached at, with the real port.</summary>
    public string Address => _web.Urls.Single();

    public Signals Signals { get; } = new();

    public SampleFiles Files { get; }

    public CapturedLog Log { get; } = new();

    /// <summary>Starts the application on an address such as <c>fastcgi://127.0.0.1:0</c>.</summary>
    public static async Task<EndToEndApp> StartAsync(string address)
    {
        var app = new EndToEndApp(address);
        try
        {
            await app._web.StartAsync();
            return app;
        }
        catch
        {
            await app.DisposeAsync();
            throw;
        }
    }

    /// <summary>Drains: takes no new request, finishes those that run.</summary>
    public Task StopAsync() => _web.StopAsync();

    public async ValueTask DisposeAsync()
    {
        await _web.DisposeAsync();
        _directory.Dispose();
    }
}
