// The plain handler API: one delegate over Request and Response.

using Millrace.Exchanges;

namespace Millrace.Handlers;

internal sealed class DelegateHandler : RequestHandler
{
    private readonly Action<Request, Response>? _synchronous;
    private readonly Func<Request, Response, ValueTask>? _asynchronous;

    public DelegateHandler(Action<Request, Response> handler) => _synchronous = handler;

    public DelegateHandler(Func<Request, Response, ValueTask> handler) => _asynchronous = handler;

    public override Task? Run(Exchange exchange)
    {
        if (!exchange.Head.TryGetPath())
        {
            exchange.RefusePath();
            return null;
        }

        long ticket = exchange.Ticket;
        try
        {
            if (_synchronous is not null)
            {
                _synchronous(new Request(exchange, ticket), new Response(exchange, ticket));
            }
            else
            {
                ValueTask task = _asynchronous!(new Request(exchange, ticket), new Response(exchange, ticket));
                if (!task.IsCompletedSuccessfully)
                {
                    return Finish(exchange, task);
                }

                task.GetAwaiter().GetResult();
            }
        }
        catch (Exception error)
        {
            exchange.Fail(error);
        }

        exchange.End();
        return null;
    }

    private static async Task Finish(Exchange exchange, ValueTask task)
    {
        try
        {
            // A source of the application's that goes on twice would end the request twice, and what serves another by then: a task goes on once.
            await task.AsTask().ConfigureAwait(false);
        }
        catch (Exception error)
        {
            exchange.Fail(error);
        }

        exchange.End();
    }
}
