// What the loops of one server share besides what its exchanges do: drivers, the monitor, the gate, limits.

using Millrace.Exchanges;
using Millrace.Observe;
using Millrace.Platform;
using Millrace.Protocols.Http1;

namespace Millrace.Loops;

internal sealed class LoopServices : ExchangeServices, IDisposable
{
    private const int FaultPauseMs = 10;    // should each turn fail, the machine must not be busy with that

    private readonly DriverPool? _pool;
    private readonly TaskCompletionSource _over = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _users = 1;     // loops that have not ended, and whoever made this
    private int _connections;
    private long _handOversRefused;
    private int _saidDrivers;
    private volatile bool _isShortOfThreads;

    public LoopServices(MillraceOptions options, RequestHandler handler, Log log, IDriverSource? drivers = null, Action<DriverThread>? startThread = null)
        : base(options, handler, log)
    {
        HttpLimits = new Http1Limits
        {
            RequestLineMax = options.MaxRequestLineBytes,
            HeaderBytesMax = (int)Math.Min(int.MaxValue, (long)options.HttpHeaderBytesMax + options.RoutedBytes),
            HeaderCountMax = options.MaxHeaders + options.RoutedFields,
            RefusesDotSegments = options.DotSegments == DotSegments.Refuse,
        };
        Monitor = new LoopMonitor(this);
        Gate = options.MaxConcurrentRequests is int limit ? new RequestGate(limit, options.RequestQueueLimit) : null;
        Standby = drivers ?? (_pool = startThread is null ? new DriverPool(this) : new DriverPool(this) { StartThread = startThread });
    }

    /// <summary>What the options say of HTTP heads.</summary>
    public readonly Http1Limits HttpLimits;

    public LoopMonitor Monitor { get; }

    /// <summary>What handlers may do to the threads they run on.</summary>
    public CodeWatch Code { get; set; } = CodeWatch.OfProcess;

    public IDriverSource Standby { get; }

    /// <summary>Null when the number of concurrent requests is bounded by the number of connections alone.</summary>
    public RequestGate? Gate { get; }

    // ---- connections ----

    public int Connections => Volatile.Read(ref _connections);

    /// <param name="isUncounted">It is one that may come however many there are.</param>
    public bool TryAddConnection(bool isUncounted = false)
    {
        if (Interlocked.Increment(ref _connections) <= Options.MaxConnections || (isUncounted && !Options.CountsAll))
        {
            return true;
        }

        Interlocked.Decrement(ref _connections);
        return false;
    }

    public void RemoveConnection() => Interlocked.Decrement(ref _connections);

    /// <summary>From this number on descriptors are for no new connection: <see cref="MillraceOptions.ReservedDescriptors"/>.</summary>
    public int DescriptorCeiling { get; set; } = int.MaxValue;

    /// <summary>
    /// Of those that are kept back so many are for connections that are not to wait beside new ones that have taken all others: those that another server has had, whose peers have been
    /// served, and those that do not count.
    /// </summary>
    public int ReservePart { get; set; }

    // ---- driving ----

    /// <summary>A driver for each of so many loops; <see cref="Start"/> gives them one.</summary>
    /// <exception cref="MillraceStartException">The system has no thread for one of them. Those that there are stand by.</exception>
    public IStandbyDriver[] ReserveDrivers(int loops)
    {
        var drivers = new List<IStandbyDriver>(loops);
        while (drivers.Count < loops)
        {
            if (Standby.TryReserve() is not { } driver)
            {
                drivers.ForEach(Standby.Release);
                throw NoThread($"event loop {drivers.Count + 1} of {loops}");
            }

            drivers.Add(driver);
        }

        if (!Standby.KeepStandby())
        {
            drivers.ForEach(Standby.Release);
            throw NoThread("the first loop whose handler blocks");
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
        driver.BeginDriving();
        bool hasEnded = loop.Resume(driver) && DriveOn(loop, driver);
        driver.EndDriving();
        BatchScheduling.Leave();
        if (hasEnded)
        {
            Leave();
        }
    }

    // An interruption of the thread between two events, whatever of the runtime waited there, or a fault outside of any connection, as where there
    // is no memory: the loop is still the driver's.
    private bool DriveOn(EventLoop loop, LoopDriver driver)
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
            catch (Exception error)
            {
                Log.InternalError(error);
                SystemCalls.SleepMs(FaultPauseMs);
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

    /// <summary>Closes the channel to the next process when everybody has left: a loop that has not heard of the end yet would give its connections to whoever has the number next.</summary>
    public async Task CloseBehindLoopsAsync(int descriptor)
    {
        await Over.ConfigureAwait(false);
        _ = SystemCalls.Close(descriptor);
    }

    public long HandOversRefused => Interlocked.Read(ref _handOversRefused);

    // The system has refused a thread, and the pool says so.
    public void HandOverRefused() => Interlocked.Increment(ref _handOversRefused);

    /// <summary>
    /// A handler that blocked its loop would perhaps find no thread to take that over. Handlers, and what goes on of them, wait for a thread
    /// that has finished. Written by the pool.
    /// </summary>
    public bool IsShortOfThreads
    {
        get => _isShortOfThreads;
        set => _isShortOfThreads = value;
    }

    /// <summary>A loop has been handed over, perhaps to a thread beyond the maximum.</summary>
    public void HandedOver()
    {
        if (Standby.Count > Options.DriversMax && Interlocked.Exchange(ref _saidDrivers, 1) == 0)
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
