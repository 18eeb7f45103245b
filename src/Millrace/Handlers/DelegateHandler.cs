// The plain handler API: one delegate over Request and Response.

using Millrace.Exchanges;

namespace Millrace.Handlers;

internal sealed class DelegateHandler : RequestHandler
{
    private readonly Action<Request, Response>? _synchronous;
    private readonly Func<Request, Response, ValueTask>? _asynchronous;

    public DelegateHandler(Action<Request, Response> handler) => _synchronous = handler;

    public DelegateHandler(Func<Request, Response, ValueTask> handler) => _asynchronous = handler;

    public override void Prepare(Exchange exchange) => _ = Attach(exchange);

    public override Task? Run(Exchange exchange)
    {
        Pair pair = exchange.HandlerState as Pair ?? Attach(exchange);
        pair.Response.Begin();
        if (!pair.Request.Begin())
        {
            exchange.RefusePath();
            return null;
        }

        try
        {
            if (_synchronous is not null)
            {
                _synchronous(pair.Request, pair.Response);
            }
            else
            {
                ValueTask task = _asynchronous!(pair.Request, pair.Response);
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
            await task.ConfigureAwait(false);
        }
        catch (Exception error)
        {
            exchange.Fail(error);
        }

        exchange.End();
    }

    public override void Reset(Exchange exchange)
    {
        if (exchange.HandlerState is Pair pair && !pair.Reset(exchange))
        {
            exchange.HandlerState = null;
        }
    }

    private static Pair Attach(Exchange exchange)
    {
        var pair = new Pair(new Request(exchange), new Response(exchange));
        exchange.HandlerState = pair;
        return pair;
    }

    private sealed record Pair(Request Request, Response Response)
    {
        // True when nobody else can know the pair: then it may serve the next request.
        public bool Reset(Exchange exchange)
        {
            bool reusable = Response.End() && !exchange.HasLeft;
            Request.End(reusable);
            if (!reusable)
            {
                Response.Abandon();
            }

            return reusable;
        }
    }
}
