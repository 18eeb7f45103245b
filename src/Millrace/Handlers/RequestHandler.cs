// What runs requests: an ASP.NET Core application (AspNetCore/HostedHandler) or a delegate (DelegateHandler). A handler
// knows nothing of the protocol its requests arrived by.

using Millrace.Exchanges;

namespace Millrace.Handlers;

internal abstract class RequestHandler
{
    /// <summary>Makes what is kept with an exchange, before the first request comes.</summary>
    public virtual void Prepare(Exchange exchange)
    {
    }

    /// <summary>Runs one request to the end of its response. Null or a completed task when it ended in this call. Never throws, never fails.</summary>
    public abstract Task? Run(Exchange exchange);

    /// <summary>The pattern of the route that serves the request; null when there is none.</summary>
    public virtual string? RouteOf(Exchange exchange) => null;

    /// <summary>The exchange's request is over: what was kept for it is cleared.</summary>
    public abstract void Reset(Exchange exchange);
}
