// One connection of a loop to a responder, and the request that is on its way over it: sent in one piece as a rule, answered as the records come, no faster than the
// client reads. The loop's driver alone touches it. Who leaves takes the other side with it.

using System.Diagnostics;
using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;
using Millrace.Protocols;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connector;

internal sealed class RelayLink<TKernel> : LoopSource, ICancelListener
    where TKernel : struct, IKernel
{
    private const int ReadsPerTurn = 4;

    private readonly FastCgiRelay<TKernel> _relay;
    private readonly RelayPool<TKernel> _pool;
    private readonly ResponseHead _head = new();
    private ResponseEnd _end;
    private readonly Action _goOn;
    private RecordReader _records;
    private byte[] _unsent = [];        // what the socket has not taken of the request
    private int _unsentStart;
    private bool _isPeerGone;           // an event has said so: there may be bytes to read before the end

    // The request in progress.
    private Exchange? _exchange;
    private RelayRoute _route = null!;
    private long _written;
    private bool _isSent;
    private bool _hasAnswered;
    private bool _dropsBody;
    private bool _isPaused;             // the client has to read first
    private long _begunAt;              // 0: nobody wants to know how long it takes

    public RelayLink(FastCgiRelay<TKernel> relay, RelayPool<TKernel> pool)
    {
        _relay = relay;
        _pool = pool;
        _goOn = () => _relay.Loop.Post(this);
    }

    private EventLoop<TKernel> Loop => _relay.Loop;

    /// <summary>Whether a request has been answered over it before.</summary>
    public bool IsUsed { get; private set; }

    /// <summary>Whether bytes of the request have been sent: its responder may have acted upon them.</summary>
    public bool HasSent { get; private set; }

    /// <summary>Since when nobody uses it.</summary>
    public long IdleSinceMs { get; private set; }

    /// <summary>Nothing has come that nobody has asked for. One that its responder has ended takes nothing: that shows when it is sent to.</summary>
    public bool IsUsable => !_isPeerGone && Loop.Kernel.Unread(Descriptor) == 0;

    // ---- a request ----

    public void Begin(Exchange exchange, RelayRoute route)
    {
        _exchange = exchange;
        _route = route;
        _head.Reset();
        _end.Reset();
        _written = 0;
        HasSent = _isSent = _hasAnswered = _isPaused = false;
        _dropsBody = exchange.Head.IsHead;
        _begunAt = _relay.Durations.Enabled ? Stopwatch.GetTimestamp() : 0;
    }

    /// <summary>False: the responder has ended the connection. It may have answered before that.</summary>
    public bool TrySend(ReadOnlySpan<byte> request)
    {
        _exchange!.Life.Tell(this);
        while (request.Length > 0)
        {
            int sent = Loop.Kernel.Send(Descriptor, request, more: false);
            if (sent == KernelResult.Again)
            {
                _unsent = request.ToArray();
                _unsentStart = 0;
                Loop.Sources.Rewatch(this, writing: true);
                return true;
            }
            if (sent < 0)
            {
                return false;
            }
            HasSent = true;
            request = request[sent..];
        }
        _isSent = true;
        return true;
    }

    private void SendOn()
    {
        while (_unsentStart < _unsent.Length)
        {
            int sent = Loop.Kernel.Send(Descriptor, _unsent.AsSpan(_unsentStart), more: false);
            if (sent == KernelResult.Again)
            {
                return;
            }
            if (sent < 0)
            {
                _unsent = [];       // it may have answered all the same
                return;
            }
            _unsentStart += sent;
        }
        _unsent = [];
        _isSent = true;
        Loop.Sources.Rewatch(this, writing: false);
    }

    // ---- events ----

    public override bool OnEvent(LoopDriver driver, Readiness ready)
    {
        _isPeerGone |= (ready & (Readiness.PeerFinished | Readiness.HangUp | Readiness.Error)) != 0;
        if (_exchange is null)
        {
            if ((ready & ~Readiness.Write) != 0)
            {
                Drop();     // its end, or an answer that nobody has asked for
            }
            return true;
        }
        if (_unsent.Length > 0 && (ready & Readiness.Write) != 0)
        {
            SendOn();
        }
        if ((ready & ~Readiness.Write) != 0)
        {
            Receive(driver);
        }
        return true;
    }

    /// <summary>The client reads again, has left, or it is this connection's turn again.</summary>
    public override bool OnPosted(LoopDriver driver)
    {
        if (_exchange is not { } exchange)
        {
            return true;
        }
        if (exchange.Life.IsCancelled)
        {
            GiveUp(exchange);
        }
        else if (!_isPaused || !exchange.Sender.IsFlushPending)
        {
            _isPaused = false;
            Receive(driver);
        }
        return true;
    }

    public void OnCancelled() => Loop.Post(this);

    public override void EndByFault()
    {
        if (_exchange is { } exchange)
        {
            Leave();
            exchange.Break(new IOException("The server failed while the request was passed on."));
            exchange.OnRunCompleted();
        }
        else
        {
            Drop();
        }
    }

    // ---- the answer ----

    private void Receive(LoopDriver driver)
    {
        for (int reads = 1; !_isPaused; reads++)
        {
            byte[] input = driver.Input;
            int count = Loop.Kernel.Receive(Descriptor, input);
            if (count == KernelResult.Again)
            {
                return;
            }
            if (count <= 0)
            {
                OnEnd();
                return;
            }
            _hasAnswered = true;
            if (!TryProcess(input.AsSpan(0, count)))
            {
                return;
            }
            if (_head.IsRead)
            {
                Flush();
            }
            if (count < input.Length && !_isPeerGone)
            {
                return;     // what comes next brings an event of its own
            }
            if (reads == ReadsPerTurn)
            {
                Loop.Post(this);
                return;
            }
        }
    }

    // False: the request is over.
    private bool TryProcess(ReadOnlySpan<byte> bytes)
    {
        int at = 0;
        try
        {
            while (!_end.HasCome)
            {
                var result = _records.Read(bytes[at..], out int consumed, out RecordPart part);
                if (result == ReadResult.Faulty)
                {
                    throw new ConnectorException(ConnectorFault.BrokenResponse, "What it answers is no FastCGI, or it has broken its response off.");
                }
                if (result == ReadResult.NeedMore)
                {
                    return true;
                }
                if (part.RequestId == RecordWriter.RequestId)
                {
                    Take(part, bytes.Slice(at + part.Start, part.Length));
                }
                at += consumed;
            }
            _end.Check(_head.IsRead, missing: !_dropsBody && _exchange!.Answer.Headers.DeclaredLength is >= 0 and long length && length != _written);
        }
        catch (ConnectorException error)
        {
            Fail(error);
            return false;
        }
        Conclude(isKept: at == bytes.Length);
        return false;
    }

    private void Take(in RecordPart part, ReadOnlySpan<byte> content)
    {
        switch (part.Type)
        {
            case RecordType.Stdout:
                if (!_head.IsRead)
                {
                    content = content[TakeHead(content)..];
                }
                if (!content.IsEmpty && !_dropsBody)
                {
                    WriteBody(content);
                }
                break;
            case RecordType.Stderr when !content.IsEmpty:
                _pool.Upstream.Said(System.Text.Encoding.UTF8.GetString(content));
                break;
            case RecordType.EndRequest:
                _end.Take(part, content);
                break;
        }
    }

    private int TakeHead(ReadOnlySpan<byte> content)
    {
        Answer answer = _exchange!.Answer;
        int taken = _head.Take(content, new AnswerFields(answer));
        _dropsBody |= _head.IsRead && answer.StatusCode is 204 or 205 or 304;
        ConnectorException.ThrowIfBodyless(_head.IsRead, answer.StatusCode, answer.Headers.DeclaredLength);
        return taken;
    }

    private void WriteBody(ReadOnlySpan<byte> content)
    {
        Answer answer = _exchange!.Answer;
        if (answer.Headers.DeclaredLength is >= 0 and long length && _written + content.Length > length)
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, "Its response is broken: it has more bytes than its Content-Length says.");
        }
        answer.AppendNow(content);
        _written += content.Length;
    }

    private void Flush()
    {
        ValueTask flushed = _exchange!.Sender.FlushNow();
        if (!flushed.IsCompletedSuccessfully)
        {
            _isPaused = true;
            flushed.AsTask().GetAwaiter().UnsafeOnCompleted(_goOn);
        }
    }

    // ---- its end ----

    private void Conclude(bool isKept)
    {
        Exchange exchange = _exchange!;
        if (isKept && _isSent && !_isPeerGone && _records.AtRecordStart)
        {
            Return();
        }
        else
        {
            Leave();
        }
        _relay.NoteDuration(_begunAt);
        _relay.Finish(exchange);
    }

    // The responder has ended the connection, or reset it.
    private void OnEnd()
    {
        Exchange exchange = _exchange!;
        if (IsUsed && !_hasAnswered && exchange.Body.Received == 0 && IsRepeatable(exchange.Head))
        {
            RelayRoute route = _route;
            Leave();
            _relay.Repeat(exchange, route);
            return;
        }
        Fail(new ConnectorException(ConnectorFault.BrokenResponse, _hasAnswered ? "It has ended the connection in the middle of its response." : "It has ended the connection without an answer."));
    }

    // RFC 9110 §9.2.2: what may be sent twice.
    private static bool IsRepeatable(RequestHead head)
    {
        ReadOnlySpan<byte> method = head[head.Method];
        return method.SequenceEqual("GET"u8) || method.SequenceEqual("HEAD"u8) || method.SequenceEqual("OPTIONS"u8);
    }

    private void Fail(ConnectorException error)
    {
        Exchange exchange = _exchange!;
        error.IsMidway = _written > 0;
        Leave();
        _relay.NoteDuration(_begunAt);
        _pool.Upstream.Failed(error.Message);
        _relay.Fail(exchange, error);
    }

    // A request that nobody waits for any more, or whose time is over.
    private void GiveUp(Exchange exchange)
    {
        Leave();
        _relay.NoteDuration(_begunAt);
        exchange.Fail(new OperationCanceledException("The client has left."));
        _relay.Finish(exchange);
    }

    private void Leave()
    {
        _exchange = null;
        Drop();
    }

    /// <summary>The request is over, or has not begun, and the next may go over it.</summary>
    public void Return()
    {
        IsUsed |= _exchange is not null;
        _exchange = null;
        IdleSinceMs = Loop.NowMs;
        _pool.Return(this);
    }

    /// <summary>It is of no further use.</summary>
    public void Drop()
    {
        _exchange = null;
        if (Descriptor >= 0)
        {
            Loop.Sources.Close(this);
            _pool.Forget(this);
        }
    }
}
