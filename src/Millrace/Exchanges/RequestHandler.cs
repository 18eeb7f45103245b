// What runs requests: an ASP.NET Core application (AspNetCore/HostedHandler) or a delegate (DelegateHandler). A handler
// knows nothing of the protocol its requests arrived by.

namespace Millrace.Exchanges;

internal abstract class RequestHandler
{
    /// <summary>Has the runtime load what every request needs, before the first comes.</summary>
    public virtual void Prepare(Exchange exchange)
    {
    }

    /// <summary>Runs one request to the end of its response. Null or a completed task when it ended in this call. Never throws, never fails.</summary>
    public abstract Task? Run(Exchange exchange);

    /// <summary>The pattern of the route that serves the request; null when there is none.</summary>
    public virtual string? RouteOf(Exchange exchange) => null;

    /// <summary>The exchange's request is over.</summary>
    public virtual void Reset(Exchange exchange)
    {
    }
}
