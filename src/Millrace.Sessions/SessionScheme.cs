// One UseSession(): its cookie and times, and what all of them in a process share.

using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging;
using Millrace.Sessions.Cookies;
using Millrace.Sessions.Observe;
using Millrace.Sessions.Stores;

namespace Millrace.Sessions;

internal sealed class SessionScheme
{
    public SessionScheme(SessionServices services, MillraceSessionOptions options)
    {
        options.Check();
        Services = services;
        Options = options;
        CookieName = options.Cookie.Name ?? throw new ArgumentException("The session's cookie has no name.", nameof(options));
        services.Spent.ExpectValidity(options.EffectiveSealValidity);
        SealValidity = options.EffectiveSealValidity < services.Spent.Validity ? options.EffectiveSealValidity : services.Spent.Validity;      // what is spent is known for no longer
    }

    public SessionServices Services { get; }

    public MillraceSessionOptions Options { get; }

    public string CookieName { get; }

    public TimeSpan SealValidity { get; }

    public bool IsLocal => Services.Store.IsLocal;

    /// <summary>What has been changed goes along in the client's cookie as well as into the store, which may have to let it go.</summary>
    public bool IsResealing => Services.Store is MemorySessionStore { IsNearlyFull: true };

    public bool MayBeResealed(int bytes) => MayBeSealed(bytes) && bytes <= Options.EffectiveSessionBytesMax;

    public bool MayBeSealed(int bytes) => bytes <= Options.SealedBytesMax && Options.SealedBytesMax > 0;

    /// <summary>Values of another session, that store has nothing of, as its client has them in its cookie; null if they are of no use.</summary>
    public UnsealedValues? Unseal(SessionToken token, SessionKey key, string seal, out bool isSpent)
    {
        SealState state = Services.Seal.Open(token, seal, Services.Store.Epoch, SealValidity, out UnsealedValues values);
        isSpent = state == SealState.Good && Services.Spent.Contains(key, values.Serial);
        if (state == SealState.Good && !isSpent)
        {
            return values;
        }
        if (!isSpent)
        {
            Services.Counters.CookieRefused(Refusal(state));
        }
        return null;
    }

    public async Task EndAsync(ISession session)
    {
        try
        {
            if (session is MillraceSession ours)
            {
                await ours.EndAsync().ConfigureAwait(false);
            }
            else
            {
                await session.CommitAsync().ConfigureAwait(false);
            }
        }
        catch (OperationCanceledException)
        {
            Services.Log.CommitTimedOut(Options.IOTimeout);
        }
        catch (Exception error)
        {
            Services.Log.CommitFailed(error);
        }
    }

    public ValueTask TouchAsync(SessionKey key) => Services.TouchAsync(key, Options.IdleTimeout, Options.IOTimeout);

    /// <summary>Whether values that a request has in its cookie, and has not used, are to be looked at: the store may not have them, and nobody has looked within the last step.</summary>
    public bool IsSealDue(SessionKey key) => Services.IsSealDue(key, Options.IdleTimeout);

    /// <inheritdoc cref="SessionServices.NoteSealed"/>
    public void NoteSealed(SessionKey key) => Services.NoteSealed(key, Options.IdleTimeout);

    /// <summary>Whether they are to be stored, as if they had been used, since they have been idle for a step by now, and nothing else keeps them.</summary>
    public bool IsSealAging(SessionToken token, string seal) =>
        Services.Seal.Open(token, seal, Services.Store.Epoch, SealValidity, out UnsealedValues values) == SealState.Good && values.Age >= TouchTable.StepOf(Options.IdleTimeout);

    private static CookieRefusal Refusal(SealState state) => state switch
    {
        SealState.Expired => CookieRefusal.SealExpired,
        SealState.OfAnotherEpoch => CookieRefusal.SealOfAnotherEpoch,
        SealState.OfAnotherSession => CookieRefusal.SealOfAnotherSession,
        _ => CookieRefusal.SealUnreadable,
    };
}
