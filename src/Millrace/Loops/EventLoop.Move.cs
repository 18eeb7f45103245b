// Connections that move to another server, which goes on where this one stops (docs/decisions/0022): the old one listens no more, and gives what is
// idle away through a channel; the new one watches the channel like a listening socket, and serves who is taken out of it like who was accepted. Whoever
// has the descriptor owns the connection: the old server has nothing of it left when its message is sent, and the new one nothing before.

using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Loops;

internal sealed partial class EventLoop<TKernel>
{
    private int _successor = -1;    // the channel through which connections leave

    /// <summary>Connections are given away as they become idle.</summary>
    public bool MovesConnections => _successor >= 0;

    /// <summary>Listens no more, and gives connections away from now on. The channel stays open as long as the loop.</summary>
    public void BeginMove(int channel)
    {
        _successor = channel;
        LeaveListeners();
        DrainConnections();
    }

    /// <summary>
    /// Stops listening on a socket that others go on with, and that no loop of this server watches any more. Who waits in its queue is accepted first: the kernel
    /// may have told this server of him, and nobody else (EPOLLEXCLUSIVE). <paramref name="stopped"/> is called when that is done.
    /// </summary>
    public void StopListening(ListenSocket socket, int queueMax, Action stopped) => Post(new AcceptBacklog(socket, socket.IsChannel ? 0 : queueMax, static _ => false, socket =>
    {
        socket.Leave();
        stopped();
    }));

    /// <summary>Gives away a connection on which nothing is in progress. True: it is not ours any more. False: it stays, for the time being.</summary>
    public bool TryGive(Connection connection, MovedConnection its)
    {
        int result = its.Give(Kernel, _successor, connection.Descriptor);
        if (result == KernelResult.Broken)
        {
            _successor = -1;        // nobody takes them: they stay, and end as they would without a successor
        }

        return result == 0;
    }

    /// <summary>The last act of a connection that has been given away.</summary>
    public void RemoveMoved(Connection connection)
    {
        Forget(connection);
        Kernel.Leave(_poller, connection.Descriptor);
        Counters.Moved++;
        Services.RemoveConnection();
    }

    // ---- the successor ----

    private Accepted TakeOne(LoopDriver driver, ListenSocket channel)
    {
        // A descriptor that comes while there is no number for it is lost.
        if (Kernel.NextDescriptor(_poller) >= (long)Services.DescriptorCeiling + Services.ReservePart)
        {
            return Accepted.Exhausted;
        }

        int result = MovedConnection.Take(Kernel, channel.Descriptor, out AcceptedSocket? taken, out int[] strange);
        if (strange.Length > 0)
        {
            (channel.CloseStrange ?? ForeignDescriptor.Close)(strange);
        }

        if (result == KernelResult.Broken && _listeners.IndexOf(channel) is >= 0 and int index)
        {
            Kernel.Unwatch(_poller, channel.Descriptor);        // all who could give have gone, or one of them gives what it should not
            _listeners[index] = null;
        }

        if (taken is null)
        {
            return result is >= 0 or KernelResult.Refused ? Accepted.One : Accepted.Nobody;
        }

        if (Services.TryAddConnection(taken.Address.IsUncounted))
        {
            return AdoptOrPass(driver, taken);
        }

        Counters.Refused(Observe.Refusal.TooManyConnections);
        Kernel.Close(taken.Descriptor, reset: false);
        return Accepted.One;
    }
}
