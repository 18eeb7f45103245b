// What UseSession() puts into the pipeline. A request that does not use its session costs it a field of the feature collection and one small object, and where it has a cookie
// of ours a look at the clock of that session. Nothing is decrypted or written, but for values that are in the cookie alone: those would become too old.

using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Sessions.Cookies;

namespace Millrace.Sessions;

internal sealed class SessionMiddleware
{
    private readonly RequestDelegate _next;
    private readonly SessionScheme _scheme;

    public SessionMiddleware(RequestDelegate next, SessionScheme scheme)
    {
        _next = next;
        _scheme = scheme;
    }

    public Task Invoke(HttpContext context)
    {
        var feature = new SessionFeature(context, _scheme);
        context.Features.Set<ISessionFeature>(feature);
        Task rest;
        try
        {
            rest = _next(context);
        }
        catch (Exception error)
        {
            rest = Task.FromException(error);
        }
        if (!rest.IsCompletedSuccessfully || feature.Close() is not null)
        {
            return EndAsync(context, feature, rest);
        }
        ValueTask touch = Touch(context);
        context.Features.Set<ISessionFeature>(null);
        return touch.IsCompletedSuccessfully ? rest : touch.AsTask();
    }

    private async Task EndAsync(HttpContext context, SessionFeature feature, Task rest)
    {
        try
        {
            await rest.ConfigureAwait(false);
        }
        finally
        {
            context.Features.Set<ISessionFeature>(null);
            if (feature.Close() is { } session)
            {
                await _scheme.EndAsync(session).ConfigureAwait(false);
            }
            else
            {
                await Touch(context).ConfigureAwait(false);
            }
        }
    }

    // The idle time of a session begins anew with every request of its client, whether it uses the session or not.
    private ValueTask Touch(HttpContext context) =>
        !CookieHeader.TryReadKey(context.Request.Headers.Cookie, _scheme.CookieName, out SessionKey key, out bool hasSeal) ? ValueTask.CompletedTask
        : hasSeal && _scheme.IsSealDue(key) ? new ValueTask(_scheme.EndAsync(new MillraceSession(_scheme, context)))
        : _scheme.TouchAsync(key);
}
