// The features that only a connection of our own can offer: switching protocols, trailers, and what concerns the
// connection rather than a request. Over FastCGI the client's connection is the front server's.

using System.Net;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Exchanges;
using Millrace.Loops;

namespace Millrace.AspNetCore;

internal sealed partial class HostedFeatures :
    IHttpUpgradeFeature, IHttpRequestTrailersFeature, IConnectionIdFeature, IConnectionEndPointFeature, IConnectionLifetimeFeature,
    IConnectionLifetimeNotificationFeature, IConnectionCompleteFeature, IConnectionItemsFeature, IPersistentStateFeature, ILoopFeature
{
    LoopSources ILoopFeature.Sources
    {
        get
        {
            using ExchangeUse use = Use();
            return ((Connection)Exchange.Connection).Sources;
        }
    }

    // Within a use.
    private bool IsHttpFeature(Type key) => !Head.IsFastCgi
        && (key == typeof(IHttpUpgradeFeature) || key == typeof(IHttpRequestTrailersFeature) || key == typeof(IConnectionIdFeature)
            || key == typeof(IConnectionEndPointFeature) || key == typeof(IConnectionLifetimeFeature)
            || key == typeof(IConnectionLifetimeNotificationFeature) || key == typeof(IConnectionCompleteFeature) || key == typeof(IConnectionItemsFeature) || key == typeof(IPersistentStateFeature));

    // ---- switching protocols, RFC 9110 §7.8 ----

    bool IHttpUpgradeFeature.IsUpgradableRequest
    {
        get
        {
            using ExchangeUse use = Use();
            return Exchange.Connection.IsUpgradable && !Exchange.IsUpgraded;
        }
    }

    async Task<Stream> IHttpUpgradeFeature.UpgradeAsync()
    {
        int before = PrepareUpgrade();
        if (StartResponse() is { } starting)
        {
            await starting.ConfigureAwait(false);
        }

        ValueTask sent;
        BodyReader reader;
        Exchange.Gate.Enter(Ticket);
        try
        {
            reader = Exchange.Upgrade();
            sent = Exchange.Writes.FlushAsync();
        }
        catch when (!Exchange.Answer.HasStarted)
        {
            Exchange.Answer.StatusCode = before;    // the last place has gone meanwhile: whoever answers otherwise has a response as it was
            throw;
        }
        finally
        {
            Exchange.Gate.Exit(Ticket);
        }

        await sent.ConfigureAwait(false);
        return new TunnelStream(new RequestStream(reader, Exchange, Ticket), new ResponseStream(Exchange, Ticket, this, Direction.Tunnel));
    }

    // Answers with the status that callbacks of OnStarting are not to see any more.
    private int PrepareUpgrade()
    {
        using ExchangeUse use = Use();
        if (Exchange.IsUpgraded)
        {
            throw new InvalidOperationException("IHttpUpgradeFeature.UpgradeAsync was already called and can only be called once per connection.");
        }

        if (!Exchange.Connection.IsUpgradable)
        {
            throw new InvalidOperationException("This request cannot be upgraded; look at IHttpUpgradeFeature.IsUpgradableRequest first.");
        }

        CheckNotStarted("The protocol");
        Exchange.Services.CheckUpgraded();
        int before = Exchange.Answer.StatusCode;
        Exchange.Answer.StatusCode = StatusCodes.Status101SwitchingProtocols;
        return before;
    }

    // ---- trailers, RFC 9112 §7.1.2 ----

    bool IHttpRequestTrailersFeature.Available
    {
        get
        {
            using ExchangeUse use = Use();
            return AreTrailersAvailable;
        }
    }

    private bool AreTrailersAvailable => Exchange.Body.State == BodyState.Complete && !Exchange.IsUpgraded;

    IHeaderDictionary IHttpRequestTrailersFeature.Trailers
    {
        get
        {
            using ExchangeUse use = Use();
            if (!AreTrailersAvailable)
            {
                throw new InvalidOperationException("The request trailers are not available yet; read the request body to its end first.");
            }

            return Exchange.Trailers ??= new HeaderDictionary();
        }
    }

    // ---- the connection ----

    string IConnectionIdFeature.ConnectionId
    {
        get => ((IHttpConnectionFeature)this).ConnectionId;
        set => ((IHttpConnectionFeature)this).ConnectionId = value;
    }

    // End points can be changed by whoever has them: each request gets its own.
    EndPoint? IConnectionEndPointFeature.LocalEndPoint
    {
        get
        {
            using ExchangeUse use = Use();
            return CopyOf(Exchange.Connection.LocalEndPoint);
        }

        set => throw ReadOnlyFeature();
    }

    EndPoint? IConnectionEndPointFeature.RemoteEndPoint
    {
        get
        {
            using ExchangeUse use = Use();
            return CopyOf(Exchange.Connection.RemoteEndPoint);
        }

        set => throw ReadOnlyFeature();
    }

    /// <summary>See <see cref="ResponseChannel.LocalPath"/>.</summary>
    internal string? LocalPath
    {
        get
        {
            using ExchangeUse use = Use();
            return Exchange.Connection.LocalPath;
        }
    }

    private static IPEndPoint? CopyOf(IPEndPoint? endPoint) => endPoint is null ? null : new IPEndPoint(OwnAddress.Of(endPoint.Address)!, endPoint.Port);

    CancellationToken IConnectionLifetimeFeature.ConnectionClosed
    {
        get
        {
            using ExchangeUse use = Use();
            return Ending().Closed;
        }

        set => throw ReadOnlyFeature();
    }

    void IConnectionLifetimeFeature.Abort() => Exchange.AbortByApplication(Ticket);

    CancellationToken IConnectionLifetimeNotificationFeature.ConnectionClosedRequested
    {
        get
        {
            using ExchangeUse use = Use();
            return Ending().Requested;
        }

        set => throw ReadOnlyFeature();
    }

    void IConnectionLifetimeNotificationFeature.RequestClose()
    {
        using ExchangeUse use = Use();
        Exchange.Connection.RequestClose();
        Exchange.Connection.ToldOfEnd?.Request();
    }

    void IConnectionCompleteFeature.OnCompleted(Func<object, Task> callback, object state)
    {
        using ExchangeUse use = Use();
        Ending().OnCompleted(callback, state);
    }

    // Within a use.
    private ConnectionEnd Ending() => Exchange.Connection.EndFor(Exchange.Services);

    IDictionary<object, object?> IConnectionItemsFeature.Items
    {
        get => ((IPersistentStateFeature)this).State;
        set => throw ReadOnlyFeature();
    }

    // What it is for: the connection's own, from request to request.
    IDictionary<object, object?> IPersistentStateFeature.State
    {
        get
        {
            using ExchangeUse use = Use();
            return Exchange.Connection.State;
        }
    }

    private static NotSupportedException ReadOnlyFeature() => new("This property of the connection cannot be replaced.");
}
