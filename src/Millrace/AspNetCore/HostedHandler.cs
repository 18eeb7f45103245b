// Runs requests through an ASP.NET Core application, in the order the hosting layer expects: features filled, context
// created, pipeline run, response ended and on its way, OnCompleted, context disposed.

using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.Extensions.Logging;
using Millrace.Exchanges;
using Millrace.Handlers;

namespace Millrace.AspNetCore;

internal sealed class HostedHandler<TContext>(IHttpApplication<TContext> application, ILogger logger) : RequestHandler
    where TContext : notnull
{
    public override void Prepare(Exchange exchange) => _ = new HostedFeatures(exchange);

    public override Task? Run(Exchange exchange)
    {
        if (!exchange.Head.TryGetPath())
        {
            exchange.RefusePath();
            return null;
        }

        var features = new HostedFeatures(exchange);
        exchange.HandlerState = features;
        TContext context;
        Task task;
        try
        {
            ConnectionLogScope.Enter(exchange.Connection, logger);
            context = application.CreateContext(features);
        }
        catch (Exception error)
        {
            exchange.Fail(error);
            exchange.End();
            if (!features.HasOnCompleted)
            {
                return null;
            }

            LetEndLeave(exchange, atOnce: true);
            return features.RunOnCompleted();       // what was made for it before it failed is disposed of there
        }

        try
        {
            task = application.ProcessRequestAsync(context) ?? throw new InvalidOperationException("The application answered with no task.");
        }
        catch (Exception error)
        {
            task = Task.FromException(error);
        }

        // OnCompleted last: a callback of OnStarting may have asked for it.
        if (!task.IsCompletedSuccessfully || features.StartResponse() is not null || features.Starting is not null || features.HasOnCompleted)
        {
            return Finish(exchange, features, context, task);
        }

        exchange.End();
        LetEndLeave(exchange, atOnce: false);
        Dispose(exchange, context, exchange.EndFailure);
        return null;
    }

    // What comes after it is the application's, and may take its time: it must not hold the response up.
    private static void LetEndLeave(Exchange exchange, bool atOnce)
    {
        if (exchange.IsInline && !atOnce)
        {
            exchange.Sender.DeferEnd();
        }
        else
        {
            exchange.Sender.SendEnd();
        }
    }

    private async Task Finish(Exchange exchange, HostedFeatures features, TContext context, Task task)
    {
        Exception? failure = null;
        try
        {
            await task.ConfigureAwait(false);
            while ((features.Starting ?? features.StartResponse()) is { } starting)
            {
                await starting.ConfigureAwait(false);
            }
        }
        catch (Exception error)
        {
            failure = exchange.IsLetGoBy(error) ? null : error;      // to hosting, as to Kestrel, a client that leaves is no failure of the application
            features.DropOnStarting();
            exchange.Fail(error);
        }

        try
        {
            exchange.End();
            LetEndLeave(exchange, atOnce: features.HasOnCompleted);
            if (features.HasOnCompleted)
            {
                await features.RunOnCompleted().ConfigureAwait(false);
            }
        }
        finally
        {
            Dispose(exchange, context, failure ?? exchange.EndFailure);
        }
    }

    private void Dispose(Exchange exchange, TContext context, Exception? failure)
    {
        try
        {
            application.DisposeContext(context, failure);
        }
        catch (Exception error)
        {
            exchange.Services.Log.HandlerFailed(exchange.TraceIdentifier, error);
        }
    }

    public override string? RouteOf(Exchange exchange) => (exchange.HandlerState as HostedFeatures)?.Route;
}
