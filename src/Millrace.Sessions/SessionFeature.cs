// The session of a request before anybody has asked for it. Each request has an object of its own, closed at its end whether it was used or not: whoever keeps it, or is
// just asking when the request ends, has the session of that request or an ObjectDisposedException, and never that of another.

using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;

namespace Millrace.Sessions;

internal sealed class SessionFeature(HttpContext context, SessionScheme scheme) : ISessionFeature
{
    private static readonly object s_ended = new();

    private volatile object? _session;      // null: nobody has asked for it

    public ISession Session
    {
        get => _session as ISession ?? Open();
        set => _session = value;
    }

    /// <summary>The request has ended.</summary>
    /// <returns>The session, if it was used.</returns>
    public ISession? Close() => Interlocked.CompareExchange(ref _session, s_ended, null) as ISession;

    // Another thread may be closing it: one of the two is first.
    private ISession Open()
    {
        object? found = _session;
        if (found is null)
        {
            var session = new MillraceSession(scheme, context);
            found = Interlocked.CompareExchange(ref _session, session, null) ?? session;
        }
        return found as ISession ?? throw new ObjectDisposedException(nameof(HttpContext), "The request has ended, and its session was not used by then.");
    }
}
