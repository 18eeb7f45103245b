// Whose the body of a request is: that of its server, of which Content-Length is true, or another one that middleware has put in its place (decompressed, kept to be read twice). Likewise of a response.

using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
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

    /// <summary>Whether nobody has replaced it, or anything of the response: Kestrel's features are one object, and Millrace's are.</summary>
    public static bool HasServersResponse(this HttpContext context) => ReferenceEquals(context.Features.Get<IHttpResponseBodyFeature>(), context.Features.Get<IHttpResponseFeature>());
}
