// What a router tells an application beside the request: under which path it has found it, and over HTTP, which has no variables for that, who has sent it.
// One field, which counts only with the key that the two share: whoever else sends it is a visitor.
//
//   Millrace-Routed: KEY BASE [REMOTE PORT LOCAL PORT ["unsized"]]      an address that is not known is "-"
//
// "unsized": the client has sent no Content-Length. The framework's client sends one of 0 in its place, unless it is GET or HEAD.

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
    public static string Value(string key, string prefix, HttpContext asked) => string.Create(CultureInfo.InvariantCulture,
        $"{Value(key, prefix)} {Text(asked.Connection.RemoteIpAddress)} {asked.Connection.RemotePort} {Text(asked.Connection.LocalIpAddress)} {asked.Connection.LocalPort}{(asked.Request.ContentLength is null ? " unsized" : "")}");

    private static string Text(IPAddress? address) => address?.ToString() ?? "-";
}
