// The session of a request before anybody has asked for it. It is used again, by the same thread, after a request that has ended in its turn without asking: whoever has the
// session, or reads HttpContext.Session, has an object that belongs to this request alone.

using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;

namespace Millrace.Sessions;

internal sealed class SessionFeature : ISessionFeature
{
    [ThreadStatic]
    private static SessionFeature? t_spare;

    private HttpContext? _context;
    private SessionScheme? _scheme;
    private ISession? _session;

    public ISession Session
    {
        get => _session ??= Open();
        set => _session = value;
    }

    /// <summary>Nobody has asked for the session.</summary>
    public bool IsUnused => _session is null;

    public static SessionFeature Rent(HttpContext context, SessionScheme scheme)
    {
        SessionFeature feature = t_spare ?? new SessionFeature();
        t_spare = null;
        feature._context = context;
        feature._scheme = scheme;
        return feature;
    }

    /// <summary>Only for one that is unused, behind a request that has ended in its turn.</summary>
    public void Return()
    {
        _context = null;
        _scheme = null;
        t_spare = this;
    }

    /// <summary>The request has ended.</summary>
    /// <returns>The session, if it was used.</returns>
    public ISession? Close()
    {
        _context = null;
        return _session;
    }

    private MillraceSession Open() => _context is { } context && _scheme is { } scheme
        ? new MillraceSession(scheme, context)
        : throw new ObjectDisposedException(nameof(HttpContext), "The request has ended, and its session was not used by then.");
}
