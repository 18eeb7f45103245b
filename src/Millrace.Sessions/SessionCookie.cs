// A session's side towards its client: the cookie that the request had, and the one that the response gets.

using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Primitives;
using Millrace.Sessions.Cookies;
using Millrace.Sessions.Observe;

namespace Millrace.Sessions;

internal sealed class SessionCookie
{
    private readonly SessionScheme _scheme;
    private readonly HttpContext _context;
    private MillraceSession? _registered;
    private bool _isWritten;

    public SessionCookie(SessionScheme scheme, HttpContext context)
    {
        _scheme = scheme;
        _context = context;
    }

    /// <summary>The response can still get a cookie.</summary>
    public bool IsHeadOpen => !_context.Response.HasStarted;

    public ClientPrefix Client => ClientPrefix.Of(_context.Connection.RemoteIpAddress);

    public PresentedCookie Read()
    {
        PresentedCookie cookie = PresentedCookie.Read(_context.Request.Cookies[_scheme.CookieName]);
        if (cookie.Form == CookieForm.Malformed)
        {
            _scheme.Services.Counters.CookieRefused(CookieRefusal.Malformed);
        }
        return cookie;
    }

    /// <summary>The session is asked for its cookie when the head is made.</summary>
    /// <returns>False if it is too late for one.</returns>
    public bool TryRegister(MillraceSession session)
    {
        if (!IsHeadOpen)
        {
            return _registered is not null;
        }
        if (_registered is null)
        {
            _registered = session;
            _context.Response.OnStarting(static cookie => ((SessionCookie)cookie).OnStarting(), this);
        }
        return true;
    }

    /// <summary>The session has been changed when the head was made already, by another module that is called at that moment: the cookie is made once more.</summary>
    public void Refresh()
    {
        if (_isWritten && IsHeadOpen)
        {
            Write();
        }
    }

    private Task OnStarting()
    {
        Write();
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
