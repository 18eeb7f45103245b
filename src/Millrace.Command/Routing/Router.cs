// The handler of a router: finds the application of a request, and passes it on over FastCGI. What goes wrong is said in the log, and to visitors no more than that.

using System.Net.Sockets;
using Microsoft.AspNetCore.Http;
using Millrace.AspNetCore;
using Millrace.Connector;

namespace Millrace.Command.Routing;

internal sealed class Router : IDisposable
{
    /// <summary>What is asked for this host the router answers itself: that it is well.</summary>
    public const string HealthHost = "health.router.invalid";

    private const int RetryAfterSeconds = 5;

    private readonly RouteTable _table;
    private readonly Dictionary<string, Upstream> _upstreams;
    private readonly CalmLog _log;

    /// <param name="routes">Where to.</param>
    /// <param name="folder">Where their sockets lie.</param>
    /// <param name="log">Takes sentences.</param>
    /// <param name="keys">By which the applications know it; null where they do not.</param>
    public Router(IReadOnlyList<Route> routes, string folder, Action<string> log, RouteKey? keys = null)
    {
        _table = new RouteTable(routes);
        _log = new CalmLog(log);
        _upstreams = routes.DistinctBy(static route => route.App).ToDictionary(static route => route.App, route =>
            new Upstream(keys?.Of(route.App), new ConnectionPool(new UnixDomainSocketEndPoint(Path.Combine(folder, route.Socket)), ConnectionLimits.Default), route.UpgradeSocket is { } socket ? new UpgradedRequest(new UnixDomainSocketEndPoint(Path.Combine(folder, socket)), ConnectionLimits.Default) : null, line => _log.Say(route.App + " says", $"{route.App}: {line.TrimEnd()}")), StringComparer.Ordinal);
    }

    public async Task AnswerAsync(HttpContext context)
    {
        if (context.Request.Host.Value == HealthHost)
        {
            return;
        }
        string path = context.Request.Path.Value is { Length: > 0 } its ? its : "/";
        if (_table.Find(context.Request.Host.Host, path) is not { } route)
        {
            _log.Say("no application", $"No application is at {context.Request.Host.Value ?? "(no host)"}{path}.");
            await AnswerAsync(context, StatusCodes.Status404NotFound, "Not found");
            return;
        }
        Upstream upstream = _upstreams[route.App];
        try
        {
            await (upstream.Upgrades is { } upgrades && UpgradedRequest.IsAsked(context)
                ? upgrades.SendAsync(context, route.Path, upstream.Key)
                : ForwardedRequest.SendAsync(context, upstream.Pool, route.Path, upstream.Key, context.Features.Get<IFastCgiFeature>()?.Parameters, upstream.Said));
        }
        catch (OperationCanceledException) when (context.RequestAborted.IsCancellationRequested)
        {
            context.Abort();        // nobody is left to answer
        }
        catch (ConnectorException error)
        {
            _log.Say(route.App, $"{route.App}: {error.Message}");
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
            await (error.Fault == ConnectorFault.Busy
                ? AnswerAsync(context, StatusCodes.Status503ServiceUnavailable, "Not available at the moment")
                : AnswerAsync(context, StatusCodes.Status502BadGateway, "Bad gateway"));
        }
    }

    public void Dispose()
    {
        foreach (Upstream upstream in _upstreams.Values)
        {
            upstream.Pool.Dispose();
            upstream.Upgrades?.Dispose();
        }
    }

    private static Task AnswerAsync(HttpContext context, int status, string text)
    {
        context.Response.StatusCode = status;
        context.Response.ContentType = "text/plain; charset=utf-8";
        if (status == StatusCodes.Status503ServiceUnavailable)
        {
            context.Response.Headers.RetryAfter = RetryAfterSeconds.ToString(System.Globalization.CultureInfo.InvariantCulture);
        }
        return context.Response.WriteAsync(text + "\n");
    }

    private sealed record Upstream(string? Key, ConnectionPool Pool, UpgradedRequest? Upgrades, Action<string> Said);
}
