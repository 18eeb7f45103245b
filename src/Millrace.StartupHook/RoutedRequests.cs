// Ahead of all that an application does with a request: what its router says of it (RoutedBy of Millrace.Connector, whose field is read here). The application
// sees paths as if it had the address for itself, links it makes have the whole path, and a request that came over HTTP has the client's address, as one over
// FastCGI does. The router names the path itself, since it and the application learn of another one at different moments.

using System.Globalization;
using System.Net;
using System.Security.Cryptography;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;

namespace Millrace.StartupHooks;

/// <param name="path">The path base of requests that come by no router; empty for none.</param>
/// <param name="key">By which the router is known; empty where there is none.</param>
internal sealed class RoutedRequests(string path, string key) : IStartupFilter
{
    internal const string Field = "Millrace-Routed";

    private readonly PathString _path = new(path);
    private readonly byte[] _key = Encoding.ASCII.GetBytes(key);

    public Action<IApplicationBuilder> Configure(Action<IApplicationBuilder> next) => app =>
    {
        app.Use(AnswerAsync);
        next(app);
    };

    internal Task AnswerAsync(HttpContext context, RequestDelegate next)
    {
        PathString basePath = _path;
        if (context.Request.Headers.TryGetValue(Field, out var said))
        {
            context.Request.Headers.Remove(Field);
            string[] parts = said.ToString().Split(' ');
            if (parts.Length >= 2 && _key.Length > 0 && CryptographicOperations.FixedTimeEquals(Encoding.ASCII.GetBytes(parts[0]), _key))
            {
                basePath = new PathString(Uri.UnescapeDataString(parts[1]));
                TakeAddresses(context.Connection, parts);
                if (parts is [.., "unsized"])
                {
                    context.Request.ContentLength = null;
                }
            }
        }
        return basePath.HasValue && context.Request.Path.StartsWithSegments(basePath, out PathString matched, out PathString rest) ? AnswerBelowAsync(context, next, matched, rest) : next(context);
    }

    // As UsePathBase does.
    private static async Task AnswerBelowAsync(HttpContext context, RequestDelegate next, PathString matched, PathString rest)
    {
        var (path, pathBase) = (context.Request.Path, context.Request.PathBase);
        (context.Request.Path, context.Request.PathBase) = (rest, pathBase.Add(matched));
        try
        {
            await next(context);
        }
        finally
        {
            (context.Request.Path, context.Request.PathBase) = (path, pathBase);
        }
    }

    private static void TakeAddresses(ConnectionInfo connection, string[] parts)
    {
        if (parts is [_, _, var remote, var remotePort, var local, var localPort, ..])
        {
            (connection.RemoteIpAddress, connection.RemotePort) = (AddressOf(remote), PortOf(remotePort));
            (connection.LocalIpAddress, connection.LocalPort) = (AddressOf(local), PortOf(localPort));
        }
    }

    private static IPAddress? AddressOf(string text) => IPAddress.TryParse(text, out var address) ? address : null;

    private static int PortOf(string text) => int.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out int port) ? port : 0;
}
