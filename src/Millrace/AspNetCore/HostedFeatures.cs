// The feature collection of a request: one object that is the collection and implements the features of the server. It is made
// for its request, like the HttpContext that hosting makes over it, since an application may keep both for ever; each member
// begins a use of the exchange with the ticket of that request (Exchanges/Uses.cs). What middleware adds or replaces
// stands in a short table before the server's own, but for the one feature that hosting itself sets. The features themselves are in RequestFeatures,
// from which it is derived, HostedFeatures.Response.cs and HostedFeatures.Http.cs.

using System.Collections;
using System.Runtime.CompilerServices;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Server.Kestrel.Core.Features;
using Millrace.Exchanges;

namespace Millrace.AspNetCore;

internal sealed partial class HostedFeatures(Exchange exchange) : RequestFeatures(exchange), IFeatureCollection
{
    private KeyValuePair<Type, object?>[] _set = [];
    private int _setCount;
    private bool _hidesBuiltIn;                 // one of the server's own has been set
    private int _revision;
    private IHttpActivityFeature? _activity;    // hosting sets it for each request

    public bool IsReadOnly => false;

    /// <summary>Whether nobody has set one: those that are the server's are this object, and there are no others.</summary>
    internal bool AreAsMade
    {
        get
        {
            Check();
            return _setCount == 0;
        }
    }

    public int Revision
    {
        get
        {
            Check();
            return _revision;
        }
    }

    public object? this[Type key]
    {
        get
        {
            Check();
            if (key == typeof(IHttpActivityFeature))
            {
                return _activity;
            }

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
            BeginSet();
            if (key == typeof(IHttpActivityFeature))
            {
                _activity = (IHttpActivityFeature?)value;
                return;
            }

            _hidesBuiltIn |= BuiltIn(key) is not null;
            if (key == typeof(IHttpResponseBodyFeature) && value != this)
            {
                using ExchangeUse use = Use();
                Exchange.Answer.IsBehindAnother = true;
            }

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
                Array.Resize(ref _set, Math.Max(4, _setCount * 2));
            }

            _set[_setCount++] = new(key, value);
        }
    }

    private void BeginSet()
    {
        Check();
        _revision++;
    }

    // What each request asks for is found by comparing handles alone: neither the type's object nor a cast is needed.
    public TFeature? Get<TFeature>()
    {
        Check();
        if (!_hidesBuiltIn && IsAlwaysBuiltIn<TFeature>())
        {
            object own = this;
            return Unsafe.As<object, TFeature>(ref own);
        }

        return typeof(TFeature) == typeof(IHttpActivityFeature)
            ? Unsafe.As<IHttpActivityFeature?, TFeature?>(ref _activity)
            : (TFeature?)this[typeof(TFeature)];
    }

    public void Set<TFeature>(TFeature? instance)
    {
        if (typeof(TFeature) == typeof(IHttpActivityFeature))
        {
            BeginSet();
            _activity = Unsafe.As<TFeature?, IHttpActivityFeature?>(ref instance);
            return;
        }

        this[typeof(TFeature)] = instance;
    }

    // In the order in which requests ask for them.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static bool IsAlwaysBuiltIn<TFeature>() =>
        typeof(TFeature) == typeof(IHttpRequestFeature) || typeof(TFeature) == typeof(IHttpResponseFeature) || typeof(TFeature) == typeof(IHttpResponseBodyFeature)
        || typeof(TFeature) == typeof(IEndpointFeature) || typeof(TFeature) == typeof(IHttpRequestLifetimeFeature)
        || typeof(TFeature) == typeof(IHttpRequestIdentifierFeature) || typeof(TFeature) == typeof(IRouteValuesFeature)
        || typeof(TFeature) == typeof(IHttpMaxRequestBodySizeFeature);

    private HostedFeatures? BuiltIn(Type key)
    {
        if (key == typeof(IHttpRequestFeature) || key == typeof(IHttpResponseFeature) || key == typeof(IHttpResponseBodyFeature)
            || key == typeof(IEndpointFeature) || key == typeof(IRouteValuesFeature) || key == typeof(IHttpRequestLifetimeFeature)
            || key == typeof(IHttpRequestBodyDetectionFeature) || key == typeof(IRequestBodyPipeFeature)
            || key == typeof(IHttpConnectionFeature) || key == typeof(IHttpRequestIdentifierFeature)
            || key == typeof(IHttpMaxRequestBodySizeFeature) || key == typeof(IHttpBodyControlFeature)
            || key == typeof(IBadRequestExceptionFeature) || key == typeof(ILoopFeature))
        {
            return this;
        }

        using ExchangeUse use = Use();
        return IsHttpFeature(key) || IsRateFeature(key) || (key == typeof(IFastCgiFeature) && Exchange.Head.IsFastCgi) ? this : null;
    }

    private static readonly Type[] s_builtIn =
    [
        typeof(IHttpRequestFeature), typeof(IHttpResponseFeature), typeof(IHttpResponseBodyFeature), typeof(IEndpointFeature),
        typeof(IRouteValuesFeature), typeof(IHttpRequestLifetimeFeature), typeof(IHttpRequestBodyDetectionFeature),
        typeof(IRequestBodyPipeFeature), typeof(IHttpConnectionFeature), typeof(IHttpRequestIdentifierFeature),
        typeof(IHttpMaxRequestBodySizeFeature), typeof(IHttpBodyControlFeature), typeof(IFastCgiFeature), typeof(IBadRequestExceptionFeature),
        typeof(IHttpUpgradeFeature), typeof(IHttpRequestTrailersFeature), typeof(IConnectionIdFeature), typeof(IConnectionEndPointFeature),
        typeof(IConnectionLifetimeFeature), typeof(IConnectionLifetimeNotificationFeature), typeof(IConnectionCompleteFeature), typeof(IConnectionItemsFeature),
        typeof(IPersistentStateFeature), typeof(IHttpMinRequestBodyDataRateFeature), typeof(IHttpMinResponseDataRateFeature),
    ];

    public IEnumerator<KeyValuePair<Type, object>> GetEnumerator()
    {
        Check();
        if (_activity is { } activity)
        {
            yield return new(typeof(IHttpActivityFeature), activity);
        }

        for (int i = 0; i < _setCount; i++)
        {
            Check();
            if (_set[i].Value is { } value)
            {
                yield return new(_set[i].Key, value);
            }
        }

        foreach (Type type in s_builtIn)
        {
            Check();
            if (!_set.AsSpan(0, _setCount).ToArray().Any(pair => pair.Key == type) && BuiltIn(type) is { } feature)
            {
                yield return new(type, feature);
            }
        }
    }

    IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();
}
