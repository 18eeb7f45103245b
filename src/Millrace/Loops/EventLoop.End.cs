// How a loop ends: its connections are drained, then cut, and it stops when it has none any more.

namespace Millrace.Loops;

internal sealed partial class EventLoop<TKernel>
{
    private bool _draining;
    private long _drainBegunMs;
    private bool _cutting;
    private bool _stopping;

    /// <summary>Connections are closed as they become idle: there is nobody to give them to.</summary>
    public bool IsDraining => _draining && !MovesConnections;

    /// <summary>While draining: closes what has become idle meanwhile, or gives it to a successor.</summary>
    public void DrainConnections()
    {
        _parked.ForEach(Post);
        _parked.Clear();
        foreach (Connection connection in _connections.All())
        {
            try
            {
                connection.OnDrain(NowMs, _drainBegunMs, _cutting);
            }
            catch (Exception error)
            {
                Contain(error, connection);
            }
        }
    }

    /// <summary>The drain time is over: cuts every connection. Those whose handler still runs close when it ends.</summary>
    public void CutConnections()
    {
        _cutting = true;
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
