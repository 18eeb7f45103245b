// Accepting: who may come in, which loop a connection goes to, what happens when descriptors are short, and how listening
// ends. The order of that end over all loops is in ListenerShutdown.cs.

using Millrace.Listeners;
using Millrace.Observe;
using Millrace.Platform;

namespace Millrace.Loops;

internal sealed partial class EventLoop<TKernel>
{
    private const int AcceptsPerEvent = 16;
    private const int AcceptPauseMs = 100;

    private readonly List<ListenSocket?> _listeners = [];
    private readonly byte[] _peer = new byte[128];
    private long _acceptPausedUntilMs;   // 0 while listeners are watched

    public void AddListener(ListenSocket listener)
    {
        _listeners.Add(listener);
        if (_acceptPausedUntilMs == 0 && !Kernel.WatchListener(_poller, listener.Descriptor, ListenerFlag | (uint)(_listeners.Count - 1), listener.WakesOneLoop))
        {
            _listeners[^1] = null;
            throw new MillraceStartException($"Cannot watch {listener.Address}: the kernel has no room for another watched descriptor.");
        }
    }

    private bool Accept(LoopDriver driver, int index, Readiness ready)
    {
        for (int i = 0; i < AcceptsPerEvent; i++)
        {
            if (index >= _listeners.Count || _listeners[index] is not { } listener)
            {
                return true;
            }

            switch (AcceptOne(driver, listener, isFirst: i == 0))
            {
                case Accepted.LoopLost:
                    return false;
                case Accepted.Exhausted:
                    PauseAccepting(listener);
                    return true;
                case Accepted.Refused:
                case Accepted.Nobody when (ready & Readiness.HangUp) != 0:      // all that a Unix socket says of its end
                    Services.Log.AcceptingRefused(listener.ToString());
                    PauseAccepting();
                    return true;
                case Accepted.Nobody:
                    return true;
            }
        }

        return true;
    }

    private bool IsReserveReached(bool isUncounted) =>
        _isReserveReached && Kernel.NextDescriptor(_poller) >= (long)Services.DescriptorCeiling + (isUncounted ? Services.ReservePart : 0);

    // The loop names each failure and why it goes on: one failing peer never stops a listener.
    private Accepted AcceptOne(LoopDriver driver, ListenSocket listener, bool isFirst)
    {
        if (listener.Descriptor < 0)
        {
            return Accepted.Nobody;     // a handler has kept the loop from its end of listening: the number is somebody else's
        }

        if (listener.IsChannel)
        {
            return TakeOne(driver, listener);
        }

        if (IsReserveReached(listener.Address.IsUncounted))
        {
            return Accepted.Exhausted;
        }

        int descriptor = Kernel.Accept(listener.Descriptor, isFirst, _peer, out int peerLength);
        switch (descriptor)
        {
            case >= 0:
                _isReserveReached = descriptor >= Services.DescriptorCeiling;
                break;
            case KernelResult.Broken:
                return Accepted.One;
            case KernelResult.Exhausted:
                return Accepted.Exhausted;
            case KernelResult.Refused:
                return Accepted.Refused;
            default:
                return Accepted.Nobody;
        }

        if (TryAdmit(listener, descriptor, _peer.AsSpan(0, peerLength)) is not { } accepted)
        {
            return Accepted.One;
        }

        return AdoptOrPass(driver, accepted);
    }

    private Accepted AdoptOrPass(LoopDriver driver, AcceptedSocket accepted)
    {
        EventLoop<TKernel> target = LeastLoaded();
        if (target == this)
        {
            return Adopt(driver, accepted) ? Accepted.One : Accepted.LoopLost;
        }

        target.Post(accepted);
        return Accepted.One;
    }

    // Closed where there is no memory for it: its peer would wait for ever.
    private AcceptedSocket? TryAdmit(ListenSocket listener, int descriptor, ReadOnlySpan<byte> peer)
    {
        AcceptedSocket accepted;
        try
        {
            accepted = new AcceptedSocket(descriptor, listener.Address, listener.Address.IsTcp ? peer.ToArray() : []);
        }
        catch (OutOfMemoryException)
        {
            Kernel.Close(descriptor, reset: true);
            throw;
        }

        return Admit(listener, descriptor, peer) ? accepted : null;
    }

    private bool Admit(ListenSocket listener, int descriptor, ReadOnlySpan<byte> peer)
    {
        if (listener.Address.Allow is { } allow && !allow.Contains(peer))
        {
            Counters.Refused(Refusal.PeerNotAllowed);
            Kernel.Close(descriptor, reset: false);
            return false;
        }

        if (!Services.TryAddConnection(listener.Address.IsUncounted))
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

    // ---- when nobody can be accepted ----

    private void PauseAccepting(ListenSocket listener)
    {
        Services.Log.DescriptorsExhausted(listener.IsChannel ? "the connections of the process before this one" : listener.Address.ToString());
        Counters.Refused(Refusal.DescriptorsExhausted);
        PauseAccepting();
    }

    // Level-triggered listeners would spin: look away for a moment, say so once in a while.
    private void PauseAccepting()
    {
        UnwatchListeners();
        _acceptPausedUntilMs = NowMs + AcceptPauseMs;
    }

    private void UnwatchListeners()
    {
        if (_acceptPausedUntilMs == 0)
        {
            foreach (ListenSocket? listener in _listeners)
            {
                if (listener is not null)
                {
                    Kernel.Unwatch(_poller, listener.Descriptor);
                }
            }
        }
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
            if (_listeners[i] is { } listener && !Kernel.WatchListener(_poller, listener.Descriptor, ListenerFlag | (uint)i, listener.WakesOneLoop))
            {
                // No room to watch it: a listener that is not watched any more would never be heard of again.
                PauseAccepting(listener);
                return timeoutMs < 0 ? AcceptPauseMs : Math.Min(timeoutMs, AcceptPauseMs);
            }
        }

        return timeoutMs;
    }

    // ---- the end of listening ----

    /// <summary>Accepts who waits in a queue that nobody watches any more: one at a time, since the handler of one may block and others wait behind it.</summary>
    private bool AcceptRest(LoopDriver driver, AcceptBacklog rest)
    {
        if (rest.TakePutOff() || (IsReserveReached(isUncounted: false) && Services.Connections > 0 && !_drain.IsCutting))
        {
            _parked.Add(rest);      // each connection that ends gives a descriptor back: the next sweep looks again
            return true;
        }

        if (!rest.TryCount())
        {
            return true;
        }

        Post(rest);     // for whoever drives the loop then
        switch (AcceptOne(driver, rest.Listener, isFirst: true))
        {
            case Accepted.One:
                return true;
            case Accepted.LoopLost:
                return false;
            case Accepted.Exhausted when MovesConnections && !_drain.IsCutting:
                rest.PutOff();      // others go on with the socket, and have not been told of who waits
                return true;
            default:
                rest.EndStep();
                return true;
        }
    }
}
