// Where a loop passes a request on to, and by what it finds that out.

using System.Text;

namespace Millrace.Connector;

internal interface IRelayRoutes
{
    /// <summary>The route of a request, or null: then it is answered in another way, or not at all.</summary>
    /// <param name="host">Without a port.</param>
    /// <param name="path">Decoded.</param>
    RelayRoute? Find(ReadOnlySpan<char> host, ReadOnlySpan<char> path);
}

/// <param name="upstream">Its place in the list that <see cref="FastCgiRelays"/> was given.</param>
/// <param name="prefix">The path that leads there: empty, or '/' and segments, without a '/' at its end.</param>
/// <param name="key">By which the responder knows its router; null where it asks for none.</param>
internal sealed class RelayRoute(int upstream, string prefix, string? key)
{
    private readonly byte[] _prefix = Encoding.UTF8.GetBytes(prefix);
    private readonly byte[] _mark = prefix.Length > 0 && key is not null ? Encoding.ASCII.GetBytes(RoutedBy.Value(key, prefix)) : [];

    public int Upstream => upstream;

    public string Prefix => prefix;

    public ReadOnlySpan<byte> PrefixBytes => _prefix;

    /// <summary>The value of <see cref="RoutedBy.Field"/>, or nothing.</summary>
    public ReadOnlySpan<byte> Mark => _mark;

    /// <summary>A host without its port, as HostString has it.</summary>
    public static ReadOnlySpan<char> NameOf(ReadOnlySpan<char> host)
    {
        int port = PortAt(host);
        return port < 0 ? host : host[..port];
    }

    public static int? PortOf(ReadOnlySpan<char> host) =>
        PortAt(host) is >= 0 and int at && int.TryParse(host[(at + 1)..], System.Globalization.NumberStyles.None, System.Globalization.CultureInfo.InvariantCulture, out int port) ? port : null;

    // host = name [ ":" port ] / "[" address "]" [ ":" port ]
    private static int PortAt(ReadOnlySpan<char> host)
    {
        int end = host.IndexOf(']');
        int colon = host.LastIndexOf(':');
        return colon > end && (end > 0 || host.IndexOf(':') == colon) ? colon : -1;
    }
}

/// <summary>A responder.</summary>
/// <param name="Address">Where it listens: a sockaddr of a Unix socket.</param>
/// <param name="Place">The same, for the log.</param>
/// <param name="Pool">The connections of those who can wait; all of them together are bounded by it.</param>
/// <param name="Said">Takes what it prints. Does not wait.</param>
/// <param name="Failed">Takes why a request has got no answer. Does not wait.</param>
internal sealed record RelayUpstream(byte[] Address, string Place, ConnectionPool Pool, Action<string> Said, Action<string> Failed);
