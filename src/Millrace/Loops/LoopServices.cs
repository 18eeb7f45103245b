// What the loops of one server share: options, the handler, drivers, the monitor, spare exchanges, limits.

using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.WebUtilities;
using Millrace.Exchanges;
using Millrace.Handlers;
using Millrace.Observe;
using Millrace.Platform;
using Millrace.Protocols.Http1;

namespace Millrace.Loops;

internal sealed class LoopServices : IDisposable
{
    private const int SpareMax = 1_024;

    private readonly SteadyQueue<Exchange> _exchanges = new();
    private readonly SteadyQueue<OutputBuffer> _outputs = new();
    private readonly DriverPool? _pool;
    private readonly TaskCompletionSource _over = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _users = 1;     // loops that have not ended, and whoever made this
    private int _connections;
    private int _upgraded;
    private long _handOversRefused;

    public LoopServices(MillraceOptions options, RequestHandler handler, Log log, IDriverSource? drivers = null, Action<DriverThread>? startThread = null)
    {
        Options = options;
        Handler = handler;
        Log = log;
        SlowRequestMs = options.SlowRequestThreshold > TimeSpan.Zero ? (long)options.SlowRequestThreshold.TotalMilliseconds : long.MaxValue;
        HttpLimits = new Http1Limits
        {
            RequestLineMax = options.MaxRequestLineBytes,
            HeaderBytesMax = options.HttpHeaderBytesMax,
            HeaderCountMax = options.MaxHeaders,
            RefusesDotSegments = options.DotSegments == DotSegments.Refuse,
        };
        HttpRates = PeerRates.ForHttp(options);
        FastCgiRates = PeerRates.ForFastCgi(options);
        Monitor = new LoopMonitor(this);
        Gate = options.MaxConcurrentRequests is int limit ? new RequestGate(limit, options.RequestQueueLimit) : null;
        Standby = drivers ?? (_pool = startThread is null ? new DriverPool(this) : new DriverPool(this) { StartThread = startThread });
    }

    public MillraceOptions Options { get; }

    /// <summary>What the options say of HTTP heads.</summary>
    public readonly Http1Limits HttpLimits;

    public RequestHandler Handler { get; }

    public Log Log { get; }

    public LoopMonitor Monitor { get; }

    /// <summary>What handlers may do to the threads they run on.</summary>
    public CodeWatch Code { get; set; } = CodeWatch.OfProcess;

    public IDriverSource Standby { get; }

    /// <summary>Null when the number of concurrent requests is bounded by the number of connections alone.</summary>
    public RequestGate? Gate { get; }

    /// <summary>How fast a peer must be where no request has other rates, by protocol.</summary>
    public PeerRates HttpRates { get; }

    public PeerRates FastCgiRates { get; }

    /// <summary>From how many milliseconds on a request is slow; the largest number when nobody asks.</summary>
    public long SlowRequestMs { get; }

    /// <summary>What happened on threads that drive no loop.</summary>
    public LoopCounters OffLoop { get; } = new();

    // ---- connections ----

    public int Connections => Volatile.Read(ref _connections);

    public bool TryAddConnection()
    {
        if (Interlocked.Increment(ref _connections) <= Options.MaxConnections)
        {
            return true;
        }

        Interlocked.Decrement(ref _connections);
        return false;
    }

    public void RemoveConnection() => Interlocked.Decrement(ref _connections);

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
        if (_exchanges.Count < SpareMax)
        {
            _exchanges.Enqueue(exchange);
        }
    }

    public OutputBuffer RentOutput() => _outputs.TryDequeue(out OutputBuffer? output) ? output : new OutputBuffer();

    public void Return(OutputBuffer output)
    {
        output.Clear();
        if (_outputs.Count < SpareMax)
        {
            _outputs.Enqueue(output);
        }
    }

    /// <summary>Runs code of the application that must not run on a loop.</summary>
    public void RunUserCode(Action<object?> action, object? state) => QueueUserCode(
        static state =>
        {
            (LoopServices services, Action<object?> action, object? argument) = ((LoopServices, Action<object?>, object?))state!;
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
    public Action<LoopServices, CancellationTokenSource> CancelToken { get; init; } = static (services, source) => source.CancelAsync().ContinueWith(
        static (cancelled, services) => ((LoopServices)services!).Log.ContinuationFailed(cancelled.Exception!),
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

    /// <summary>From this number on descriptors are the application's: <see cref="MillraceOptions.ReservedDescriptors"/>.</summary>
    public int DescriptorCeiling { get; set; } = int.MaxValue;

    // ---- driving ----

    /// <summary>A driver for each of so many loops; <see cref="Start"/> gives them one.</summary>
    /// <exception cref="MillraceStartException">The system has no thread for one of them. Those that there are stand by.</exception>
    public IStandbyDriver[] ReserveDrivers(int loops)
    {
        var drivers = new List<IStandbyDriver>(loops);
        while (drivers.Count < loops)
        {
            if (Standby.TryReserve() is { } driver)
            {
                drivers.Add(driver);
                continue;
            }

            drivers.ForEach(Standby.Release);
            throw NoThread($"event loop {drivers.Count + 1} of {loops}");
        }

        return [.. drivers];
    }

    public static MillraceStartException NoThread(string what, Exception? cause = null) => new(
        $"The system gives no thread for {what}. Allow the process more threads (ulimit -u, TasksMax, pids.max) or memory, or set Loops lower.", cause);

    /// <summary>Starts a loop on a thread that was reserved for it.</summary>
    public void Start(EventLoop loop, IStandbyDriver driver)
    {
        Interlocked.Increment(ref _users);
        driver.Give(loop);
    }

    public void Drive(EventLoop loop, LoopDriver driver)
    {
        bool hasEnded = loop.Resume(driver) && DriveOn(loop, driver);
        BatchScheduling.Leave();
        if (hasEnded)
        {
            Leave();
        }
    }

    // An interruption of the thread between two events, whatever of the runtime waited there: the loop is still the driver's.
    private static bool DriveOn(EventLoop loop, LoopDriver driver)
    {
        while (true)
        {
            try
            {
                return loop.Drive(driver);
            }
            catch (ThreadInterruptedException)
            {
                driver.ForgetInterruption();
            }
        }
    }

    /// <summary>
    /// Whoever made this has no more use for it, or a loop has ended. Handlers may outlive the server, and their loops stay for them:
    /// who leaves last ends the threads.
    /// </summary>
    public void Leave()
    {
        if (Interlocked.Decrement(ref _users) == 0)
        {
            Dispose();
            _over.SetResult();
        }
    }

    /// <summary>Ends when everybody has left.</summary>
    public Task Over => _over.Task;

    public long HandOversRefused => Interlocked.Read(ref _handOversRefused);

    public void HandOverRefused()
    {
        if (Interlocked.Increment(ref _handOversRefused) == 1)
        {
            Log.DriversExhausted(Options.DriversMax);
        }
    }

    public void Dispose()
    {
        Monitor.Dispose();
        _pool?.Dispose();
    }
}
