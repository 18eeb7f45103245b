// ASP.NET Core's own UseSession(), called by code that was compiled without this package: it has a cookie of its own, and makes it for every request that has none. Its sessions are
// kept here all the same.

using System.Text;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Session;
using Microsoft.Extensions.Options;

namespace Millrace.Sessions;

internal sealed class StockSessionStore : ISessionStore
{
    private readonly SessionScheme _scheme;

    public StockSessionStore(SessionServices services, IOptions<MillraceSessionOptions> options)
    {
        _scheme = new SessionScheme(services, options.Value);
        services.Log.StockMiddleware();
    }

    public ISession Create(string sessionKey, TimeSpan idleTimeout, TimeSpan ioTimeout, Func<bool> tryEstablishSession, bool isNewSessionKey) =>
        new MillraceSession(_scheme, SessionKey.OfSecret(Encoding.UTF8.GetBytes(sessionKey)), tryEstablishSession);
}
