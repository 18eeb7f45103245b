// ISession for one request. Where its values are:
//
//            Set                  head is made            cookie comes back, and is used
//   nowhere -----> this request --------------> the cookie -------------------------------> the store (and what the cookie has is of no use any more)
//                       |   too much for a cookie, or the head is sent
//                       +---------------------------------------------------------------------^

using System.Diagnostics;
using System.Diagnostics.CodeAnalysis;
using Microsoft.AspNetCore.Http;
using Millrace.Sessions.Cookies;
using Millrace.Sessions.Observe;
using Millrace.Sessions.Values;

namespace Millrace.Sessions;

internal sealed partial class MillraceSession : ISession
{
    /// <summary>Where the values have come from.</summary>
    private enum Origin
    {
        /// <summary>Nobody has asked.</summary>
        NotLoaded,

        /// <summary>There are none: it begins with this request.</summary>
        New,

        /// <summary>The cookie, and the store has none.</summary>
        Seal,

        Store,

        /// <summary>The store does not answer, and the cookie has nothing.</summary>
        Unavailable,
    }

    private readonly SessionScheme _scheme;
    private readonly SessionCookie? _cookie;
    private readonly Func<bool>? _tryEstablish;

    private SessionValues _values = new();
    private Origin _origin;
    private SessionToken _token;
    private SessionKey _key;
    private bool _hasKey;
    private bool _isSealHeld;       // the client's cookie has values in it
    private bool _isFromSeal;       // these values are the cookie's, with what has been changed since
    private bool _isPromotedByAnother;
    private bool _mustStore;        // its values do not go into a cookie
    private object? _tag;
    private SessionKey? _replaced;  // before Renew
    private int _sealedRevision = -1;
    private uint _sealBefore;       // the serial of the seal with the values that there were before; 0 for none
    private UnsealedValues? _resealed;      // what the store has, and the cookie gets as well
    private string? _resealedCookie;
    private bool _isRefused;        // the session has ended meanwhile
    private bool _hasEnded;

    public MillraceSession(SessionScheme scheme, HttpContext context)
    {
        _scheme = scheme;
        _cookie = new SessionCookie(scheme, context);
    }

    /// <summary>For ASP.NET Core's own middleware, which has a cookie of its own: without a seal.</summary>
    public MillraceSession(SessionScheme scheme, SessionKey key, Func<bool> tryEstablish)
    {
        _scheme = scheme;
        _tryEstablish = tryEstablish;
        _key = key;
        _hasKey = true;
        _mustStore = true;
    }

    public bool IsAvailable
    {
        get
        {
            Load();
            return _origin != Origin.Unavailable;
        }
    }

    public string Id
    {
        get
        {
            Load();
            return _origin == Origin.Unavailable ? "" : Key.ToId();
        }
    }

    public IEnumerable<string> Keys
    {
        get
        {
            Load();
            return _values.Keys;
        }
    }

    private SessionKey Key
    {
        get
        {
            if (!_hasKey)
            {
                _token = SessionToken.New();
                _key = _token.Key;
                _hasKey = true;
            }
            return _key;
        }
    }

    public bool TryGetValue(string key, [NotNullWhen(true)] out byte[]? value)
    {
        Load();
        return _values.TryGet(key, out value);
    }

    public void Set(string key, byte[] value)
    {
        ArgumentNullException.ThrowIfNull(value);
        if (!IsAvailable)
        {
            return;
        }
        ThrowIfEnded();
        if (!TryEstablish())
        {
            throw new InvalidOperationException("The session cannot be established after the response has started.");
        }
        _values.Set(key, value);
        Change();
    }

    public void Remove(string key)
    {
        Load();
        ThrowIfEnded();
        _values.Remove(key);
        Change();
    }

    public void Clear()
    {
        Load();
        ThrowIfEnded();
        _values.Clear();
        Change();
    }

    /// <summary>Another token for the same values; the one before is good for nothing any more.</summary>
    /// <exception cref="InvalidOperationException">The response has started.</exception>
    public void Renew()
    {
        bool isAvailable = IsAvailable;
        ThrowIfEnded();     // behind what may have waited for the store
        if (!isAvailable)
        {
            throw new InvalidOperationException("The session is not available: its store does not answer.");
        }
        if (_cookie is null)
        {
            throw new InvalidOperationException("A session of ASP.NET Core's own UseSession() cannot be renewed; call UseMillraceSession().");
        }
        if (!_cookie.IsHeadOpen)
        {
            throw new InvalidOperationException("The session cannot be renewed after the response has started.");
        }
        if (_origin is Origin.Seal or Origin.Store)
        {
            _replaced ??= _key;
            _mustStore = _origin == Origin.Store;
        }
        _hasKey = false;
        _ = Key;
        _origin = Origin.New;
        _tag = null;
        _isFromSeal = false;
        _sealedRevision = -1;
        _sealBefore = 0;
        _resealed = null;
        _resealedCookie = null;
        _isRefused = false;
        _cookie.TryRegister(this);
        _cookie.Refresh();
    }

    public void Load()
    {
        if (_origin != Origin.NotLoaded || !TryBegin(out string? seal))
        {
            return;
        }
        StoredSession? stored;
        try
        {
            stored = _scheme.Services.Load(_key);
            if (MayBeStoredByNow(stored, seal))
            {
                stored = _scheme.Services.Load(_key);
            }
        }
        catch (Exception error)
        {
            TakeNothing(error, seal);
            return;
        }
        Take(stored, seal);
    }

    public async Task LoadAsync(CancellationToken cancellationToken = default)
    {
        if (_origin != Origin.NotLoaded || !TryBegin(out string? seal))
        {
            return;
        }
        StoredSession? stored;
        try
        {
            stored = await _scheme.Services.LoadAsync(_key, _scheme.Options.IOTimeout, cancellationToken).ConfigureAwait(false);
            if (MayBeStoredByNow(stored, seal))
            {
                stored = await _scheme.Services.LoadAnewAsync(_key, _scheme.Options.IOTimeout, cancellationToken).ConfigureAwait(false);
            }
        }
        catch (Exception error) when (!cancellationToken.IsCancellationRequested)
        {
            TakeNothing(error, seal);
            if (_origin == Origin.Unavailable)
            {
                _origin = Origin.NotLoaded;
                throw;
            }
            return;
        }
        Take(stored, seal);
    }

    /// <summary>The cookie that the response gets; null for none.</summary>
    public string? ToCookie()
    {
        if (_origin == Origin.New && _values.Count == 0)
        {
            _sealedRevision = -1;
            return null;
        }
        if (_origin == Origin.New && !_mustStore)
        {
            byte[] values = _values.ToBytes();
            if (_scheme.MayBeSealed(values.Length))
            {
                _sealedRevision = _values.Revision;
                _sealBefore = SessionSeal.NewSerial();
                return Sealed(new UnsealedValues(values, _sealBefore), isFirst: true);
            }
        }
        if (MayBeResealed())
        {
            StoreNow();
        }
        if (_resealed is { } resealed && !_values.IsChanged)
        {
            return _resealedCookie ??= Sealed(resealed, isFirst: false);
        }

        // What was refused has no cookie of its own: the client's may be newer by now. What is not stored leaves it the seal that it has.
        return _isRefused || _origin == Origin.Seal ? null : _token.ToString();
    }

    private void StoreNow()
    {
        try
        {
            ValueTask stored = StoreAsync(CancellationToken.None);
            Debug.Assert(stored.IsCompleted, "the store in memory ends at once");
            stored.GetAwaiter().GetResult();
        }
        catch (Exception error)
        {
            _scheme.Services.Log.CommitFailed(error);       // and is tried again when the request has ended
        }
    }

    private string Sealed(UnsealedValues values, bool isFirst)
    {
        _scheme.Services.Counters.Sealed(isFirst);
        if (isFirst)
        {
            _scheme.NoteSealed(_key);
        }

        return $"{_token}.{_scheme.Services.Seal.Close(_token, values.Values.Span, _scheme.Services.Store.Epoch, values.Serial)}";
    }

    // ---- changing ----

    // Its context may be another request's by then.
    private void ThrowIfEnded() => ObjectDisposedException.ThrowIf(_hasEnded, typeof(ISession));

    private bool TryEstablish()
    {
        if (_origin is not Origin.New)
        {
            return true;
        }
        _ = Key;
        return _cookie?.TryRegister(this) ?? _tryEstablish!();
    }

    // The store may have to let the session go before its client is back.
    private bool MayBeResealed() => _scheme.IsResealing && _cookie is { IsHeadOpen: true } && !_isRefused && _values.Count > 0 &&
        ((_values.IsChanged && (_origin is Origin.Seal or Origin.Store || _mustStore)) || _replaced is not null) && _scheme.MayBeResealed(_values.Size);

    // A cookie that is written again has what has been changed; one that is longer than it need be is replaced.
    private void Change()
    {
        if ((_isSealHeld && _origin == Origin.Store && _values.IsChanged) || MayBeResealed())
        {
            _cookie?.TryRegister(this);
        }
        _cookie?.Refresh();
    }
}
