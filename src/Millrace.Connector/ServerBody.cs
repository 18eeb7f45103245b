// Whose the body of a request is: that of its server, of which Content-Length is true, or another one that middleware has put in its place (decompressed, kept to be read twice). Likewise of a response.

using System.Buffers;
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

    /// <summary>Whether anything may come of it. Over FastCGI without a length only its end tells that it is empty: what the feature says before that is as applications expect it, and may be wrong.</summary>
    public static bool MayHaveBody(this HttpContext context) =>
        context.Request.ContentLength != 0 && ((context.AsMade() ?? context.Features.Get<IHttpRequestBodyDetectionFeature>()) is not { CanHaveBody: false } detection || (detection is RequestBound its && IsComing(its)));

    private static bool IsComing(RequestBound its)
    {
        using ExchangeUse use = its.Exchange.Use(its.Ticket);
        return its.Exchange.Head.IsFastCgi && its.Exchange.Body.State != BodyState.Complete;
    }

    /// <summary>Bytes of its body, as its writer takes them.</summary>
    public static void WriteBody(this HttpResponse response, ReadOnlySpan<byte> bytes)
    {
        if (response.BodyWriter is ResponseWriter its)
        {
            its.Append(bytes);      // behind the synchronous part of its handler it would have memory made for each piece
            return;
        }
        response.BodyWriter.Write(bytes);
    }

    /// <summary>Whether nobody has replaced it, or anything of the response: Kestrel's features are one object, and Millrace's are.</summary>
    public static bool HasServersResponse(this HttpContext context) =>
        context.AsMade() is not null || ReferenceEquals(context.Features.Get<IHttpResponseBodyFeature>(), context.Features.Get<IHttpResponseFeature>());
}
