// What a router tells an application beside the request: under which path it has found it, and over HTTP, which has no variables for that, who has sent it.
// One field, which counts only with the key that the two share: whoever else sends it is a visitor.
//
//   Millrace-Routed: KEY BASE [REMOTE PORT LOCAL PORT]      an address that is not known is "-"

using System.Globalization;
using System.Net;
using Microsoft.AspNetCore.Http;

namespace Millrace.Connector;

internal static class RoutedBy
{
    /// <summary>The field. What a visitor sends of that name goes no further.</summary>
    public const string Field = "Millrace-Routed";

    /// <summary>Its value for a request that goes on over FastCGI.</summary>
    public static string Value(string key, string prefix) => $"{key} {Uri.EscapeDataString(prefix)}";

    /// <summary>Its value for one that goes on over HTTP.</summary>
    public static string Value(string key, string prefix, ConnectionInfo sender) => string.Create(CultureInfo.InvariantCulture,
        $"{Value(key, prefix)} {Text(sender.RemoteIpAddress)} {sender.RemotePort} {Text(sender.LocalIpAddress)} {sender.LocalPort}");

    private static string Text(IPAddress? address) => address?.ToString() ?? "-";
}
