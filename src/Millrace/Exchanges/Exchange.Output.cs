// The response of an exchange: head, body and end, as bytes in its output buffer, and how they get to the socket.
//
// In the handler's synchronous part a flush is only noted: if the handler ends with it, everything leaves in one send
// together with the end of the response; if it goes asynchronous or blocks, its driver or the driver that takes over the
// loop sends what was noted. After that, writes go to the socket directly from whatever thread the handler is on.

using System.Buffers;
using System.Runtime.CompilerServices;
using System.Threading.Tasks.Sources;
using Microsoft.AspNetCore.Http;
using Microsoft.Net.Http.Headers;

namespace Millrace.Exchanges;

internal sealed partial class Exchange : IValueTaskSource
{
    private const int EarlySize = 4096;
    private const int ErrorLineMax = 512;

    private readonly Lock _sendLock = new();
    private ManualResetValueTaskSourceCore<bool> _flushed;
    private byte[]? _early;          // body bytes written before the head
    private int _earlyLength;
    private int _deferredEnd;        // output up to here was flushed but not sent yet; 0 when nothing was
    private long _declared = -1;
    private long _written;
    private bool _flushPending;      // a handler waits on _flushed
    private bool _ended;

    public ResponseHeaders ResponseHeaders { get; } = new();

    public int StatusCode { get; set; } = StatusCodes.Status200OK;

    public string? ReasonPhrase { get; set; }

    /// <summary>The head is fixed.</summary>
    public bool HasStarted { get; private set; }

    /// <summary>HEAD, 204, 205 and 304 have no body, whatever the application writes.</summary>
    public bool SuppressesBody { get; private set; }

    /// <summary>The end of the response has been written, perhaps sent.</summary>
    public bool HasEnded => Volatile.Read(ref _ended);

    /// <summary>The response cannot be finished properly: the connection must not be used further.</summary>
    public bool IsCut { get; private set; }

    /// <summary>Value of END_REQUEST's application status.</summary>
    public uint AppStatus { get; set; }

    /// <summary>One line for the front server's error log, without controls.</summary>
    public string? ErrorLine { get; set; }

    /// <summary>Body bytes written so far.</summary>
    public long Written => _written;

    /// <summary>Protects what the handler's thread and the loop both send.</summary>
    public Lock SendLock => _sendLock;

    // ---- the head ----

    /// <summary>Fixes status and headers and writes the head. <paramref name="length"/>: the length of the body when it is all there, else -1.</summary>
    public void Start(long length = -1)
    {
        if (HasStarted)
        {
            return;
        }

        CheckStatus();
        _declared = ResponseHeaders.ContentLength ?? -1;
        if (_declared < 0 && length >= 0 && !HasNoBodyStatus && !Head.IsHead)
        {
            _declared = length;
        }

        SuppressesBody |= HasNoBodyStatus;
        HasStarted = true;
        ResponseHeaders.Fix();
        Connection.WriteHead(this, Output, _declared);
        if (_earlyLength > 0)
        {
            int early = _earlyLength;
            _earlyLength = 0;
            if (!SuppressesBody && !IsAborted)
            {
                AppendBody(_early.AsSpan(0, early));
            }
        }
    }

    public bool HasNoBodyStatus => StatusCode is 204 or 205 or 304 || (StatusCode == 101 && !IsUpgraded);

    private void CheckStatus()
    {
        if (StatusCode is < 200 or > 999 && !(StatusCode == 101 && IsUpgraded))
        {
            int status = StatusCode;
            StatusCode = StatusCodes.Status500InternalServerError;
            throw new InvalidOperationException($"{status} is not a final status code (RFC 9110 §15).");
        }
    }

    // ---- the body ----

    /// <summary>Room for body bytes; <see cref="AdvanceBody"/> says how many were written.</summary>
    public Memory<byte> ReserveBody(int sizeHint)
    {
        sizeHint = Math.Max(sizeHint, 256);
        if (!HasStarted || SuppressesBody)
        {
            ReserveEarly(sizeHint);
            return _early.AsMemory(_earlyLength);
        }

        Connection.OpenChunk(this, Output);
        return Output.ReserveMemory(sizeHint + Connection.ChunkTailMax);
    }

    public void AdvanceBody(int count)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(count);
        Count(count);
        if (!HasStarted)
        {
            _earlyLength += count;
        }
        else if (!SuppressesBody && !IsAborted)
        {
            Output.End += count;
        }
    }

    /// <summary>Appends body bytes to what will be sent. The head is written when it has not been.</summary>
    public void Append(ReadOnlySpan<byte> bytes)
    {
        if (!HasStarted)
        {
            Count(bytes.Length);
            ReserveEarly(bytes.Length);
            bytes.CopyTo(_early.AsSpan(_earlyLength));
            _earlyLength += bytes.Length;
            return;
        }

        Count(bytes.Length);
        if (!SuppressesBody && !IsAborted)
        {
            AppendBody(bytes);
        }
    }

    private void AppendBody(ReadOnlySpan<byte> bytes)
    {
        while (bytes.Length > 0)
        {
            Connection.OpenChunk(this, Output);
            int room = Connection.ChunkRoom(Output);
            int count = Math.Min(room, bytes.Length);
            Output.Append(bytes[..count]);
            bytes = bytes[count..];
            if (count == room)
            {
                Connection.CloseChunk(this, Output);
            }
        }
    }

    private void ReserveEarly(int size)
    {
        if (_early is null)
        {
            _early = ArrayPool<byte>.Shared.Rent(Math.Max(EarlySize, size));
        }
        else if (_early.Length - _earlyLength < size)
        {
            byte[] larger = ArrayPool<byte>.Shared.Rent(Math.Max(_early.Length * 2, _earlyLength + size));
            Buffer.BlockCopy(_early, 0, larger, 0, _earlyLength);
            ArrayPool<byte>.Shared.Return(_early);
            _early = larger;
        }
    }

    // RFC 9112 §6.3: never more bytes than Content-Length promised.
    private void Count(int count)
    {
        if (count == 0)
        {
            return;
        }

        if (_ended)
        {
            throw new InvalidOperationException("Writing is not allowed after the response was completed.");
        }

        if (HasNoBodyStatus && !Head.IsHead)
        {
            throw new InvalidOperationException($"Writing to the response body is invalid for responses with status code {StatusCode}.");
        }

        long declared = HasStarted ? _declared : ResponseHeaders.ContentLength ?? -1;
        if (declared >= 0 && _written + count > declared)
        {
            throw new InvalidOperationException(
                $"Response Content-Length mismatch: too many bytes written ({_written + count} of {declared}).");
        }

        _written += count;
    }

    // ---- the end ----

    /// <summary>Writes the end of the response; the handler has finished. Never throws.</summary>
    public void End()
    {
        if (_ended)
        {
            return;
        }

        _ended = true;
        try
        {
            if (!HasStarted)
            {
                long declared = ResponseHeaders.ContentLength ?? -1;
                if (declared >= 0 && _written < declared && !Head.IsHead && !HasNoBodyStatus)
                {
                    ReplaceByError(new InvalidOperationException(MismatchText(declared)));
                }

                Start(_earlyLength);
            }
            else if (_declared >= 0 && _written < _declared && !SuppressesBody)
            {
                Fail(new InvalidOperationException(MismatchText(_declared)));
            }
        }
        catch (Exception error)
        {
            ReplaceByError(error);
            Start(0);
        }

        if (Output.ChunkStart >= 0)
        {
            Connection.CloseChunk(this, Output);
        }

        if (IsUpgraded)
        {
            return;
        }

        Connection.WriteEnd(this, Output);
    }

    private string MismatchText(long declared) => $"Response Content-Length mismatch: too few bytes written ({_written} of {declared}).";

    /// <summary>The handler failed. Before the first byte the response becomes a 500 (or what the exception says), after it the response is cut.</summary>
    public void Fail(Exception error)
    {
        if (IsCancelled && error is OperationCanceledException or IOException)
        {
            AppStatus = 1;
            if (!HasStarted)
            {
                ReplaceByStatus(StatusCodes.Status499ClientClosedRequest);
            }
            else
            {
                IsCut = true;
            }

            return;
        }

        if (!HasStarted)
        {
            ReplaceByError(error);
            return;
        }

        IsCut = true;
        AppStatus = 1;
        ErrorLine ??= Line(error);
        Services.Log.HandlerFailed(TraceIdentifier, error);
    }

    private void ReplaceByError(Exception error)
    {
        if (error is BadHttpRequestException bad)
        {
            Services.Log.BadRequest(TraceIdentifier, bad.StatusCode, bad.Message);
            ReplaceByStatus(bad.StatusCode);
            return;
        }

        Services.Log.HandlerFailed(TraceIdentifier, error);
        ErrorLine ??= Line(error);
        ReplaceByStatus(StatusCodes.Status500InternalServerError);
    }

    /// <summary>Turns the response, none of which has been sent, into an empty one with this status.</summary>
    public void ReplaceByStatus(int status)
    {
        _earlyLength = 0;
        _written = 0;
        ResponseHeaders.Begin();
        StatusCode = status;
        ReasonPhrase = null;
        ResponseHeaders[HeaderNames.ContentLength] = "0";
    }

    // Goes into the front server's error log: one line, no controls, nothing a peer could forge a line with.
    private string Line(Exception error) =>
        FieldText.Shown($"millrace: request {TraceIdentifier}: unhandled {error.GetType().FullName}", ErrorLineMax);

    /// <summary>Cuts the response off: the peer must see that it is not whole.</summary>
    public void Cut() => IsCut = true;

    // ---- sending ----

    /// <summary>Sends an interim response (RFC 9110 §15.2) ahead of the head, now or when the handler's synchronous part is over.</summary>
    public void SendInterim(ReadOnlySpan<byte> response)
    {
        lock (_sendLock)
        {
            Output.Append(response);
            SendSoon();
        }
    }

    /// <summary>Sends what there is of a response that has begun: the peer holds its body back until it sees something.</summary>
    public void SendBegun()
    {
        lock (_sendLock)
        {
            if (Output.ChunkStart >= 0)
            {
                Connection.CloseChunk(this, Output);
            }

            SendSoon();
        }
    }

    // Under the lock. Nobody waits for these bytes: what the socket does not take, the loop sends on.
    private void SendSoon()
    {
        Volatile.Write(ref _deferredEnd, Output.End);
        Interlocked.MemoryBarrier();
        if (!IsInline)
        {
            SendDeferred();
        }
    }

    /// <summary>Switches protocols (RFC 9110 §7.8): writes the 101; from here on the connection carries raw bytes both ways.</summary>
    public void Upgrade()
    {
        StatusCode = StatusCodes.Status101SwitchingProtocols;
        IsUpgraded = true;
        Start();
        Body.BeginTunnel();
        Connection.OnUpgraded(this);
    }

    /// <summary>Sends what has been written so far, now or (in the handler's synchronous part) a little later.</summary>
    public ValueTask FlushAsync()
    {
        Start();
        if (Output.ChunkStart >= 0)
        {
            Connection.CloseChunk(this, Output);
        }

        if (IsAborted)
        {
            return default;
        }

        if (IsInline && Output.Length < OutputBuffer.SendAt)
        {
            Volatile.Write(ref _deferredEnd, Output.End);
            Interlocked.MemoryBarrier();
            if (IsInline)
            {
                return default;
            }
        }

        return SendAsync();
    }

    /// <summary>Sends all of the output; waits when the socket takes no more.</summary>
    private ValueTask SendAsync()
    {
        lock (_sendLock)
        {
            switch (Connection.SendOutput(this, Output))
            {
                case SendResult.Done:
                case SendResult.Broken:
                    _deferredEnd = 0;
                    return default;
                default:
                    return WaitWritable();
            }
        }
    }

    /// <summary>Sends the end of the response now, because something is to happen after it. What the socket does not take leaves later.</summary>
    public ValueTask SendEnd()
    {
        lock (_sendLock)
        {
            if (!_flushPending)
            {
                _ = Connection.SendOutput(this, Output);
                _deferredEnd = 0;
            }
        }

        return default;
    }

    // Under the lock. The loop calls ContinueSending when the socket takes bytes again, perhaps at once.
    private ValueTask WaitWritable()
    {
        if (_flushPending)
        {
            throw new InvalidOperationException("A flush of this response is already waiting; await it before writing on.");
        }

        _flushed.Reset();
        _flushPending = true;
        var pending = new ValueTask(this, _flushed.Version);
        Connection.WantWritable(this);
        return pending;
    }

    /// <summary>Driver or loop: sends what an inline handler flushed and nobody has sent yet.</summary>
    public void SendDeferred()
    {
        lock (_sendLock)
        {
            if (Output is null)
            {
                return;     // the response has ended and left
            }

            int end = Volatile.Read(ref _deferredEnd);
            if (end > Output.Start && !IsAborted && !_flushPending)
            {
                Connection.SendUpTo(this, Output, end);
                if (Output.Start < end && !IsAborted)
                {
                    // Flushed, and nobody waits for it: the loop goes on as the socket empties, the handler may say nothing for long.
                    Connection.WantWritable(this);
                    return;
                }
            }

            _deferredEnd = 0;
        }
    }

    /// <summary>Loop: the socket takes bytes again. True when the handler that waited can go on: call <see cref="ResumeFlush"/> then.</summary>
    public bool ContinueSending()
    {
        lock (_sendLock)
        {
            if (!_flushPending)
            {
                SendDeferred();
                return false;
            }

            if (Connection.SendOutput(this, Output) != SendResult.Again)
            {
                return true;
            }

            Connection.WantWritable(this);
            return false;
        }
    }

    /// <summary>Runs the code that waited for its bytes to leave.</summary>
    public void ResumeFlush()
    {
        _flushPending = false;
        _flushed.SetResult(true);
    }

    public bool IsFlushPending => _flushPending;

    void IValueTaskSource.GetResult(short token) => _flushed.GetResult(token);

    ValueTaskSourceStatus IValueTaskSource.GetStatus(short token) => _flushed.GetStatus(token);

    void IValueTaskSource.OnCompleted(Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags) =>
        _flushed.OnCompleted(continuation, state, token, flags);

    /// <summary>Writes, and sends where there is enough of it.</summary>
    public ValueTask WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        Start();
        if (bytes.Length <= OutputBuffer.SendAt - Output.Length)
        {
            Append(bytes.Span);
            return default;
        }

        return WriteInParts(bytes);
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    private async ValueTask WriteInParts(ReadOnlyMemory<byte> bytes)
    {
        while (bytes.Length > 0)
        {
            if (IsAborted)
            {
                Count(bytes.Length);
                return;
            }

            int room = Math.Max(1024, OutputBuffer.SendAt - Output.Length);
            int count = Math.Min(room, bytes.Length);
            Append(bytes.Span[..count]);
            bytes = bytes[count..];
            if (bytes.Length > 0)
            {
                if (Output.ChunkStart >= 0)
                {
                    Connection.CloseChunk(this, Output);
                }

                await SendAsync();
            }
        }
    }

    private bool ResetOutput()
    {
        bool reusable = !_flushPending;
        if (_early is { Length: > 64 * 1024 } early)
        {
            ArrayPool<byte>.Shared.Return(early);
            _early = null;
        }

        _earlyLength = 0;
        _deferredEnd = 0;
        _declared = -1;
        _written = 0;
        _ended = HasStarted = SuppressesBody = IsCut = IsUpgraded = false;
        StatusCode = StatusCodes.Status200OK;
        ReasonPhrase = null;
        AppStatus = 0;
        ErrorLine = null;
        _allowsSynchronousIO = null;
        return reusable;
    }

    /// <summary>The response was a switch of protocols: the connection's bytes belong to the application.</summary>
    public bool IsUpgraded { get; set; }
}

internal enum SendResult
{
    /// <summary>All of it has been taken by the socket.</summary>
    Done,

    /// <summary>The socket takes no more for now.</summary>
    Again,

    /// <summary>The connection is gone; the bytes are dropped.</summary>
    Broken,
}
