// Stands before the handler of a simulation: names each request the same way in every run, and sees to it that no exchange
// runs twice at once and that each comes back.

using System.Globalization;
using Millrace.Exchanges;
using Millrace.Handlers;

namespace Millrace.Tests.Simulation;

internal sealed class WatchedHandler(Simulation simulation, RequestHandler inner) : RequestHandler
{
    private readonly HashSet<Exchange> _running = [];

    /// <summary>Requests that have been given to the handler.</summary>
    public int Started { get; private set; }

    /// <summary>Exchanges whose request has not been reset yet.</summary>
    public int Running => _running.Count;

    /// <summary>The exchange whose handler is just being called.</summary>
    public Exchange? Current { get; private set; }

    public override Task? Run(Exchange exchange)
    {
        if (simulation.World.HasEnded)
        {
            exchange.End();
            return null;        // what is left of a process that has crashed comes to its end, and nobody is asked
        }

        if (!_running.Add(exchange))
        {
            simulation.Violated("an exchange runs two requests at once");
        }

        Started++;
        exchange.TraceIdentifier = string.Create(CultureInfo.InvariantCulture, $"{Started:D8}");
        simulation.Trace("request", Started);
        Current = exchange;
        return inner.Run(exchange);
    }

    public override void Reset(Exchange exchange)
    {
        _running.Remove(exchange);
        inner.Reset(exchange);
    }
}
