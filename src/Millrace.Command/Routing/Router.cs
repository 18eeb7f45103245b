// A router: finds the application of a request, and passes it on over FastCGI. What can go on from the loop that it came by does so at once (Relays); what is left comes
// to the handler, which can wait. What goes wrong is said in the log, and to visitors no more than that.

using System.Net.Sockets;
using Microsoft.AspNetCore.Http;
using Millrace.AspNetCore;
using Millrace.Connector;
using Millrace.Listeners;

namespace Millrace.Command.Routing;

internal sealed class Router : IDisposable, IRelayRoutes
{
    /// <summary>What the daemon asks for this host the router answers itself: that it is well.</summary>
    public const string HealthHost = "health.router.invalid";

    private readonly RouteTable _table;
    private readonly Dictionary<string, Upstream> _upstreams;
    private readonly Dictionary<Route, RelayRoute> _relayRoutes = new(ReferenceEqualityComparer.Instance);
    private readonly CalmLog _log;
    private readonly DaemonsSocket? _daemon;

    /// <param name="routes">Where to.</param>
    /// <param name="folder">Where their sockets lie.</param>
    /// <param name="log">Takes sentences, and does not wait.</param>
    /// <param name="keys">By which the applications know it; null where they do not.</param>
    /// <param name="daemon">Where the daemon asks; null: nowhere.</param>
    /// <param name="limits">Connections to each application; null: the usual ones.</param>
    public Router(IReadOnlyList<Route> routes, string folder, Action<string> log, RouteKey? keys = null, DaemonsSocket? daemon = null, ConnectionLimits? limits = null)
    {
        limits ??= ConnectionLimits.Default;
        _daemon = daemon;
        _table = new RouteTable(routes);
        _log = new CalmLog(log);
        List<Route> apps = [.. routes.DistinctBy(static route => route.App)];
        _upstreams = apps.ToDictionary(static route => route.App, route => MakeUpstream(route, folder, keys, limits), StringComparer.Ordinal);
        foreach (Route route in routes)
        {
            _relayRoutes.Add(route, new RelayRoute(apps.FindIndex(app => app.App == route.App), route.Path, keys?.Of(route.App)));
        }
        Relays = new FastCgiRelays(this, [.. apps.Select(app => MakeRelay(app, folder, _upstreams[app.App].Pool))], limits);
    }

    private Upstream MakeUpstream(Route route, string folder, RouteKey? keys, ConnectionLimits limits) => new(
        keys?.Of(route.App),
        new ConnectionPool(new UnixDomainSocketEndPoint(Path.Combine(folder, route.Socket)), limits),
        route.UpgradeSocket is { } socket ? new UpgradedRequest(new UnixDomainSocketEndPoint(Path.Combine(folder, socket)), limits) : null,
        line => SaidBy(route.App, line));

    private RelayUpstream MakeRelay(Route route, string folder, ConnectionPool pool)
    {
        string path = Path.Combine(folder, route.Socket);
        return new RelayUpstream(SocketName.Write(path), path, pool, line => SaidBy(route.App, line), sentence => FailedFor(route.App, sentence));
    }

    private void SaidBy(string app, string line) => _log.Say(app + " says", $"{app}: {line.TrimEnd()}");

    private void FailedFor(string app, string sentence) => _log.Say(app, $"{app}: {sentence}");

    /// <summary>For the server whose handler is <see cref="AnswerAsync(HttpContext)"/>.</summary>
    public FastCgiRelays Relays { get; }

    public RelayRoute? Find(ReadOnlySpan<char> host, ReadOnlySpan<char> path) =>
        !host.SequenceEqual(HealthHost) && _table.Find(host, path) is { } route ? _relayRoutes[route] : null;

    public async Task AnswerAsync(HttpContext context)
    {
        string host = context.Request.Headers.Host.ToString();      // as it was sent, and as the file has it: HttpRequest.Host writes xn-- names in another way, or throws
        if (host == HealthHost && _daemon?.Has(context) == true)
        {
            return;
        }
        string path = context.Request.Path.Value is { Length: > 0 } its ? its : "/";
        if (_table.Find(RelayRoute.NameOf(host), path) is not { } route)
        {
            _log.Say("no application", $"No application is at {(host.Length > 0 ? host : "(no host)")}{path}.");
            await AnswerAsync(context, StatusCodes.Status404NotFound, "Not found\n");
            return;
        }
        Upstream upstream = _upstreams[route.App];
        try
        {
            await (upstream.Upgrades is { } upgrades && UpgradedRequest.IsAsked(context)
                ? upgrades.SendAsync(context, route.Path, upstream.Key)
                : ForwardedRequest.SendAsync(context, upstream.Pool, _relayRoutes[route], upstream.Said));
        }
        catch (OperationCanceledException) when (context.RequestAborted.IsCancellationRequested)
        {
            context.Abort();        // nobody is left to answer
        }
        catch (ConnectorException error)
        {
            FailedFor(route.App, error.Message);
            if (context.Response.HasStarted)
            {
                throw;      // what has come arrives, and does not pass for all of it
            }
            if (error.IsMidway)
            {
                context.Abort();
                return;
            }
            context.Response.Clear();
            if (error.Fault == ConnectorFault.Busy)
            {
                context.Response.Headers.RetryAfter = GatewayAnswer.RetryAfter;
            }
            await AnswerAsync(context, GatewayAnswer.StatusOf(error.Fault), GatewayAnswer.TextOf(error.Fault));
        }
    }

    public void Dispose()
    {
        Relays.Dispose();
        foreach (Upstream upstream in _upstreams.Values)
        {
            upstream.Pool.Dispose();
            upstream.Upgrades?.Dispose();
        }
    }

    private static Task AnswerAsync(HttpContext context, int status, string text)
    {
        context.Response.StatusCode = status;
        context.Response.ContentType = GatewayAnswer.ContentType;
        return context.Response.WriteAsync(text);
    }

    private sealed record Upstream(string? Key, ConnectionPool Pool, UpgradedRequest? Upgrades, Action<string> Said);
}
