// A socket that an event loop of Millrace tells of: what goes on when an answer comes does so on the loop, in the turn that has heard of it, as a handler runs there: under the monitor's eyes, which
// give the loop to another thread where it blocks. Any thread may use it, whatever connection its request has come by. Everything else is the socket's: sending, and receiving where there is no loop (any
// more). The loop that has been asked to watch closes the socket, so that it never watches a number that is somebody else's by then.
//
// _word is the number of the receive, and two bits:
//
//   Readable   set by an event, and where more may be there than was taken; taken back by whoever looks
//   Waiting    set by a receive that has found nothing; whoever takes it back completes the receive: the event, a cancellation, Dispose, the end of the loop

using System.Net.Sockets;
using System.Threading.Tasks.Sources;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connector;

internal sealed class LoopTransport : LoopSource, ITransport, IValueTaskSource<int>
{
    private const int Readable = 1;
    private const int Waiting = 2;
    private const int NumberShift = 2;

    private const int Begun = 1;        // the loop has been asked to watch
    private const int Disposed = 2;

    private const int ReadsPerTurn = 4;

    private readonly Socket _socket;
    private readonly LoopSources _loop;
    private int _word;
    private int _life;
    private volatile bool _isOnItsOwn;      // the loop has ended, or has no room for it
    private volatile bool _isPeerGone;      // an event has said so: there may be bytes to read before the end

    // The receive in progress.
    private ManualResetValueTaskSourceCore<int> _receive;
    private Memory<byte> _buffer;
    private CancellationToken _ct;
    private CancellationTokenRegistration _leaving;
    private int _count;
    private SocketError _error;
    private int _reads;     // since the loop has told

    /// <param name="socket">Connected; this one's from here on.</param>
    /// <param name="loop">Tells of it.</param>
    public LoopTransport(Socket socket, LoopSources loop)
    {
        socket.Blocking = false;
        (_socket, _loop) = (socket, loop);
    }

    public LoopSources Loop => _loop;

    // What the loop has heard of by now: only where it has heard something is the socket asked, since that may have been taken along with what came before. What comes just now shows all the same:
    // an ended Unix socket takes nothing, and records that nobody has asked for have another id.
    public bool HasInput => _isPeerGone || ((_isOnItsOwn || (Volatile.Read(ref _word) & Readable) != 0) && _socket.Available > 0);

    private bool IsDisposed => (Volatile.Read(ref _life) & Disposed) != 0;

    // ---- whoever has the connection ----

    public ValueTask<int> SendAsync(ReadOnlyMemory<byte> bytes, CancellationToken ct)
    {
        ObjectDisposedException.ThrowIf(IsDisposed, this);
        ct.ThrowIfCancellationRequested();
        int count = _socket.Send(bytes.Span, SocketFlags.None, out SocketError error);
        return error switch
        {
            SocketError.Success => new ValueTask<int>(count),
            SocketError.WouldBlock => _socket.SendAsync(bytes, SocketFlags.None, ct),
            _ => ValueTask.FromException<int>(new SocketException((int)error)),
        };
    }

    public ValueTask<int> ReceiveAsync(Memory<byte> buffer, CancellationToken ct)
    {
        Begin();
        if (_isOnItsOwn)
        {
            return _socket.ReceiveAsync(buffer, SocketFlags.None, ct);
        }
        ct.ThrowIfCancellationRequested();
        _receive.Reset();
        (_buffer, _ct) = (buffer, ct);
        int number = _receive.Version << NumberShift;
        bool isReadable = (Interlocked.Exchange(ref _word, number) & Readable) != 0;
        if (isReadable && ++_reads < ReadsPerTurn && TryReceive())
        {
            Complete();
            return new ValueTask<int>(this, _receive.Version);
        }
        _leaving = ct.UnsafeRegister(static transport => ((LoopTransport)transport!).FinishElsewhere(), this);
        short version = _receive.Version;
        if (isReadable && _reads >= ReadsPerTurn)
        {
            LetOthers(number);
        }
        else if (ReceiveOrWait(number))
        {
            Complete();
        }
        return new ValueTask<int>(this, version);
    }

    public void Shut() => _socket.Shutdown(SocketShutdown.Both);        // an event tells the loop of it

    public void Dispose()
    {
        int before = Interlocked.Or(ref _life, Disposed);
        if ((before & Disposed) != 0)
        {
            return;
        }
        if ((before & Begun) == 0)
        {
            _socket.Dispose();
            return;
        }
        FinishElsewhere();
        _loop.Post(this);
    }

    private void Begin()
    {
        if ((Volatile.Read(ref _life) & Begun) != 0)
        {
            ObjectDisposedException.ThrowIf(IsDisposed, this);
            return;
        }
        ObjectDisposedException.ThrowIf((Interlocked.Or(ref _life, Begun) & Disposed) != 0, this);
        _loop.Post(this);
    }

    // ---- a receive ----

    // False: it waits, or somebody else completes it.
    private bool ReceiveOrWait(int number)
    {
        CancellationToken ct = _ct;
        while (Interlocked.CompareExchange(ref _word, number | Waiting, number) != number)
        {
            Volatile.Write(ref _word, number);
            if (TryReceive())
            {
                return true;
            }
        }
        FinishIfOver(number, ct);
        return false;
    }

    // It has been told of by the loop so often that it is its turn again when the others have had theirs.
    private void LetOthers(int number)
    {
        CancellationToken ct = _ct;
        Volatile.Write(ref _word, number | Waiting | Readable);
        FinishIfOver(number, ct);
        _loop.Post(this);
    }

    private bool TryReceive()
    {
        _count = _socket.Receive(_buffer.Span, SocketFlags.None, out _error);
        if (_error == SocketError.WouldBlock)
        {
            return false;
        }
        if (_error != SocketError.Success || _count == 0 || _count == _buffer.Length || _isPeerGone)
        {
            _ = Interlocked.Or(ref _word, Readable);        // no further event tells of what is left
        }
        return true;
    }

    private void Complete()
    {
        if (_error == SocketError.Success)
        {
            _receive.SetResult(_count);
        }
        else
        {
            _receive.SetException(new SocketException((int)_error));
        }
    }

    // Whoever has said that it is over has done so before it waited, or finds it waiting.
    private void FinishIfOver(int number, CancellationToken ct)
    {
        if (!ct.IsCancellationRequested && !IsDisposed && !_isOnItsOwn)
        {
            return;
        }
        for (int word; ((word = Volatile.Read(ref _word)) & ~Readable) == (number | Waiting);)
        {
            if (Interlocked.CompareExchange(ref _word, word & ~Waiting, word) == word)
            {
                QueueFinish();
                return;
            }
        }
    }

    // Any thread: what goes on then is an application's code, and is not run under its hands.
    private void FinishElsewhere()
    {
        if ((Interlocked.And(ref _word, ~Waiting) & Waiting) != 0)
        {
            QueueFinish();
        }
    }

    private void QueueFinish() => ThreadPool.UnsafeQueueUserWorkItem(static transport => _ = transport.FinishAsync(), this, preferLocal: false);

    // Cancelled, disposed of, or without a loop: the socket says what becomes of it.
    private async Task FinishAsync()
    {
        int count;
        try
        {
            ObjectDisposedException.ThrowIf(IsDisposed, this);
            count = await _socket.ReceiveAsync(_buffer, SocketFlags.None, _ct).ConfigureAwait(false);
        }
        catch (Exception error)
        {
            _receive.SetException(error);
            return;
        }
        _receive.SetResult(count);
    }

    int IValueTaskSource<int>.GetResult(short token)
    {
        _leaving.Dispose();     // it must not take the next receive for this one
        return _receive.GetResult(token);
    }

    ValueTaskSourceStatus IValueTaskSource<int>.GetStatus(short token) => _receive.GetStatus(token);

    void IValueTaskSource<int>.OnCompleted(Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags) =>
        _receive.OnCompleted(continuation, state, token, flags);

    // ---- the loop ----

    public override bool OnEvent(LoopDriver driver, Readiness ready)
    {
        _isPeerGone |= (ready & (Readiness.PeerFinished | Readiness.HangUp | Readiness.Error)) != 0;
        _ = Interlocked.Or(ref _word, Readable);
        return GoOn(driver);
    }

    public override bool OnPosted(LoopDriver driver)
    {
        if (IsDisposed)
        {
            if (Descriptor >= 0)
            {
                _loop.Forget(this);
            }
            _socket.Dispose();
            return true;
        }
        if (Descriptor < 0 && !_isOnItsOwn && !_loop.TryWatch(this, (int)_socket.Handle))
        {
            EndByFault();
        }
        return (Volatile.Read(ref _word) & Readable) == 0 || GoOn(driver);
    }

    private bool GoOn(LoopDriver driver)
    {
        int word = Interlocked.And(ref _word, ~Waiting);
        if ((word & Waiting) == 0)
        {
            return true;        // nobody waits
        }
        _reads = 0;
        return !ReceiveOrWait(word & ~(Waiting | Readable)) || _loop.RunCode(driver, static transport => ((LoopTransport)transport!).Complete(), this);
    }

    public override void EndByFault()
    {
        _isOnItsOwn = true;
        FinishElsewhere();
    }

    public override void OnLoopEnded()
    {
        EndByFault();
        if (IsDisposed)
        {
            _socket.Dispose();
        }
    }
}
