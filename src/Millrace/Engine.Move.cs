// A server that gives its connections to another, and one that takes them (docs/decisions/0022).

using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace;

internal sealed partial class Engine
{
    /// <summary>
    /// Gives connections to another server from now on, each when it is idle, and listens no more: somebody else has the listening sockets too.
    /// <see cref="StopAsync"/> waits for those that are not idle.
    /// </summary>
    /// <param name="channel">One end of a SOCK_SEQPACKET pair; the engine's from here on.</param>
    /// <returns>Ends when whoever connects is somebody else's, or when the server has ended.</returns>
    /// <exception cref="MillraceStartException">The server has been told to stop, or to hand over before.</exception>
    public Task MoveTo(int channel)
    {
        TaskCompletionSource left = new(TaskCreationOptions.RunContinuationsAsynchronously);
        lock (_stopLock)
        {
            if (_stopped is not null || _successor >= 0)
            {
                _ = SystemCalls.Close(channel);
                throw new MillraceStartException("The server is stopping already, and gives its connections to nobody else.");
            }

            _successor = channel;
            ListenSocket[] sockets = [.. _sockets];
            int watching = _loops.Length;
            int listening = sockets.Length;
            Broadcast(loop =>
            {
                loop.BeginMove(channel);
                if (Interlocked.Decrement(ref watching) == 0)
                {
                    Array.ForEach(sockets, socket => loop.StopListening(socket, _options.Backlog, Stopped));
                }
            });

            void Stopped()
            {
                if (Interlocked.Decrement(ref listening) == 0)
                {
                    left.SetResult();
                }
            }
        }

        Task over = Task.WhenAny(left.Task, _services.Over);
        _ = SweepUntilAsync(over);
        return over;
    }

    // Who waits in a queue may have to wait until a connection has given its descriptor back.
    private async Task SweepUntilAsync(Task over)
    {
        while (await Task.WhenAny(over, Task.Delay(20)).ConfigureAwait(false) != over)
        {
            Broadcast(static loop =>
            {
                if (loop.MovesConnections)      // or nobody takes connections any more: they stay as they are
                {
                    loop.DrainConnections();
                }
            });
        }
    }

    /// <summary>Serves the connections that another server gives.</summary>
    /// <param name="channel">The other end; the engine's from here on.</param>
    /// <param name="closeStrange">Closes what comes and is no connection, and waits for none of it; see <see cref="ListenSocket.CloseStrange"/>.</param>
    /// <exception cref="MillraceStartException">The server has been told to stop, or a loop cannot watch it.</exception>
    public Task TakeFromAsync(int channel, Action<int[]>? closeStrange = null)
    {
        lock (_stopLock)
        {
            if (_stopped is not null)
            {
                _ = SystemCalls.Close(channel);
                throw new MillraceStartException("The server is stopping, and takes no connection.");
            }

            var socket = new ListenSocket(channel, new ListenAddress { Kind = EndPointKind.Inherited, InheritedDescriptor = channel }, default, loop: -1) { IsChannel = true, CloseStrange = closeStrange };
            _sockets.Add(socket);
            return Task.WhenAll(_loops.Select(loop => AddListenerAsync(loop, socket)));
        }
    }
}
