// What a session finds when somebody asks: what the store has, or else what the cookie has, if that is not spent.

using Millrace.Sessions.Cookies;
using Millrace.Sessions.Observe;
using Millrace.Sessions.Values;

namespace Millrace.Sessions;

internal sealed partial class MillraceSession
{
    // False: there is nothing to load, and it is known what the session is.
    private bool TryBegin(out string? seal)
    {
        ThrowIfEnded();
        seal = null;
        if (_cookie is null)
        {
            return true;
        }
        PresentedCookie cookie = _cookie.Read();
        if (cookie.Form != CookieForm.Ours)
        {
            _origin = Origin.New;
            return false;
        }
        _token = cookie.Token;
        _key = _token.Key;
        _hasKey = true;
        seal = cookie.Seal;
        _isSealHeld = seal is not null;
        return true;
    }

    // The seal is of no use any more, perhaps only since another request of the session has stored it, while this one was asking.
    private bool MayBeStoredByNow(StoredSession? stored, string? seal) => stored is null && seal is not null && !_scheme.IsLocal && _scheme.Services.Spent.Contains(_key);

    private void Take(StoredSession? stored, string? seal, bool isAgain = false)
    {
        if (stored is { HasEnded: false } session)
        {
            if (_values.TryRead(session.Values))
            {
                _tag = session.Tag;
                _origin = Origin.Store;
                _sealBefore = session.Seal;
                return;
            }
            _scheme.Services.Counters.Unreadable();
            _values = new SessionValues();
        }
        else if (stored is null && seal is not null)
        {
            if (TryUnseal(seal, out bool isSpent))
            {
                return;
            }

            // Spent only since another request has come back with it and has changed the session, while this one was looking.
            if (isSpent && _scheme.IsLocal && !isAgain && _scheme.Services.Load(_key) is { } byNow)
            {
                Take(byNow, seal, isAgain: true);
                return;
            }
            CountSpent(isSpent);
        }
        BeginAnew();
    }

    private void TakeNothing(Exception error, string? seal)
    {
        _scheme.Services.Log.LoadFailed(error);
        bool isSpent = false;
        if (seal is null || !TryUnseal(seal, out isSpent))
        {
            CountSpent(isSpent);
            _origin = Origin.Unavailable;
        }
    }

    private void CountSpent(bool isSpent)
    {
        if (isSpent)
        {
            _scheme.Services.Counters.CookieRefused(CookieRefusal.Spent);
        }
    }

    private bool TryUnseal(string seal, out bool isSpent)
    {
        if (_scheme.Unseal(_token, _key, seal, out isSpent) is not { } unsealed)
        {
            return false;
        }
        if (!_values.TryRead(unsealed.Values))
        {
            _values = new SessionValues();
            return false;
        }
        _origin = Origin.Seal;
        _isFromSeal = true;
        _sealBefore = unsealed.Serial;
        return true;
    }

    // What a client claims to be and is not is never taken for the name of a new session.
    private void BeginAnew()
    {
        _origin = Origin.New;
        _isSealHeld = false;
        _hasKey = _cookie is null;
    }
}
