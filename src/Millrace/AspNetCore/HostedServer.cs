// Millrace as the server of an ASP.NET Core host. Where it listens, in this order: addresses that are to win
// (PreferHostingUrls) or that only Millrace understands, endpoints that are set for Kestrel, other addresses, sockets that
// were passed (spawn-fcgi, lighttpd, systemd); passed sockets come before endpoints where there is no address at all.

using System.Net.Sockets;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using Millrace.Exchanges;
using Millrace.Handlers;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Platform;

namespace Millrace.AspNetCore;

internal sealed class HostedServer : IServer
{
    private readonly IOptions<MillraceOptions> _options;
    private readonly OptionsSetup _setup;
    private readonly KestrelSettings _kestrel;
    private readonly ForwardedTrust _forwarded;
    private readonly ILogger _logger;
    private readonly IHostApplicationLifetime? _lifetime;
    private readonly RelayMaker? _relays;
    private Engine? _engine;
    private IdleSignals? _signals;

    public HostedServer(IOptions<MillraceOptions> options, OptionsSetup setup, KestrelSettings kestrel, ForwardedTrust forwarded, ILoggerFactory loggers, IHostApplicationLifetime? lifetime = null, RelayMaker? relays = null)
    {
        _relays = relays;
        _options = options;
        _setup = setup;
        _kestrel = kestrel;
        _forwarded = forwarded;
        _lifetime = lifetime;
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

        MillraceOptions options = _options.Value;
        var log = new Log(_logger);
        Report(log);
        IServerAddressesFeature feature = Features.Get<IServerAddressesFeature>()!;
        ICollection<string> addresses = feature.Addresses;
        IReadOnlyList<ListenAddress> listenOn = WhatToListenOn(feature, log);
        SupportedPlatform.Require();
        _signals = options.IgnoreSignals != false ? IdleSignals.Take(log, _lifetime is { } lifetime ? lifetime.StopApplication : null) : null;
        try
        {
            _engine = Start(listenOn, new HostedHandler<TContext>(application, _logger), options, log, _relays);
            addresses.Clear();
            foreach (ListenAddress address in _engine.Addresses)
            {
                addresses.Add(address.UrlAsOnKestrel);
            }

            if (_engine.Addresses.FirstOrDefault(static address => address.Protocol == ListenProtocol.FastCgi) is { } fastCgi && _forwarded.IsInAnybody)
            {
                log.BelievesClients(fastCgi.Url);
            }
        }
        catch
        {
            Dispose();
            throw;
        }

        return Task.CompletedTask;
    }

    // Applications that take another port when theirs is taken know it by what Kestrel throws: an IOException around this.
    private static Engine Start(IReadOnlyList<ListenAddress> addresses, RequestHandler handler, MillraceOptions options, Log log, RelayMaker? relays)
    {
        try
        {
            TypeInitialisers.Run(hosted: true);
            return Engine.Start(addresses, handler, options, log, relays: relays);
        }
        catch (MillraceStartException error) when (error.InnerException is SocketException { SocketErrorCode: SocketError.AddressAlreadyInUse } cause)
        {
            throw new MillraceStartException(error.Message, new AddressInUseException(error.Message, cause));
        }
    }

    // What was asked for in vain.
    private void Report(Log log)
    {
        foreach ((string key, string nearest) in _setup.UnknownKeys())
        {
            log.UnknownOption(key, nearest);
        }

        if (_kestrel.Unreadable is { } error)
        {
            log.KestrelSettingsUnreadable(error);
        }
        else if (_kestrel.WithoutEffect.Count > 0)
        {
            log.KestrelSettingsWithoutEffect(string.Join(", ", _kestrel.WithoutEffect));
        }
    }

    private List<ListenAddress> WhatToListenOn(IServerAddressesFeature feature, Log log)
    {
        List<ListenAddress> asked = [.. feature.Addresses.SelectMany(ListenAddress.ParseList)];
        IReadOnlyList<string> endpoints = _kestrel.Endpoints.Http;
        if (asked.Count > 0 && (endpoints.Count == 0 || feature.PreferHostingUrls || asked.Exists(static address => address.Protocol == ListenProtocol.FastCgi)))
        {
            return asked;
        }

        if (asked.Count == 0 && InheritedListeners.Find() is { Count: > 0 } inherited)
        {
            return [.. inherited];
        }

        if (endpoints.Count > 0)
        {
            if (asked.Count > 0)
            {
                log.EndpointsOverride(string.Join(", ", endpoints), string.Join(", ", feature.Addresses));
            }

            return [.. endpoints.SelectMany(ListenAddress.ParseList)];
        }

        throw new MillraceStartException(
            "No address to listen on. Give one with --urls, ASPNETCORE_URLS or \"Urls\" in appsettings.json, such as fastcgi://unix:/run/app.sock or fastcgi://127.0.0.1:9000.");
    }

    private Engine Running => _engine ?? throw new MillraceStartException("The server has not been started.");

    /// <summary>Listens on further addresses while the server runs.</summary>
    /// <exception cref="FormatException">An address is not understood.</exception>
    /// <exception cref="MillraceStartException">One of them cannot be listened on, or the server does not run.</exception>
    public Task ListenAsync(IEnumerable<string> addresses) =>
        Running.ListenAsync([.. addresses.SelectMany(ListenAddress.ParseList)]);

    /// <inheritdoc cref="Engine.MoveTo"/>
    public Task MoveTo(int channel) => Running.MoveTo(channel);

    /// <inheritdoc cref="Engine.TakeFromAsync"/>
    public Task TakeFromAsync(int channel) => Running.TakeFromAsync(channel);

    public Task StopAsync(CancellationToken cancellationToken) => _engine?.StopAsync(cancellationToken) ?? Task.CompletedTask;

    public void Dispose()
    {
        if (_engine is { } engine)
        {
            engine.StopAsync(new CancellationToken(canceled: true)).GetAwaiter().GetResult();
        }

        _signals?.Dispose();
    }

    private sealed class Addresses : IServerAddressesFeature
    {
        ICollection<string> IServerAddressesFeature.Addresses { get; } = [];

        public bool PreferHostingUrls { get; set; }
    }
}
