// What the exchanges of one server share: options, the handler, the log, spare objects, and where code of the application runs
// that must not run on a loop.

using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.WebUtilities;
using Millrace.Observe;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal abstract class ExchangeServices
{
    private const int SpareMax = 1_024;

    private readonly SteadyQueue<Exchange> _exchanges = new();
    private readonly SteadyQueue<OutputBuffer> _outputs = new();
    private int _upgraded;

    protected ExchangeServices(MillraceOptions options, RequestHandler handler, Log log)
    {
        Options = options;
        Handler = handler;
        Log = log;
        HttpRates = PeerRates.ForHttp(options);
        FastCgiRates = PeerRates.ForFastCgi(options);
        SlowRequestMs = options.SlowRequestThreshold > TimeSpan.Zero ? (long)options.SlowRequestThreshold.TotalMilliseconds : long.MaxValue;
    }

    public MillraceOptions Options { get; }

    public RequestHandler Handler { get; }

    public Log Log { get; }

    /// <summary>How fast a peer must be where no request has other rates, by protocol.</summary>
    public PeerRates HttpRates { get; }

    public PeerRates FastCgiRates { get; }

    /// <summary>From how many milliseconds on a request is slow; the largest number when nobody asks.</summary>
    public long SlowRequestMs { get; }

    /// <summary>What happened after the turn of a request, on whatever thread.</summary>
    public LoopCounters OffLoop { get; } = new();

    // ---- switched connections ----

    /// <summary>Counts one more connection that switches protocols.</summary>
    /// <exception cref="InvalidOperationException">As many as may have done so.</exception>
    public void AddUpgraded()
    {
        if (Interlocked.Increment(ref _upgraded) > (Options.MaxUpgradedConnections ?? int.MaxValue))
        {
            Interlocked.Decrement(ref _upgraded);
            throw TooManyUpgraded();
        }
    }

    /// <exception cref="InvalidOperationException">As many connections as may have switched protocols.</exception>
    public void CheckUpgraded()
    {
        if (Volatile.Read(ref _upgraded) >= (Options.MaxUpgradedConnections ?? int.MaxValue))
        {
            throw TooManyUpgraded();
        }
    }

    private InvalidOperationException TooManyUpgraded() =>
        new($"The protocol cannot be switched: as many connections as may ({Options.MaxUpgradedConnections}, MaxUpgradedConnections) have done so.");

    public void RemoveUpgraded() => Interlocked.Decrement(ref _upgraded);

    // ---- spares ----

    public Exchange RentExchange() => _exchanges.TryDequeue(out Exchange? exchange) ? exchange : new Exchange(this);

    public void Return(Exchange exchange)
    {
        if (!DriverBuffers.TryKeepHere(exchange) && _exchanges.Count < SpareMax)
        {
            _ = _exchanges.TryEnqueue(exchange);
        }
    }

    public OutputBuffer RentOutput() => _outputs.TryDequeue(out OutputBuffer? output) ? output : new OutputBuffer();

    /// <summary>The spare one, or another, with room for so many bytes; null where there is no memory for that.</summary>
    public OutputBuffer? TryTake(ref OutputBuffer? spare, int size)
    {
        try
        {
            OutputBuffer output = spare ??= RentOutput();
            _ = output.Reserve(size);
            spare = null;
            return output;
        }
        catch (OutOfMemoryException)
        {
            return null;
        }
    }

    public void Return(OutputBuffer output)
    {
        output.Clear();
        output.Release();
        if (_outputs.Count < SpareMax)
        {
            _ = _outputs.TryEnqueue(output);
        }
    }

    /// <summary>Runs code of the application that must not run on a loop.</summary>
    public void RunUserCode(Action<object?> action, object? state) => QueueUserCode(
        static state =>
        {
            (ExchangeServices services, Action<object?> action, object? argument) = ((ExchangeServices, Action<object?>, object?))state!;
            try
            {
                action(argument);
            }
            catch (Exception error)
            {
                services.Log.ContinuationFailed(error);     // a callback of a token, for example: nobody else would see it
            }
        },
        (this, action, state));

    /// <summary>The token is cancelled when this returns; its callbacks, code of the application, run elsewhere.</summary>
    public void Cancel(CancellationTokenSource source) => CancelToken(this, source);

    /// <summary>How that is done.</summary>
    public Action<ExchangeServices, CancellationTokenSource> CancelToken { get; init; } = static (services, source) => source.CancelAsync().ContinueWith(
        static (cancelled, services) => ((ExchangeServices)services!).Log.ContinuationFailed(cancelled.Exception!),
        services,
        CancellationToken.None,
        TaskContinuationOptions.OnlyOnFaulted | TaskContinuationOptions.ExecuteSynchronously,
        TaskScheduler.Default);

    /// <summary>Where that code runs.</summary>
    public Action<Action<object?>, object?> QueueUserCode { get; init; } =
        Steady.Queue;

    /// <summary>
    /// Has the runtime load what every request needs. Left to the first one, it fails in a process without a free descriptor, and
    /// the runtime does not try to load an assembly a second time.
    /// </summary>
    public void Prepare()
    {
        Array.ForEach([typeof(BadHttpRequestException), typeof(ConnectionResetException), typeof(HeaderDictionary), typeof(ReasonPhrases)], static type => _ = type.Module);
        Exchange exchange = RentExchange();
        Handler.Prepare(exchange);
        Return(exchange);
    }
}
