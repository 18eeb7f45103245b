// Header fields that speak of one connection, and end with it (RFC 9110 §7.6.1).

using Microsoft.Net.Http.Headers;

namespace Millrace.Connector;

internal static class ConnectionFields
{
    private static readonly HashSet<string> s_names = new(StringComparer.OrdinalIgnoreCase)
    {
        HeaderNames.Connection, HeaderNames.KeepAlive, HeaderNames.ProxyConnection, HeaderNames.TE, HeaderNames.TransferEncoding, HeaderNames.Upgrade,
    };

    public static bool Contains(string name) => s_names.Contains(name);
}
