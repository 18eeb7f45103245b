// Against session fixation: whoever signs in gets another session than the one that somebody may have given him.

using Millrace.Sessions;

namespace Microsoft.AspNetCore.Http;

/// <summary>Gives a session another identity.</summary>
public static class SessionRenewal
{
    /// <summary>The session keeps its values, and is known by another cookie and another <see cref="ISession.Id"/> from now on; the cookie before is good for nothing any more. To be called
    /// whenever a user signs in, or has other rights than before.</summary>
    /// <param name="session">The session of the request.</param>
    /// <exception cref="InvalidOperationException">The response has started, the store does not answer, or it is no session of <c>AddMillraceSession</c>.</exception>
    public static void Renew(this ISession session)
    {
        ArgumentNullException.ThrowIfNull(session);
        if (session is not MillraceSession ours)
        {
            throw new InvalidOperationException("Renew() needs AddMillraceSession() in the place of AddSession().");
        }
        ours.Renew();
    }
}
