// What is made for one request, may be kept for ever, and leads on to other such objects: it knows the exchange and the ticket of
// its request for them, and what must happen before the first byte of the response.

namespace Millrace.Exchanges;

internal abstract class RequestBound(Exchange exchange)
{
    internal readonly Exchange Exchange = exchange;
    internal readonly long Ticket = exchange.Ticket;

    /// <summary>Does it, in ASP.NET Core the OnStarting callbacks. Null when there is nothing to wait for.</summary>
    public abstract Task? StartResponse();
}
