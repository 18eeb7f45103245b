// The session of a request before anybody has asked for it. Each request has an object of its own, closed at its end whether it was used or not: whoever keeps it, or is
// just asking when the request ends, has the session of that request or an ObjectDisposedException, and never that of another.

using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;

namespace Millrace.Sessions;

internal sealed class SessionFeature(HttpContext context, SessionScheme scheme) : ISessionFeature
{
    private volatile HttpContext? _context = context;       // null: the request has ended
    private volatile ISession? _session;

    public ISession Session
    {
        get => _session ?? Open();
        set => _session = value;
    }

    /// <summary>The request has ended.</summary>
    /// <returns>The session, if it was used.</returns>
    public ISession? Close()
    {
        _context = null;
        Interlocked.MemoryBarrier();
        return _session;
    }

    // Another thread may be closing it: either that sees the session, and ends it, or it is seen here that the request has ended.
    private ISession Open()
    {
        if (_context is { } context)
        {
            ISession session = Interlocked.CompareExchange(ref _session, new MillraceSession(scheme, context), null) ?? _session;
            Interlocked.MemoryBarrier();
            if (_context is not null)
            {
                return session;
            }
            _session = null;
        }

        throw new ObjectDisposedException(nameof(HttpContext), "The request has ended, and its session was not used by then.");
    }
}
