// A loop over a kernel: wait, then each event, each posted item and each deadline in turn, then wait again. The batch of
// events and the position in it belong to the loop, not to the driver: edge-triggered events that are dropped are lost for
// ever, so the position steps past an event before its connection runs. Accepting is in EventLoop.Listeners.cs,
// what else is watched in LoopSources.cs, the end in EventLoop.End.cs.

using Millrace.Listeners;
using Millrace.Observe;
using Millrace.Platform;

namespace Millrace.Loops;

/// <summary>Makes a connection of a descriptor that was accepted on an address; <c>peer</c> is that of its peer, as the kernel gives it.</summary>
internal delegate Connection ConnectionMaker<TKernel>(EventLoop<TKernel> loop, int descriptor, ListenAddress address, byte[] peer)
    where TKernel : struct, IKernel;

/// <summary>An event loop over one kind of kernel.</summary>
internal sealed partial class EventLoop<TKernel> : EventLoop
    where TKernel : struct, IKernel
{
    private const ulong ListenerFlag = 1UL << 63;
    private const int WatchAgainMs = 100;

    private readonly PollEvent[] _batch = new PollEvent[256];
    private readonly ConnectionMaker<TKernel> _makeConnection;
    private readonly Poller _poller;
    private readonly DeadlineWheel _wheel;
    private readonly ConnectionTable _connections = new();
    private readonly List<Connection> _unwatched = [];
    private readonly List<AcceptBacklog> _parked = [];
    private long _watchAgainAtMs;
    private long _heardMs;      // what came before that has been told of by now, unless the batch is full
    private QueueMark _mark;
    private int _batchCount;
    private int _batchPosition;
    private bool _isReserveReached;
    private LoopLoad _load;

    public readonly TKernel Kernel;

    public EventLoop(int index, LoopServices services, TKernel kernel, ConnectionMaker<TKernel> makeConnection)
        : base(index, services)
    {
        Kernel = kernel;
        _makeConnection = makeConnection;
        _poller = kernel.OpenPoller();
        Sources = new LoopSources<TKernel>(this, _poller);
        NowMs = kernel.NowMs;
        _wheel = new DeadlineWheel(NowMs);
        _load = new LoopLoad(services.Options.BatchScheduling);
    }

    public EventLoop<TKernel>[] Siblings { get; set; } = [];

    /// <summary>What it watches besides listeners and its connections.</summary>
    public LoopSources<TKernel> Sources { get; }

    /// <summary>Passes requests on by itself, on this loop; null: all of them are the handler's. Set before the loop is driven.</summary>
    public LoopRelay? Relay { get; set; }

    // ---- a turn ----

    public override bool Drive(LoopDriver driver)
    {
        while (!IsOver)
        {
            if (!Turn(driver, -1))
            {
                return false;
            }
        }

        MarkEnded();
        Abandon();
        Release();
        return true;
    }

    /// <summary>A stopped loop stays for the connections whose handlers have not ended: they are closed by it and nobody else.</summary>
    private bool IsOver => _stopping && ConnectionCount == 0 && !HasPosted;

    public override bool Resume(LoopDriver driver)
    {
        try
        {
            return HandlerOf is not { } connection || connection.OnHandedOver(driver);
        }
        catch (Exception error)
        {
            Contain(driver, error, HandlerOf);
            return true;
        }
    }

    /// <summary>One turn; false when the loop was taken over meanwhile. Waits at most <paramref name="waitMs"/> (-1: as long as nothing is due).</summary>
    public bool Turn(LoopDriver driver, int waitMs)
    {
        while (_batchPosition < _batchCount)
        {
            PollEvent entry = _batch[_batchPosition++];
            try
            {
                if (!OnEvent(driver, entry.Token, entry.Ready))
                {
                    return false;
                }
            }
            catch (Exception error)
            {
                Contain(driver, error, _connections.Find(entry.Token));
            }
        }

        // What is posted meanwhile waits until the sockets have been looked at.
        for (int left = PostedCount; left > 0 && TryTakePosted(out object? work); left--)
        {
            // A deadline may have ended the wait, and the work come just then: the monitor would sleep on.
            EnsureActive();
            try
            {
                if (!OnPosted(driver, work!))
                {
                    return false;
                }
            }
            catch (Exception error)
            {
                Contain(driver, error, work as Connection);
            }
        }

        (long heardMs, long nowMs) = Heard();
        while (_wheel.TakeDue(heardMs) is { } due)
        {
            Interlocked.MemoryBarrier();        // see SendingConnection.LookBy
            try
            {
                if (Volatile.Read(ref due.DeadlineMs) <= heardMs)       // it may have been put off since it was armed
                {
                    due.OnDeadline(nowMs);
                }
            }
            catch (Exception error)
            {
                Contain(driver, error, due);
            }

            if (!due.IsClosed)
            {
                // Even without a deadline: an exchange that gives its connection back sets one, and cannot reach the wheel.
                _wheel.Arm(due, NowMs);
            }
        }

        if (!IsOver)
        {
            IsOutlived = _stopping;
            Wait(waitMs);
        }

        return true;
    }

    // Up to when everybody has been heard, and what time it is for those whose time is over by then: behind a full batch the time of the mark.
    private (long HeardMs, long NowMs) Heard()
    {
        long markMs = _mark.Take();
        return _batchCount < _batch.Length ? (_heardMs, NowMs) : (markMs, markMs);
    }

    // A fault of the server itself costs one connection, not the process. User code never throws to here.
    private void Contain(LoopDriver driver, Exception error, Connection? connection)
    {
        driver.ClearOutput();       // the next connection's answers are built there
        Contain(error, connection);
    }

    private void Contain(Exception error, Connection? connection)
    {
        Services.Log.InternalError(error);
        try
        {
            connection?.EndByFault();
        }
        catch (Exception another)
        {
            Services.Log.InternalError(another);
        }
    }

    private void Wait(int limitMs)
    {
        Turns++;
        int timeoutMs = _wheel.NextWaitMs(NowMs);
        if (limitMs >= 0 && (timeoutMs < 0 || timeoutMs > limitMs))
        {
            timeoutMs = limitMs;
        }

        if (_acceptPausedUntilMs != 0)
        {
            timeoutMs = ResumeAccepting(timeoutMs);
        }

        if (_unwatched.Count > 0)
        {
            timeoutMs = WatchAgain(timeoutMs);
        }

        if (timeoutMs != 0 && TryFallAsleep())
        {
            SetInactive();
        }
        else
        {
            timeoutMs = 0;
        }

        Waking waking = _load.Waking == Waking.InTurn && !Services.Code.MayStart ? Waking.InTurnLasting : _load.Waking;
        if (_batchCount == _batch.Length && _mark.TryPut(NowMs))
        {
            Kernel.Mark(_poller);
        }

        _heardMs = NowMs;
        _batchPosition = 0;
        _batchCount = Kernel.Wait(_poller, _batch, timeoutMs, waking);
        WakeUp();
        NowMs = Kernel.NowMs;
        if (_batchCount == 0)
        {
            // Behind events the time may be that of a process that was stopped or frozen with them in its hands: whose time is over by then is seen to
            // in the next turn, which hears first what has come meanwhile. Without any the wait may have been broken off, without a look at the sockets,
            // when such a process goes on (signal(7): epoll_wait), and is waited once more.
            _heardMs = NowMs;
            if (_wheel.NextWaitMs(NowMs) == 0)
            {
                _batchCount = Kernel.Wait(_poller, _batch, 0, waking);
            }
        }

        _load.Count(_batchCount, NowMs);
        if (_batchCount > 0)
        {
            SetActive();
        }
    }

    protected override void Wake() => Kernel.Wake(_poller);

    private bool OnEvent(LoopDriver driver, ulong token, Readiness ready)
    {
        if (token >= IKernel.MarkToken)
        {
            _mark.Note(token);
            return true;
        }

        if ((token & ListenerFlag) != 0)
        {
            return (token & LoopSources<TKernel>.Flag) == 0 ? Accept(driver, (int)(token & 0xFFFF), ready) : Sources.OnEvent(driver, token, ready);
        }

        // A connection closed earlier in this batch may still have an event in it; its slot has a newer generation then.
        return _connections.Find(token) is not { } connection || connection.OnEvent(driver, ready);
    }

    private bool OnPosted(LoopDriver driver, object work)
    {
        switch (work)
        {
            case Connection connection:
                return connection.OnPosted(driver);
            case AcceptedSocket accepted:
                return Adopt(driver, accepted);
            case AcceptBacklog rest:
                return AcceptRest(driver, rest);
            case LoopSource source:
                return Sources.OnPosted(driver, source);
            case Action<EventLoop<TKernel>> action:
                action(this);
                return true;
            default:
                throw new InvalidOperationException($"Unknown posted work {work.GetType()}.");
        }
    }

    // ---- connections ----

    private bool Adopt(LoopDriver driver, AcceptedSocket accepted)
    {
        if (_drain.IsCutting)
        {
            Kernel.Close(accepted.Descriptor, reset: false);
            Services.RemoveConnection();
            return true;
        }

        Connection connection;
        try
        {
            connection = _makeConnection(this, accepted.Descriptor, accepted.Address, accepted.Peer);
            _connections.Add(connection);
        }
        catch
        {
            Kernel.Close(accepted.Descriptor, reset: true);
            Services.RemoveConnection();
            throw;
        }

        Volatile.Write(ref ConnectionCount, ConnectionCount + 1);
        Counters.Accepted++;
        try
        {
            return connection.OnAccepted(driver, accepted.Moved);
        }
        catch (Exception error)
        {
            Contain(driver, error, connection);
            return true;
        }
    }

    /// <summary>Registers a connection with the event queue. False when the kernel has no room: it is tried again a little later.</summary>
    public bool Watch(Connection connection, bool writing)
    {
        if (Kernel.Watch(_poller, connection.Descriptor, connection.Token, writing))
        {
            return true;
        }

        Counters.Refused(Refusal.DescriptorsExhausted);
        _unwatched.Add(connection);
        _watchAgainAtMs = NowMs + WatchAgainMs;
        return false;
    }

    private int WatchAgain(int timeoutMs)
    {
        if (NowMs >= _watchAgainAtMs)
        {
            Connection[] waiting = [.. _unwatched];
            _unwatched.Clear();
            Array.ForEach(waiting, static connection => connection.Register());
            if (_unwatched.Count == 0)
            {
                return timeoutMs;
            }
        }

        int left = (int)Math.Max(0, _watchAgainAtMs - NowMs);
        return timeoutMs < 0 ? left : Math.Min(timeoutMs, left);
    }

    /// <summary>Starts or ends waiting for writability. Any thread that owns the connection.</summary>
    public void Rewatch(Connection connection, bool writing) => Kernel.Rewatch(_poller, connection.Descriptor, connection.Token, writing);

    public void Arm(Connection connection) => _wheel.Arm(connection, NowMs);

    /// <summary>The last act of a connection: only the driver calls it, and only when no exchange can touch the descriptor any more.</summary>
    public void Remove(Connection connection, bool reset)
    {
        Forget(connection);
        Kernel.Close(connection.Descriptor, reset, mayLinger: connection.IsTcp);
        Counters.Closed++;
        Services.RemoveConnection();
    }

    private void Forget(Connection connection)
    {
        _wheel.Remove(connection);
        _connections.Remove(connection);
        Volatile.Write(ref ConnectionCount, ConnectionCount - 1);
    }
}
