// A session's side towards its client: the cookie that the request had, and the one that the response gets.

using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Primitives;
using Millrace.Sessions.Cookies;
using Millrace.Sessions.Observe;

namespace Millrace.Sessions;

internal sealed class SessionCookie
{
    private readonly SessionScheme _scheme;
    private readonly HttpContext _context;      // used within the lock alone: some servers give the same one to the next request of the connection
    private readonly Lock _lock = new();
    private MillraceSession? _registered;
    private bool _isWritten;
    private bool _hasEnded;

    public SessionCookie(SessionScheme scheme, HttpContext context)
    {
        _scheme = scheme;
        _context = context;
    }

    /// <summary>The response can still get a cookie.</summary>
    public bool IsHeadOpen
    {
        get
        {
            lock (_lock)
            {
                return !_hasEnded && !_context.Response.HasStarted;
            }
        }
    }

    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public ClientPrefix Client
    {
        get
        {
            lock (_lock)
            {
                ThrowIfEnded();
                return ClientPrefix.Of(_context.Connection.RemoteIpAddress);
            }
        }
    }

    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public PresentedCookie Read()
    {
        PresentedCookie cookie;
        lock (_lock)
        {
            ThrowIfEnded();
            cookie = PresentedCookie.Read(_context.Request.Cookies[_scheme.CookieName]);
        }
        if (cookie.Form == CookieForm.Malformed)
        {
            _scheme.Services.Counters.CookieRefused(CookieRefusal.Malformed);
        }
        return cookie;
    }

    /// <summary>The session is asked for its cookie when the head is made.</summary>
    /// <returns>False if it is too late for one.</returns>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public bool TryRegister(MillraceSession session)
    {
        lock (_lock)
        {
            ThrowIfEnded();
            if (_registered is null && IsHeadOpen)
            {
                _context.Response.OnStarting(static cookie => ((SessionCookie)cookie).OnStarting(), this);      // throws where the head is made just then
                _registered = session;
            }
            return _registered is not null;
        }
    }

    /// <summary>The session has been changed when the head was made already, by another module that is called at that moment: the cookie is made once more.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public void Refresh()
    {
        lock (_lock)
        {
            ThrowIfEnded();
            if (_isWritten && IsHeadOpen)
            {
                Write();
            }
        }
    }

    /// <summary>The request has ended, but for its head where none has been made: from now on its context may be another's.</summary>
    public void End()
    {
        lock (_lock)
        {
            _hasEnded = true;
        }
    }

    private void ThrowIfEnded() => ObjectDisposedException.ThrowIf(_hasEnded, typeof(ISession));

    // The server asks, while it makes the head of this request: the context is this one's, although the session may have ended before.
    private Task OnStarting()
    {
        lock (_lock)
        {
            bool hadEnded = _hasEnded;
            _hasEnded = false;      // ToCookie asks whether the head is open
            try
            {
                Write();
            }
            finally
            {
                _hasEnded = hadEnded;
            }
        }
        return Task.CompletedTask;
    }

    private void Write()
    {
        string? value = _registered!.ToCookie();
        HttpResponse response = _context.Response;
        if (_isWritten)
        {
            response.Headers.SetCookie = Without(response.Headers.SetCookie, _scheme.CookieName);
        }
        if (value is null || IsTakenAway(value))
        {
            return;
        }
        response.Cookies.Append(_scheme.CookieName, value, _scheme.Options.Cookie.Build(_context));
        response.Headers.CacheControl = "no-cache,no-store";
        response.Headers.Pragma = "no-cache";
        response.Headers.Expires = "-1";
        _isWritten = true;
    }

    // The application has deleted the cookie, as one does at the end of a sign-out, or has written it itself: that stands. A session of another name comes behind it.
    private bool IsTakenAway(string value) =>
        _context.Request.Cookies[_scheme.CookieName] is { Length: >= SessionToken.Length } before && value.StartsWith(before[..SessionToken.Length], StringComparison.Ordinal)
        && _context.Response.Headers.SetCookie.Count > 0 && Without(_context.Response.Headers.SetCookie, _scheme.CookieName).Count < _context.Response.Headers.SetCookie.Count;

    private static StringValues Without(StringValues fields, string name) =>
        fields.Where(field => field is null || !field.StartsWith(Uri.EscapeDataString(name) + "=", StringComparison.Ordinal)).ToArray();
}
