// By what an application knows its router: a key for each, made of a secret that the daemon shares with its routers alone.

using System.Security.Cryptography;
using System.Text;

namespace Millrace.Command.Routing;

internal sealed class RouteKey
{
    /// <summary>The variable by which a router gets the secret.</summary>
    public const string Variable = "MILLRACE_ROUTER_SECRET";

    /// <summary>The variable by which an application gets its key.</summary>
    public const string AppVariable = "MILLRACE_SERVE_ROUTED";

    private const int SecretSize = 32;
    private const int KeySize = 16;

    private readonly byte[] _secret;

    private RouteKey(byte[] secret) => _secret = secret;

    /// <summary>That of this daemon, the same as long as it runs.</summary>
    public static RouteKey OfDaemon { get; private set; } = new(RandomNumberGenerator.GetBytes(SecretSize));

    /// <summary>From now on this daemon's is that of the one before it, whose routers and applications go on.</summary>
    public static void Resume(string secret) => OfDaemon = new RouteKey(Convert.FromHexString(secret));

    /// <summary>The secret as text.</summary>
    public string Secret => Convert.ToHexString(_secret);

    /// <summary>Takes it out of a router's environment.</summary>
    public static RouteKey Take()
    {
        string? secret = Environment.GetEnvironmentVariable(Variable);
        Environment.SetEnvironmentVariable(Variable, null);
        return secret is null ? OfDaemon : new RouteKey(Convert.FromHexString(secret));
    }

    /// <summary>The key of an application.</summary>
    public string Of(string app) => Convert.ToHexString(HMACSHA256.HashData(_secret, Encoding.UTF8.GetBytes(app)).AsSpan(0, KeySize));
}
