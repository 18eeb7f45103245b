// The meter "Millrace": sums over the loops' counters, read when a listener asks.

using System.Diagnostics.Metrics;
using Millrace.Loops;
using Millrace.Observe;

namespace Millrace;

internal sealed class ServerMeter : IDisposable
{
    public const string Name = "Millrace";

    private readonly Meter _meter;

    public ServerMeter(IReadOnlyList<EventLoop> loops, LoopServices services)
    {
        _meter = new Meter(Name);
        LoopCounters[] all = [.. loops.Select(static loop => loop.Counters), services.OffLoop];
        Counter("millrace.connections.accepted", "{connection}", "Connections accepted.", all, static c => c.Accepted);
        _meter.CreateObservableUpDownCounter("millrace.connections.open", () => services.Connections, "{connection}", "Connections open now.");
        Counter("millrace.requests", "{request}", "Requests begun.", all, static c => c.Requests);
        Counter("millrace.requests.async", "{request}", "Requests whose handler did not end in its turn.", all, static c => c.WentAsync);
        Counter("millrace.requests.workers", "{request}", "Requests run on worker threads.", all, static c => c.Workers);
        Counter("millrace.requests.queued", "{request}", "Requests that waited for MaxConcurrentRequests.", all, static c => c.Queued);
        Counter("millrace.requests.aborted", "{request}", "Requests aborted or given up by the front server (FastCGI).", all, static c => c.Aborts);
        Counter("millrace.handovers", "{handover}", "Loops handed to another thread because a handler blocked.", all, static c => c.HandOvers);
        _meter.CreateObservableCounter("millrace.handovers.refused", () => services.HandOversRefused, "{handover}", "Hand-overs that found no thread: the system refused one.");
        _meter.CreateObservableUpDownCounter("millrace.drivers", () => services.Standby.Count, "{thread}", "Threads that drive loops, stand by or run handlers.");
        _meter.CreateObservableUpDownCounter("millrace.drivers.waiting", () => services.Standby.Waiting, "{request}", "Handlers in the queue for worker threads.");
        Counter("millrace.bytes.received", "By", "Bytes received.", all, static c => c.BytesReceived);
        Counter("millrace.bytes.sent", "By", "Bytes sent.", all, static c => Volatile.Read(ref c.BytesSent));
        _meter.CreateObservableCounter("millrace.refusals", () => Refusals(all), "{refusal}", "What was refused or broken off, by fault.");
        _meter.CreateObservableCounter("millrace.responses", () => Responses(all), "{response}", "Responses by class of status.");
    }

    public void Dispose() => _meter.Dispose();

    private void Counter(string name, string unit, string description, LoopCounters[] all, Func<LoopCounters, long> read) =>
        _meter.CreateObservableCounter(name, () => all.Sum(read), unit, description);

    private static IEnumerable<Measurement<long>> Refusals(LoopCounters[] all) => all
        .SelectMany(static c => c.Refusals)
        .GroupBy(static pair => pair.Key)
        .Select(static group => new Measurement<long>(group.Sum(static pair => pair.Value), new KeyValuePair<string, object?>("fault", group.Key)));

    private static IEnumerable<Measurement<long>> Responses(LoopCounters[] all) => Enumerable.Range(1, 5)
        .Select(i => new Measurement<long>(all.Sum(c => Volatile.Read(ref c.Responses[i])), new KeyValuePair<string, object?>("status", $"{i}xx")));
}
