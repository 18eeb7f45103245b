// The features that only a connection of our own can offer: switching protocols, trailers, and what concerns the
// connection rather than a request. Over FastCGI the client's connection is the front server's.

using System.Net;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Exchanges;

namespace Millrace.AspNetCore;

internal partial class HostedFeatures :
    IHttpUpgradeFeature, IHttpRequestTrailersFeature, IConnectionIdFeature, IConnectionEndPointFeature, IConnectionLifetimeFeature,
    IConnectionLifetimeNotificationFeature, IConnectionItemsFeature, IPersistentStateFeature
{
    private bool IsHttpFeature(Type key) => !Head.IsFastCgi
        && (key == typeof(IHttpUpgradeFeature) || key == typeof(IHttpRequestTrailersFeature) || key == typeof(IConnectionIdFeature)
            || key == typeof(IConnectionEndPointFeature) || key == typeof(IConnectionLifetimeFeature)
            || key == typeof(IConnectionLifetimeNotificationFeature) || key == typeof(IConnectionItemsFeature) || key == typeof(IPersistentStateFeature));

    // ---- switching protocols, RFC 9110 §7.8 ----

    bool IHttpUpgradeFeature.IsUpgradableRequest => _exchange.Connection.IsUpgradable && !_exchange.IsUpgraded;

    async Task<Stream> IHttpUpgradeFeature.UpgradeAsync()
    {
        if (_exchange.IsUpgraded)
        {
            throw new InvalidOperationException("IHttpUpgradeFeature.UpgradeAsync was already called and can only be called once per connection.");
        }

        if (!_exchange.Connection.IsUpgradable)
        {
            throw new InvalidOperationException("This request cannot be upgraded; look at IHttpUpgradeFeature.IsUpgradableRequest first.");
        }

        CheckNotStarted("The protocol");
        _exchange.StatusCode = StatusCodes.Status101SwitchingProtocols;
        if (StartResponse() is { } starting)
        {
            await starting;
        }

        long ticket = _ticket.For(_exchange);
        ValueTask sent;
        _exchange.Enter(ticket);
        try
        {
            _exchange.Upgrade();
            sent = _exchange.FlushAsync();
        }
        finally
        {
            _exchange.Exit(ticket);
        }

        await sent;
        return new TunnelStream((BodyReader)_exchange.Body.Reader, ((IHttpResponseBodyFeature)this).Stream);
    }

    // ---- trailers, RFC 9112 §7.1.2 ----

    bool IHttpRequestTrailersFeature.Available => _exchange.Body.State == BodyState.Complete && !_exchange.IsUpgraded;

    IHeaderDictionary IHttpRequestTrailersFeature.Trailers
    {
        get
        {
            if (!((IHttpRequestTrailersFeature)this).Available)
            {
                throw new InvalidOperationException("The request trailers are not available yet; read the request body to its end first.");
            }

            return _exchange.Trailers ??= new HeaderDictionary();
        }
    }

    // ---- the connection ----

    string IConnectionIdFeature.ConnectionId
    {
        get => ((IHttpConnectionFeature)this).ConnectionId;
        set => ((IHttpConnectionFeature)this).ConnectionId = value;
    }

    EndPoint? IConnectionEndPointFeature.LocalEndPoint
    {
        get => _exchange.Connection.LocalEndPoint;
        set => throw ReadOnlyFeature();
    }

    EndPoint? IConnectionEndPointFeature.RemoteEndPoint
    {
        get => _exchange.Connection.RemoteEndPoint;
        set => throw ReadOnlyFeature();
    }

    CancellationToken IConnectionLifetimeFeature.ConnectionClosed
    {
        get => _exchange.RequestAborted;
        set => throw ReadOnlyFeature();
    }

    void IConnectionLifetimeFeature.Abort() => _exchange.AbortByApplication(_ticket.For(_exchange));

    CancellationToken IConnectionLifetimeNotificationFeature.ConnectionClosedRequested
    {
        get => _exchange.RequestAborted;
        set => throw ReadOnlyFeature();
    }

    void IConnectionLifetimeNotificationFeature.RequestClose() => _exchange.Connection.RequestClose();

    IDictionary<object, object?> IConnectionItemsFeature.Items
    {
        get => _exchange.Connection.State;
        set => throw ReadOnlyFeature();
    }

    IDictionary<object, object?> IPersistentStateFeature.State => _exchange.Connection.State;

    private static NotSupportedException ReadOnlyFeature() => new("This property of the connection cannot be replaced.");
}
