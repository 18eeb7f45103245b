// The feature collection of a request: one object per exchange that is the collection and implements the features of the
// server. What middleware adds or replaces stands in a short table before them. The features themselves are in
// HostedFeatures.Request.cs and HostedFeatures.Response.cs.

using System.Collections;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Exchanges;

namespace Millrace.AspNetCore;

internal partial class HostedFeatures : IFeatureCollection
{
    private Exchange _exchange;
    private ReusedTicket _ticket;
    private KeyValuePair<Type, object?>[] _set = new KeyValuePair<Type, object?>[8];
    private int _setCount;
    private int _revision;

    public HostedFeatures(Exchange exchange) => _exchange = exchange;

    public bool IsReadOnly => false;

    public int Revision => _revision;

    public object? this[Type key]
    {
        get
        {
            for (int i = 0; i < _setCount; i++)
            {
                if (_set[i].Key == key)
                {
                    return _set[i].Value;
                }
            }

            return BuiltIn(key);
        }

        set
        {
            _revision++;
            for (int i = 0; i < _setCount; i++)
            {
                if (_set[i].Key == key)
                {
                    _set[i] = new(key, value);
                    return;
                }
            }

            if (_setCount == _set.Length)
            {
                Array.Resize(ref _set, _setCount * 2);
            }

            _set[_setCount++] = new(key, value);
        }
    }

    public TFeature? Get<TFeature>() => (TFeature?)this[typeof(TFeature)];

    public void Set<TFeature>(TFeature? instance) => this[typeof(TFeature)] = instance;

    // In the order in which requests ask for them.
    private HostedFeatures? BuiltIn(Type key)
    {
        if (key == typeof(IHttpRequestFeature) || key == typeof(IHttpResponseFeature) || key == typeof(IHttpResponseBodyFeature)
            || key == typeof(IEndpointFeature) || key == typeof(IRouteValuesFeature) || key == typeof(IHttpRequestLifetimeFeature)
            || key == typeof(IHttpRequestBodyDetectionFeature) || key == typeof(IRequestBodyPipeFeature)
            || key == typeof(IHttpConnectionFeature) || key == typeof(IHttpRequestIdentifierFeature)
            || key == typeof(IHttpMaxRequestBodySizeFeature) || key == typeof(IHttpBodyControlFeature))
        {
            return this;
        }

        if (IsHttpFeature(key) || (key == typeof(IFastCgiFeature) && _exchange.Head.IsFastCgi))
        {
            return this;
        }

        return null;
    }

    private static readonly Type[] s_builtIn =
    [
        typeof(IHttpRequestFeature), typeof(IHttpResponseFeature), typeof(IHttpResponseBodyFeature), typeof(IEndpointFeature),
        typeof(IRouteValuesFeature), typeof(IHttpRequestLifetimeFeature), typeof(IHttpRequestBodyDetectionFeature),
        typeof(IRequestBodyPipeFeature), typeof(IHttpConnectionFeature), typeof(IHttpRequestIdentifierFeature),
        typeof(IHttpMaxRequestBodySizeFeature), typeof(IHttpBodyControlFeature), typeof(IFastCgiFeature),
        typeof(IHttpUpgradeFeature), typeof(IHttpRequestTrailersFeature), typeof(IConnectionIdFeature), typeof(IConnectionEndPointFeature),
        typeof(IConnectionLifetimeFeature), typeof(IConnectionLifetimeNotificationFeature), typeof(IConnectionItemsFeature),
        typeof(IPersistentStateFeature),
    ];

    public IEnumerator<KeyValuePair<Type, object>> GetEnumerator()
    {
        for (int i = 0; i < _setCount; i++)
        {
            if (_set[i].Value is { } value)
            {
                yield return new(_set[i].Key, value);
            }
        }

        foreach (Type type in s_builtIn)
        {
            if (!_set.AsSpan(0, _setCount).ToArray().Any(pair => pair.Key == type) && BuiltIn(type) is { } feature)
            {
                yield return new(type, feature);
            }
        }
    }

    IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

    /// <summary>The request is over. True when nobody else can know this object: then it may serve the next one.</summary>
    public bool Reset()
    {
        bool reusable = !_exchange.HasLeft && !_ticket.WasUsedElsewhere;
        _ticket.GiveBack();
        Array.Clear(_set, 0, _setCount);
        _setCount = 0;
        _revision++;
        ResetRequest();
        ResetResponse();
        if (!reusable)
        {
            _exchange = _exchange.Services.DeadExchange;    // the living one serves others
        }

        return reusable;
    }
}

/// <summary>Keeps the hosting layer's context, and with it the HttpContext, from request to request.</summary>
internal sealed class HostedFeatures<TContext>(Exchange exchange) : HostedFeatures(exchange), Microsoft.AspNetCore.Hosting.Server.Abstractions.IHostContextContainer<TContext>
    where TContext : notnull
{
    TContext? Microsoft.AspNetCore.Hosting.Server.Abstractions.IHostContextContainer<TContext>.HostContext { get; set; }
}
