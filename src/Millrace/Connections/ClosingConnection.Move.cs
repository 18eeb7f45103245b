// How a connection leaves for another server: at the point where it is idle, and nothing of it is here but its descriptor. The loop's.

using Millrace.Listeners;
using Millrace.Loops;

namespace Millrace.Connections;

internal abstract partial class ClosingConnection<TKernel>
{
    /// <summary>Nothing has come of a next request, and another reader can begin at the next byte: what may still come of one that has been answered it knows by <see cref="Knowledge"/>.</summary>
    protected abstract bool IsAtRest { get; }

    /// <summary>What a reader that begins there must know: bits of the protocol's own. Set on a connection that another server has served before.</summary>
    protected abstract byte Knowledge { get; set; }

    /// <summary>The peer's address as the kernel has given it.</summary>
    protected abstract byte[] Peer { get; }

    // There is a successor: it gets what is idle.
    private void Offer()
    {
        if (!IsClosed && _owner.IsLoops)
        {
            Settle();
            _ = TryGiveAway();
        }
    }

    /// <summary>True: it is somebody else's now.</summary>
    private protected bool TryGiveAway()
    {
        bool isIdle = Stage == Stage.Receiving && IsAtRest && !IsHolding && !HasMoreToSend
            && _peerEnd == PeerEnd.Open && !_receivingEnded && !_isBrokenOff && !IsBreaking;
        if (!isIdle || !Loop.TryGive(this, new MovedConnection(IsFastCgi ? ListenProtocol.FastCgi : ListenProtocol.Http1, IsTcp, Knowledge, IdleDeadlineMs, Peer) { IsUncounted = IsUncounted }))
        {
            return false;
        }

        GoTo(Stage.Closed);
        DeadlineMs = long.MaxValue;
        try
        {
            OnClosed(wasQueued: false);
        }
        finally
        {
            Loop.RemoveMoved(this);
            ToldOfEnd?.Complete();        // as far as this server goes
        }

        return true;
    }
}
