// The ASP.NET Core application under test, in the process of the tests: an ordinary minimal API that knows nothing of the
// server it runs on except in ServerUnderTest.Use. Its endpoints are in Endpoints.cs and the files beside it.
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Millrace.Interop.FrontEnds;

namespace Millrace.Interop.Apps;

public sealed class EndToEndApp : IAsyncDisposable
{
    private static readonly TimeSpan DrainTimeMax = TimeSpan.FromSeconds(10);

    private readonly WebApplication _web;
    private readonly TemporaryDirectory _directory;

    private EndToEndApp(WebApplication web, TemporaryDirectory directory, CapturedLog log)
    {
        _web = web;
        _directory = directory;
        Log = log;
        Files = new SampleFiles(directory.Path);
    }

    /// <summary>The address it is reached at, with the real port.</summary>
    public string Address => _web.Urls.Single();

    public Signals Signals { get; } = new();

    public SampleFiles Files { get; }

    public CapturedLog Log { get; }

    /// <summary>Starts the application on an address such as <c>fastcgi://127.0.0.1:0</c>.</summary>
    public static async Task<EndToEndApp> StartAsync(string address)
    {
        var directory = new TemporaryDirectory("app");
        var log = new CapturedLog();
        WebApplicationBuilder builder = WebApplication.CreateSlimBuilder(new WebApplicationOptions
        {
            ContentRootPath = directory.Path,
            EnvironmentName = Environments.Production,
        });
        builder.Logging.ClearProviders().AddProvider(log);
        builder.Services.Configure<HostOptions>(static options => options.ShutdownTimeout = DrainTimeMax);
        builder.WebHost.UseUrls(address);
        ServerUnderTest.Use(builder.WebHost);

        var app = new EndToEndApp(builder.Build(), directory, log);
        app._web.UseWebSockets();
        Endpoints.Map(app._web, app);
        try
        {
            await app._web.StartAsync();
        }
        catch
        {
            await app.DisposeAsync();
            throw;
        }

        return app;
    }

    /// <summary>Drains: takes no new request, finishes those that run.</summary>
    public Task StopAsync() => _web.StopAsync();

    public async ValueTask DisposeAsync()
    {
        await _web.DisposeAsync();
        _directory.Dispose();
    }
}
