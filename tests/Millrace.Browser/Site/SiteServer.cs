// The site that browsers and other clients visit: an ordinary ASP.NET Core application with pages, static files, a SignalR
// hub and a Blazor Server component, on three addresses at once. What its endpoints do is in Endpoints.cs, its pages are in
// Pages/ and Components/. Not here: clients.

using System.Runtime.CompilerServices;
using Microsoft.AspNetCore.DataProtection;
using Microsoft.Extensions.FileProviders;
using Millrace.Browser.Site.Components;
using Millrace.Interop.FrontEnds;

namespace Millrace.Browser.Site;

public sealed class SiteServer : IAsyncLifetime
{
    private static readonly Combination s_nginx = new(AppProtocol.FastCgi, Transport.Unix, UpstreamConnections.KeptAlive);

    private readonly TemporaryDirectory _sockets = new("site");
    private WebApplication _web = null!;
    private FrontEndServer _nginx = null!;

    /// <summary>The folder of the static files, which are at / as the application's assets and at /files as plain files.</summary>
    internal static string WebRoot { get; } = Path.GetFullPath("../wwwroot", ThisFolder());

    /// <summary>The site, reached without anything in between.</summary>
    public Uri Direct { get; private set; } = null!;

    /// <summary>The site behind a real nginx that speaks FastCGI to it and passes every byte on as it comes.</summary>
    public Uri BehindNginx { get; private set; } = null!;

    /// <summary>The path of the Unix socket on which the site speaks HTTP.</summary>
    public string UnixSocket => Path.Combine(_sockets.Path, "http.sock");

    /// <summary>What handlers have told the tests.</summary>
    public Notes Notes { get; } = new();

    /// <summary>An address of the site for a browser.</summary>
    internal string At(Way way, string target) => new Uri(way == Way.Direct ? Direct : BehindNginx, target).ToString();

    public async ValueTask InitializeAsync()
    {
        _web = Build();
        await _web.StartAsync();
        Direct = new Uri(_web.Urls.Single(static url => url.StartsWith("http://127.0.0.1:", StringComparison.Ordinal)));
        string fastCgi = _web.Urls.Single(static url => url.StartsWith("fastcgi://unix:", StringComparison.Ordinal));
        _nginx = await FrontEndServer.StartAsync(new NginxProgram(), new Upstream(s_nginx, [fastCgi]));
        BehindNginx = new Uri($"http://{_nginx.Streaming}/");
    }

    public async ValueTask DisposeAsync()
    {
        if (_nginx is not null)
        {
            await _nginx.DisposeAsync();
        }

        if (_web is not null)
        {
            await _web.DisposeAsync();
        }

        _sockets.Dispose();
    }

    private static string ThisFolder([CallerFilePath] string path = "") => Path.GetDirectoryName(path)!;

    private WebApplication Build()
    {
        // Development: static files are served from where they lie in the source tree.
        WebApplicationBuilder builder = WebApplication.CreateBuilder(new WebApplicationOptions
        {
            ApplicationName = typeof(SiteServer).Assembly.GetName().Name,
            ContentRootPath = AppContext.BaseDirectory,
            EnvironmentName = Environments.Development,
        });
        builder.WebHost.UseMillrace();
        builder.WebHost.UseUrls("http://127.0.0.1:0", $"http://unix:{UnixSocket}", $"fastcgi://unix:{Path.Combine(_sockets.Path, "fastcgi.sock")}");
        builder.Logging.ClearProviders();
        AddServices(builder.Services);

        WebApplication web = builder.Build();
        web.UseResponseCompression();
        web.UseResponseCaching();
        web.UseSession();
        web.UseWebSockets();
        web.UseAntiforgery();
        web.UseStaticFiles(new StaticFileOptions { RequestPath = "/files", FileProvider = new PhysicalFileProvider(WebRoot) });
        web.MapStaticAssets();
        web.MapRazorPages().WithStaticAssets();
        web.MapHub<ChatHub>("/chat-hub");
        web.MapRazorComponents<App>().AddInteractiveServerRenderMode();
        Endpoints.Map(web, Notes);
        return web;
    }

    private void AddServices(IServiceCollection services)
    {
        services.AddResponseCompression();
        services.AddResponseCaching();
        services.AddDistributedMemoryCache();
        services.AddSession();
        services.AddSignalR();
        services.AddRazorPages(static options => options.RootDirectory = "/Site/Pages");
        services.AddRazorComponents().AddInteractiveServerComponents();
        services.AddDataProtection().PersistKeysToFileSystem(Directory.CreateDirectory(Path.Combine(_sockets.Path, "keys")));
        services.AddSingleton(Notes);
    }
}
