// A web application on Millrace, on a Unix socket of its own, and a front server's connection to it.

using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.Extensions.Logging;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Hosting;

internal sealed class HostedApp : IAsyncDisposable
{
    private readonly SocketFolder _folder;

    private HostedApp(WebApplication app, SocketFolder folder)
    {
        App = app;
        _folder = folder;
    }

    public WebApplication App { get; }

    public string Address => App.Urls.First();

    public static async Task<HostedApp> StartAsync(
        Action<WebApplication> map, Action<WebApplicationBuilder>? configure = null, Action<MillraceOptions>? options = null, string? address = null)
    {
        var folder = new SocketFolder();
        WebApplicationBuilder builder = WebApplication.CreateBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.UseMillrace(options ?? (static _ => { }));
        configure?.Invoke(builder);
        WebApplication app = builder.Build();
        map(app);
        app.Urls.Add(address ?? folder.NewAddress());
        await app.StartAsync();
        return new HostedApp(app, folder);
    }

    public FastCgiPeer Connect() => FastCgiPeer.Connect(Address);

    /// <summary>One request on a connection of its own.</summary>
    public FastCgiResponse Exchange(FastCgiRequest request)
    {
        using FastCgiPeer peer = Connect();
        return peer.Exchange(request);
    }

    public FastCgiResponse Get(string target) => Exchange(new FastCgiRequest(target));

    public async ValueTask DisposeAsync()
    {
        await App.DisposeAsync();
        _folder.Dispose();
    }
}
