// How a server stops listening: without losing a connection, and so that a web server is refused at once and goes elsewhere.
//
//   1 every loop stops watching       who connects now waits in the queue
//   2 no more may join the queue      Unix sockets: who connects from here on is refused (ListenSocket.Refuse)
//   3 the queue is accepted           by one loop a socket; these connections are served and then closed
//   4 TCP: no more may join           who connects from here on is not answered, asks again after a second and is refused then
//     after a moment: step 3 again    (ListenSocket.HoldOff); handshakes that have begun end in this moment
//   5 the socket is closed            who connects from here on is refused
//
// Over TCP a queue cannot be ended but by resetting who waits in it, so step 2 is not for it. A second is long for a web server
// that could have asked another application, so step 4 is late and short. A client whose handshake takes longer than the
// moment, over a network, may still be reset in it.

using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Loops;

/// <param name="loops">All loops of the server.</param>
/// <param name="sockets">All it listens on.</param>
/// <param name="queueMax">At most so many are accepted from each queue before step 4, and as many after it: under a flood it would never be empty.</param>
/// <param name="refuse">Step 2.</param>
/// <param name="holdOff">Step 4; false where it cannot be done.</param>
/// <param name="close">Step 5.</param>
internal sealed class ListenerShutdown<TKernel>(
    IReadOnlyList<EventLoop<TKernel>> loops,
    IReadOnlyList<ListenSocket> sockets,
    int queueMax,
    Action<ListenSocket> refuse,
    Func<ListenSocket, bool> holdOff,
    Action<ListenSocket> close)
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
            loop.Post(new Action<EventLoop<TKernel>>(BeginDrain));
        }

        return _closed.Task;
    }

    private void BeginDrain(EventLoop<TKernel> loop)
    {
        loop.BeginDrain();
        if (Interlocked.Decrement(ref _watching) > 0)
        {
            return;
        }

        foreach (ListenSocket socket in sockets)
        {
            refuse(socket);
            loops[Math.Max(socket.Loop, 0)].Post(new AcceptBacklog(socket, queueMax, holdOff, Close));
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
internal sealed class AcceptBacklog(ListenSocket listener, int max, Func<ListenSocket, bool> holdOff, Action<ListenSocket> close)
{
    private int _counted;
    private bool _isLastStep;
    private bool _isFinished;
    private bool _isPutOff;

    public ListenSocket Listener => listener;

    /// <summary>False when no more are to be accepted.</summary>
    public bool TryCount()
    {
        if (!_isFinished && _counted == max)
        {
            EndStep();
        }

        _counted++;
        return !_isFinished;
    }

    /// <summary>It is not asked again before the next sweep.</summary>
    public void PutOff() => _isPutOff = true;

    public bool TakePutOff()
    {
        bool was = _isPutOff;
        _isPutOff = false;
        return was;
    }

    /// <summary>Nobody waits, or no more can be accepted: who connects is held off, and the queue is looked at once more. The second time, or where nobody can be held off, the socket is closed.</summary>
    public void EndStep()
    {
        if (!_isLastStep)
        {
            _isLastStep = true;
            if (holdOff(listener))
            {
                _counted = 0;
                return;
            }
        }

        _isFinished = true;
        close(listener);
    }
}
