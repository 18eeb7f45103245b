// What the daemon alone may ask a pool's process: by its private socket, and for what is done to the pool with its key besides. To a visitor these requests are like all others.

using System.Security.Cryptography;
using System.Text;
using Microsoft.AspNetCore.Http;
using Millrace.Command.Routing;
using Millrace.Command.Serving;

namespace Millrace.Command.Pools;

/// <param name="daemon">Where the daemon asks.</param>
/// <param name="key">Its own.</param>
internal sealed class PoolAuthority(DaemonsSocket daemon, string key)
{
    private readonly byte[] _key = Encoding.ASCII.GetBytes(key);

    public bool MayControl(HttpContext context) =>
        _key.Length > 0 && context.Request.Headers.TryGetValue(PoolSettingsJson.KeyField, out var said)
        && CryptographicOperations.FixedTimeEquals(Encoding.UTF8.GetBytes(said.ToString()), _key) && daemon.Has(context);

    public bool AsksForHealth(HttpContext context) => context.Request.Headers.Host == PoolSettingsJson.HealthHost && daemon.Has(context);
}
