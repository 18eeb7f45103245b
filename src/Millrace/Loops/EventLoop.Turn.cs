// A loop over a kernel: wait, then each event, each posted item and each deadline in turn, then wait again. The batch of
// events and the position in it belong to the loop, not to the driver: edge-triggered events that are dropped are lost for
// ever, so the position steps past an event before its connection runs.

using Millrace.Connections;
using Millrace.Listeners;
using Millrace.Observe;

namespace Millrace.Loops;

/// <summary>An event loop over one kind of kernel.</summary>
internal sealed class EventLoop<TKernel> : EventLoop
    where TKernel : struct, IKernel
{
    private const ulong ListenerFlag = 1UL << 63;
    private const int AcceptsPerEvent = 16;

    private readonly PollEvent[] _batch = new PollEvent[256];
    private readonly Poller _poller;
    private readonly DeadlineWheel _wheel;
    private readonly ConnectionTable _connections = new();
    private readonly List<ListenSocket?> _listeners = [];
    private readonly byte[] _peer = new byte[128];
    private int _batchCount;
    private int _batchPosition;
    private long _acceptPausedUntilMs;
    private bool _draining;
    private bool _cutting;

    public readonly TKernel Kernel;

    public EventLoop(int index, LoopServices services, TKernel kernel)
        : base(index, services)
    {
        Kernel = kernel;
        _poller = kernel.OpenPoller();
        NowMs = kernel.NowMs;
        _wheel = new DeadlineWheel(NowMs);
    }

    public EventLoop<TKernel>[] Siblings { get; set; } = [];

    public bool IsDraining => _draining;

    // ---- a turn ----

    public override void Drive(LoopDriver driver)
    {
        while (!IsStopped)
        {
            if (!Turn(driver, -1))
            {
                return;
            }
        }
    }

    public override bool Resume(LoopDriver driver) => Running is not { } connection || connection.OnHandedOver(driver);

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
                Contain(error, _connections.Find(entry.Token));
            }
        }

        while (TryTakePosted(out object? work))
        {
            try
            {
                if (!OnPosted(driver, work!))
                {
                    return false;
                }
            }
            catch (Exception error)
            {
                Contain(error, work as Connection);
            }
        }

        while (_wheel.TakeDue(NowMs) is { } due)
        {
            try
            {
                due.OnDeadline(NowMs);
            }
            catch (Exception error)
            {
                Contain(error, due);
            }

            if (!due.IsClosed)
            {
                // Even without a deadline: an exchange that gives its connection back sets one, and cannot reach the wheel.
                _wheel.Arm(due, NowMs);
            }
        }

        if (!IsStopped)
        {
            Wait(waitMs);
        }

        return true;
    }

    // A fault of the server itself costs one connection, not the process. User code never throws to here.
    private void Contain(Exception error, Connection? connection)
    {
        Services.Log.InternalError(error);
        connection?.Cut();
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

        if (timeoutMs != 0 && TryFallAsleep())
        {
            SetInactive();
        }
        else
        {
            timeoutMs = 0;
        }

        _batchPosition = 0;
        _batchCount = Kernel.Wait(_poller, _batch, timeoutMs);
        WakeUp();
        NowMs = Kernel.NowMs;
        if (_batchCount > 0)
        {
            SetActive();
        }
    }

    protected override void Wake() => Kernel.Wake(_poller);

    private bool OnEvent(LoopDriver driver, ulong token, Readiness ready)
    {
        if (token == IKernel.WakeToken)
        {
            return true;
        }

        if ((token & ListenerFlag) != 0)
        {
            return Accept(driver, (int)(token & 0xFFFF));
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
                return Adopt(driver, accepted.Descriptor, accepted.Listener, accepted.Peer);
            case Action<EventLoop<TKernel>> action:
                action(this);
                return true;
            default:
                throw new InvalidOperationException($"Unknown posted work {work.GetType()}.");
        }
    }

    // ---- listeners ----

    public void AddListener(ListenSocket listener)
    {
        _listeners.Add(listener);
        if (!Kernel.WatchListener(_poller, listener.Descriptor, ListenerFlag | (uint)(_listeners.Count - 1), listener.IsShared))
        {
            throw new MillraceStartException($"Cannot watch {listener.Address}: the kernel has no room for another watched descriptor.");
        }
    }

    // The loop names each failure and why it goes on: one failing peer never stops a listener.
    private bool Accept(LoopDriver driver, int index)
    {
        for (int i = 0; i < AcceptsPerEvent; i++)
        {
            if (index >= _listeners.Count || _listeners[index] is not { } listener)
            {
                return true;
            }

            bool tcp = listener.Address.Kind == EndPointKind.Tcp;
            int descriptor = Kernel.Accept(listener.Descriptor, _peer, out int peerLength);
            switch (descriptor)
            {
                case >= 0:
                    break;
                case KernelResult.Broken:
                    continue;
                case KernelResult.Exhausted:
                    PauseAccepting(listener);
                    return true;
                default:
                    return true;
            }

            if (!Admit(listener, descriptor, _peer.AsSpan(0, peerLength)))
            {
                continue;
            }

            byte[] peer = tcp ? _peer.AsSpan(0, peerLength).ToArray() : [];
            EventLoop<TKernel> target = LeastLoaded();
            if (target != this)
            {
                target.Post(new AcceptedSocket(descriptor, listener, peer));
            }
            else if (!Adopt(driver, descriptor, listener, peer))
            {
                return false;
            }
        }

        return true;
    }

    private bool Admit(ListenSocket listener, int descriptor, ReadOnlySpan<byte> peer)
    {
        if (listener.Address.Allow is { } allow && !allow.Contains(peer))
        {
            Counters.Refused(Refusal.PeerNotAllowed);
            Kernel.Close(descriptor, reset: false);
            return false;
        }

        if (!Services.TryAddConnection())
        {
            Counters.Refused(Refusal.TooManyConnections);
            Services.Log.ConnectionLimitReached(Services.Options.MaxConnections);
            Kernel.Close(descriptor, reset: false);
            return false;
        }

        return true;
    }

    // Keep-alive connections live long: an uneven start would stay uneven.
    private EventLoop<TKernel> LeastLoaded()
    {
        EventLoop<TKernel> best = this;
        int mine = Volatile.Read(ref ConnectionCount) - 2;
        foreach (EventLoop<TKernel> sibling in Siblings)
        {
            int count = Volatile.Read(ref sibling.ConnectionCount);
            if (count < mine)
            {
                best = sibling;
                mine = count;
            }
        }

        return best;
    }

    private bool Adopt(LoopDriver driver, int descriptor, ListenSocket listener, byte[] peer)
    {
        if (_draining)
        {
            Kernel.Close(descriptor, reset: false);
            Services.RemoveConnection();
            return true;
        }

        Connection connection = ConnectionFactory.Create(this, descriptor, listener.Address, peer);
        _connections.Add(connection);
        Volatile.Write(ref ConnectionCount, ConnectionCount + 1);
        Counters.Accepted++;
        return connection.OnAccepted(driver);
    }

    /// <summary>Registers a connection with the event queue; false when the kernel has no room.</summary>
    public bool Watch(Connection connection, bool writing) => Kernel.Watch(_poller, connection.Descriptor, connection.Token, writing);

    /// <summary>Starts or ends waiting for writability. Any thread that owns the connection.</summary>
    public void Rewatch(Connection connection, bool writing) => Kernel.Rewatch(_poller, connection.Descriptor, connection.Token, writing);

    private void PauseAccepting(ListenSocket listener)
    {
        // Level-triggered listeners would spin while descriptors are short: look away for a moment, say so once.
        Services.Log.DescriptorsExhausted(listener.Address.ToString());
        Counters.Refused(Refusal.DescriptorsExhausted);
        if (_acceptPausedUntilMs == 0)
        {
            foreach (ListenSocket? each in _listeners)
            {
                if (each is not null)
                {
                    Kernel.Unwatch(_poller, each.Descriptor);
                }
            }
        }

        _acceptPausedUntilMs = NowMs + 100;
    }

    private int ResumeAccepting(int timeoutMs)
    {
        if (NowMs < _acceptPausedUntilMs)
        {
            int left = (int)(_acceptPausedUntilMs - NowMs);
            return timeoutMs < 0 ? left : Math.Min(timeoutMs, left);
        }

        _acceptPausedUntilMs = 0;
        for (int i = 0; i < _listeners.Count; i++)
        {
            if (_listeners[i] is { } listener)
            {
                Kernel.WatchListener(_poller, listener.Descriptor, ListenerFlag | (uint)i, listener.IsShared);
            }
        }

        return timeoutMs;
    }

    // ---- connections ----

    public void Arm(Connection connection) => _wheel.Arm(connection, NowMs);

    /// <summary>The last act of a connection: only the driver calls it, and only when no exchange can touch the descriptor any more.</summary>
    public void Remove(Connection connection, bool reset)
    {
        _wheel.Remove(connection);
        _connections.Remove(connection);
        Kernel.Close(connection.Descriptor, reset);
        Volatile.Write(ref ConnectionCount, ConnectionCount - 1);
        Counters.Closed++;
        Services.RemoveConnection();
    }

    // ---- the end ----

    /// <summary>Stops accepting and closes connections as they become idle.</summary>
    public void BeginDrain()
    {
        _draining = true;
        for (int i = 0; i < _listeners.Count; i++)
        {
            if (_listeners[i] is { } listener)
            {
                Kernel.Unwatch(_poller, listener.Descriptor);
                _listeners[i] = null;
            }
        }

        SweepIdle();
    }

    /// <summary>While draining: closes what has become idle meanwhile.</summary>
    public void SweepIdle()
    {
        foreach (Connection connection in _connections.All())
        {
            connection.OnDrain(NowMs, _cutting);
        }
    }

    /// <summary>The drain time is over: cuts every connection. Those whose handler still runs close when it ends.</summary>
    public void Cut()
    {
        _cutting = true;
        SweepIdle();
    }

    public void Stop() => IsStopped = true;

    /// <summary>After the last driver has left.</summary>
    public void Release() => Kernel.ClosePoller(_poller);
}

/// <summary>A connection accepted by one loop for another.</summary>
internal sealed record AcceptedSocket(int Descriptor, ListenSocket Listener, byte[] Peer);
