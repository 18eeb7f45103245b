// Whose the body of a request is: that of its server, of which Content-Length is true, or another one that middleware has put in its place (decompressed, kept to be read twice).

using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.DependencyInjection;
using Millrace.Exchanges;

namespace Millrace.Connector;

internal static class ServerBody
{
    private const string FrameworkServers = "Microsoft.AspNetCore.Server.";     // Kestrel, IIS, HTTP.sys

    /// <summary>Whether nobody has replaced it.</summary>
    public static bool HasServersBody(this HttpRequest request)
    {
        Type body = request.Body.GetType();
        return body == typeof(RequestStream) || body.Namespace?.StartsWith(FrameworkServers, StringComparison.Ordinal) == true
            || body.Assembly == request.HttpContext.RequestServices?.GetService<IServer>()?.GetType().Assembly;
    }
}
