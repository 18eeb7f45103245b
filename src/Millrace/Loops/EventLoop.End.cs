// How a loop ends: its connections are drained, then cut, and it stops when it has none any more. Who says so is ListenerShutdown (drain) and Engine.

namespace Millrace.Loops;

internal sealed partial class EventLoop<TKernel>
{
    private DrainProgress _drain;
    private bool _stopping;         // may be said in every phase: a loop without connections has nothing to drain

    /// <summary>Connections are closed as they become idle: there is nobody to give them to.</summary>
    public bool IsDraining => _drain.HasBegun && !MovesConnections;

    /// <summary>Watches its listeners no more, and closes connections as they become idle. Who waits in a queue stays there.</summary>
    public void BeginDrain()
    {
        _drain.Begin(Kernel.NowMs);         // the turn's time may be a blocking handler old
        LeaveListeners();
    }

    private void LeaveListeners()
    {
        UnwatchListeners();
        _listeners.Clear();
        _acceptPausedUntilMs = 0;
    }

    /// <summary>While draining: closes what has become idle meanwhile. While connections move, in a drain or before it: gives away what has become idle.</summary>
    public void DrainConnections()
    {
        _parked.ForEach(Post);
        _parked.Clear();
        foreach (Connection connection in _connections.All())
        {
            try
            {
                connection.OnDrain(NowMs, _drain.BegunMs, _drain.IsCutting);
            }
            catch (Exception error)
            {
                Contain(error, connection);
            }
        }
    }

    /// <summary>The drain time is over: cuts every connection, and, called again, those that could not be cut before. Those whose handler still runs close when it ends.</summary>
    public void CutConnections()
    {
        _drain.Cut();
        DrainConnections();
    }

    /// <summary>The loop ends as soon as it has no connection any more.</summary>
    public void Stop() => _stopping = true;

    protected override void Abandon()
    {
        while (TryTakePosted(out object? work))
        {
            if (work is AcceptedSocket accepted)
            {
                Kernel.Close(accepted.Descriptor, reset: false);
                Services.RemoveConnection();
            }
            else if (work is LoopSource source)
            {
                source.OnLoopEnded();
            }
        }
    }

    /// <summary>Closes the event queue: the last act of the driver whose loop has ended, or of who has made a loop that was never driven.</summary>
    public void Release()
    {
        Relay?.Dispose();
        Sources.End();
        Kernel.ClosePoller(_poller);
    }
}
