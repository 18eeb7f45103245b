// How a server stops listening: without losing a connection, and so that a web server is refused at once and goes elsewhere.
//
//   1 every loop stops watching       who connects now waits in the queue
//   2 no more may join the queue      where the kernel can do that (ListenSocket.Refuse)
//   3 the queue is accepted           by one loop a socket; these connections are served and then closed
//   4 the socket is closed            who connects from here on is refused
//
// Over TCP step 2 does not exist: who connects between the last accept and step 4, some microseconds, is reset.

using Millrace.Listeners;

namespace Millrace.Loops;

/// <param name="loops">All loops of the server.</param>
/// <param name="sockets">All it listens on.</param>
/// <param name="queueMax">At most so many are accepted from each queue: under a flood it would never be empty.</param>
/// <param name="refuse">Step 2.</param>
/// <param name="close">Step 4.</param>
internal sealed class ListeningEnd<TKernel>(
    IReadOnlyList<EventLoop<TKernel>> loops, IReadOnlyList<ListenSocket> sockets, int queueMax, Action<ListenSocket> refuse, Action<ListenSocket> close)
    where TKernel : struct, IKernel
{
    private readonly TaskCompletionSource _closed = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _watching = loops.Count;
    private int _open = sockets.Count;

    /// <summary>The task ends when every socket is closed; there must be one.</summary>
    public Task Begin()
    {
        foreach (EventLoop<TKernel> loop in loops)
        {
            loop.Post(new Action<EventLoop<TKernel>>(Unwatch));
        }

        return _closed.Task;
    }

    private void Unwatch(EventLoop<TKernel> loop)
    {
        loop.BeginDrain();
        if (Interlocked.Decrement(ref _watching) > 0)
        {
            return;
        }

        foreach (ListenSocket socket in sockets)
        {
            refuse(socket);
            loops[Math.Max(socket.Loop, 0)].Post(new RestOfQueue(socket, queueMax, Close));
        }
    }

    private void Close(ListenSocket socket)
    {
        close(socket);
        if (Interlocked.Decrement(ref _open) == 0)
        {
            _closed.SetResult();
        }
    }
}

/// <summary>Who waits in the queue of a socket that is about to be closed. Used by whoever drives the loop it was posted to.</summary>
internal sealed class RestOfQueue(ListenSocket listener, int max, Action<ListenSocket> close)
{
    private int _left = max;
    private bool _isFinished;

    public ListenSocket Listener => listener;

    /// <summary>False when no more are to be accepted.</summary>
    public bool TryCount()
    {
        if (!_isFinished && _left-- <= 0)
        {
            Finish();
        }

        return !_isFinished;
    }

    public void Finish()
    {
        _isFinished = true;
        close(listener);
    }
}
