// Who is at the two ends of a visitor's connection. As they are of the connection, where nobody has said otherwise: their texts are made once for all of its requests.

using System.Net;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.AspNetCore;

namespace Millrace.Connector;

internal readonly record struct VisitorEnds(IPAddress? Local, int LocalPort, IPAddress? Remote, int RemotePort)
{
    public static VisitorEnds Of(HttpContext context)
    {
        if ((context.AsMade() ?? context.Features.Get<IHttpConnectionFeature>()) is RequestFeatures its && its.TryGetEnds(out IPEndPoint? remote, out IPEndPoint? local))
        {
            return new VisitorEnds(local?.Address, local?.Port ?? 0, remote?.Address, remote?.Port ?? 0);
        }
        ConnectionInfo connection = context.Connection;
        return new VisitorEnds(connection.LocalIpAddress, connection.LocalPort, connection.RemoteIpAddress, connection.RemotePort);
    }
}
