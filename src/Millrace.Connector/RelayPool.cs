// The connections of one loop to one responder: the one that was used last goes first, so that those that nobody needs grow old and are closed. When there are as many as
// may be, or the responder takes no more at once, the request goes the way on which it can wait.

using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connector;

internal sealed class RelayPool<TKernel>(FastCgiRelay<TKernel> relay, RelayUpstream upstream, ConnectionLimits limits)
    where TKernel : struct, IKernel
{
    private readonly List<RelayLink<TKernel>> _idle = [];
    private int _idleCount;
    private bool _isClosed;

    private EventLoop<TKernel> Loop => relay.Loop;

    public RelayUpstream Upstream => upstream;

    /// <summary>Connections that nobody uses at the moment. Any thread.</summary>
    public int Idle => Volatile.Read(ref _idleCount);

    /// <summary>A connection that nobody else uses, kept or new; null where there is none at once.</summary>
    public RelayLink<TKernel>? TryRent()
    {
        while (_idle.Count > 0)
        {
            RelayLink<TKernel> kept = _idle[^1];
            _idle.RemoveAt(_idle.Count - 1);
            Volatile.Write(ref _idleCount, _idle.Count);
            if (kept.IsUsable)
            {
                return kept;
            }
            kept.Drop();
        }
        return TryConnect(out _);
    }

    /// <summary>A new one; null where none can be had at once, as the result says.</summary>
    public RelayLink<TKernel>? TryConnect(out int result)
    {
        result = KernelResult.Again;
        if (!upstream.Pool.TryTakePlace())
        {
            return null;
        }
        result = Loop.Kernel.Connect(upstream.Address);
        if (result >= 0)
        {
            var link = new RelayLink<TKernel>(relay, this);
            if (Loop.Sources.Watch(link, result))
            {
                return link;
            }
            result = KernelResult.Exhausted;
        }
        upstream.Pool.ReleasePlace();
        return null;
    }

    /// <summary>There is no connection over which a request could be sent once more.</summary>
    public void FailConnect(Exchange exchange, int result)
    {
        ConnectorException error = result == KernelResult.Again
            ? new ConnectorException(ConnectorFault.Busy, $"The queue of {upstream.Place} is full, or all {limits.ConnectionsMax} connections are in use.")
            : new ConnectorException(ConnectorFault.NoConnection, $"{upstream.Place} cannot be connected to any more.");
        upstream.Failed(error.Message);
        relay.Fail(exchange, error);
    }

    public void Return(RelayLink<TKernel> link)
    {
        if (_isClosed)
        {
            link.Drop();
            return;
        }
        _idle.Add(link);
        Volatile.Write(ref _idleCount, _idle.Count);
        Interlocked.MemoryBarrier();        // whoever begins to wait sees that there is one, or is seen here
        if (upstream.Pool.HasWaiters)
        {
            link.Drop();
        }
    }

    /// <summary>One of them has been closed.</summary>
    public void Forget(RelayLink<TKernel> link)
    {
        upstream.Pool.ReleasePlace();
        if (_idle.Remove(link))
        {
            Volatile.Write(ref _idleCount, _idle.Count);
        }
    }

    public void CloseOld()
    {
        while (_idle.Count > 0 && Loop.NowMs - _idle[0].IdleSinceMs > (long)limits.IdleTimeout.TotalMilliseconds)
        {
            _idle[0].Drop();        // the oldest come first
        }
    }

    public void CloseIdle()
    {
        while (_idle.Count > 0)
        {
            _idle[^1].Drop();
        }
    }

    /// <summary>The loop has ended.</summary>
    public void Close()
    {
        _isClosed = true;
        CloseIdle();
    }
}
