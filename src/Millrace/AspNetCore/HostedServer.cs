// Millrace as the server of an ASP.NET Core host.

using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using Millrace.Listeners;

namespace Millrace.AspNetCore;

internal sealed class HostedServer : IServer
{
    private readonly MillraceOptions _options;
    private readonly ILogger _logger;
    private Engine? _engine;

    public HostedServer(IOptions<MillraceOptions> options, ILoggerFactory loggers)
    {
        _options = options.Value;
        _logger = loggers.CreateLogger("Millrace");
        Features.Set<IServerAddressesFeature>(new Addresses());
    }

    public IFeatureCollection Features { get; } = new FeatureCollection();

    public Task StartAsync<TContext>(IHttpApplication<TContext> application, CancellationToken cancellationToken)
        where TContext : notnull
    {
        if (_engine is not null)
        {
            throw new InvalidOperationException("The server has already been started.");
        }

        ICollection<string> addresses = Features.Get<IServerAddressesFeature>()!.Addresses;
        _engine = Engine.Start(WhatToListenOn(addresses), new HostedHandler<TContext>(application), _options, _logger);
        addresses.Clear();
        foreach (ListenAddress address in _engine.Addresses)
        {
            addresses.Add(address.Url);
        }

        return Task.CompletedTask;
    }

    // Inherited listeners (spawn-fcgi, lighttpd, systemd) count where no address was given.
    private static List<ListenAddress> WhatToListenOn(ICollection<string> addresses)
    {
        if (addresses.Count > 0)
        {
            return [.. addresses.SelectMany(ListenAddress.ParseList)];
        }

        IReadOnlyList<ListenAddress> inherited = InheritedListeners.Find();
        if (inherited.Count > 0)
        {
            return [.. inherited];
        }

        throw new MillraceStartException(
            "No address to listen on. Give one with --urls, ASPNETCORE_URLS or \"Urls\" in appsettings.json, such as fastcgi://unix:/run/app.sock or fastcgi://127.0.0.1:9000.");
    }

    public Task StopAsync(CancellationToken cancellationToken) => _engine?.StopAsync(cancellationToken) ?? Task.CompletedTask;

    public void Dispose()
    {
        if (_engine is { } engine)
        {
            engine.StopAsync(new CancellationToken(canceled: true)).GetAwaiter().GetResult();
        }
    }

    private sealed class Addresses : IServerAddressesFeature
    {
        ICollection<string> IServerAddressesFeature.Addresses { get; } = [];

        public bool PreferHostingUrls { get; set; }
    }
}
