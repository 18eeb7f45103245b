// The response of an exchange: head, body and end, as bytes in its output buffer. How they get to the socket is in
// Exchange.Send.cs, who may write when in ResponseGate.cs.

using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;
using Microsoft.AspNetCore.Http;
using Microsoft.Net.Http.Headers;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal sealed partial class Exchange
{
    private const int EarlySize = 4096;
    private const int EarlyKeptMax = 64 * 1024;
    private const int LentSizeMin = 256;
    private const int LentSizeNext = 4096;
    private const int ErrorLineMax = 512;
    private const int FramingMax = 64;      // what a protocol puts around reserved bytes at most

    private byte[]? _early;          // body bytes written before the head
    private byte[]? _earlyKept;      // where the next request's begin
    private int _earlyLength;
    private byte[]? _lent;           // memory that the application was given: it may write there for ever, and is never used for another request
    private long _declared = -1;
    private long _written;
    private int _reserved;           // bytes that may still be advanced over
    private int _reservedAt;         // where in _early they begin; -1 when they are in the output
    private int _lentAt = -1;        // where in _lent they begin; -1 when they are in one of the two
    private bool _ended;

    public ResponseHeaders ResponseHeaders { get; } = new();

    public int StatusCode { get; set; } = StatusCodes.Status200OK;

    public string? ReasonPhrase { get; set; }

    /// <summary>The head is fixed.</summary>
    public bool HasStarted { get; private set; }

    /// <summary>The head says how long the body is.</summary>
    public bool IsLengthDeclared => HasStarted && _declared >= 0;

    /// <summary>HEAD, 204, 205, 304 and a 2xx to CONNECT have no body, whatever the application writes.</summary>
    public bool SuppressesBody { get; private set; }

    /// <summary>The end of the response has been written, perhaps sent.</summary>
    public bool HasEnded => Volatile.Read(ref _ended);

    /// <summary>As HTTP counts it the response is whole: the announced length is written, or there is no body. Read by the loop.</summary>
    public bool IsWholeToPeer => HasStarted && (SuppressesBody || (_declared >= 0 && Volatile.Read(ref _written) >= _declared));

    /// <summary>The response cannot be finished properly: the connection must not be used further.</summary>
    public bool IsCut { get; private set; }

    /// <summary>Value of END_REQUEST's application status.</summary>
    public uint AppStatus { get; set; }

    /// <summary>One line for the front server's error log, without controls.</summary>
    public string? ErrorLine { get; set; }

    /// <summary>Body bytes written so far.</summary>
    public long Written => _written;

    // ---- the head ----

    /// <summary>Fixes status and headers and writes the head. Where what is to be written next is more than was announced, it throws, and nothing has begun.</summary>
    /// <param name="length">The length of the body when it is all there, else -1.</param>
    /// <param name="coming">Bytes that are about to be written.</param>
    public void Start(long length = -1, int coming = 0)
    {
        if (HasStarted)
        {
            return;
        }

        CheckNotFailed();
        CheckStatus();
        CheckMayHaveLength();
        SuppressesBody |= HasNoBodyStatus || OpensTunnel;
        _declared = OpensTunnel ? -1 : ResponseHeaders.DeclaredLength;
        if (_declared < 0 && length >= 0 && !SuppressesBody)
        {
            _declared = length;
        }

        CheckDeclared(coming);
        HasStarted = true;
        ResponseHeaders.Fix();
        WriteHead();
        if (_earlyLength > 0)
        {
            int early = _earlyLength;
            _earlyLength = 0;
            if (!SuppressesBody && !Life.IsAborted)
            {
                AppendBody(_early.AsSpan(0, early));
            }
        }
    }

    // It fails where another thread changes the fields: half a head is of no use to anybody, whatever the application makes of the exception.
    private void WriteHead()
    {
        try
        {
            Connection.Framing.WriteHead(this, Output, _declared);
        }
        catch (Exception error)
        {
            Report(error);
            AbortByApplication(Ticket);
            throw;
        }
    }

    // RFC 9110 §9.3.6: to the client all that follows is the tunnel's, and has no length. There is none here.
    private bool OpensTunnel => StatusCode is >= 200 and < 300 && Head.IsConnect;

    private bool IsLengthLeftOut => Head.IsHead || HasNoBodyStatus || OpensTunnel || Life.IsAborted;

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

    /// <summary>Memory for body bytes that the application may keep, whatever it does with it later; <see cref="AdvanceBody"/> copies what was written.</summary>
    /// <exception cref="ArgumentOutOfRangeException">Negative, or more than fits into an array behind what has been written and not sent.</exception>
    public Memory<byte> LendBody(int sizeHint)
    {
        CheckNotEnded();
        CheckReserve(sizeHint);
        int size = Math.Max(sizeHint, _lent is null ? LentSizeMin : LentSizeNext);
        if (_lent is null || _lent.Length < size)
        {
            _lent = new byte[size];
        }

        _lentAt = 0;
        _reserved = _lent.Length;
        return _lent;
    }

    /// <summary>Room for body bytes where they will be sent from, for whoever is done with it before the request can end; <see cref="AdvanceBody"/> says how many were written.</summary>
    /// <exception cref="ArgumentOutOfRangeException">The same.</exception>
    public Span<byte> ReserveBody(int sizeHint)
    {
        CheckNotEnded();
        return IsBusy ? LendBody(sizeHint).Span : ReserveNow(sizeHint);
    }

    // Nothing else is on its way.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private Span<byte> ReserveNow(int sizeHint)
    {
        CheckReserve(sizeHint);
        _lentAt = -1;
        sizeHint = Math.Max(sizeHint, 256);
        Span<byte> room;
        if (!HasStarted || SuppressesBody)
        {
            ReserveEarly(sizeHint);
            _reservedAt = _earlyLength;
            room = _early.AsSpan(_earlyLength);
        }
        else
        {
            Connection.Framing.OpenChunk(Output);
            _reservedAt = -1;
            room = Output.Reserve(sizeHint + Connection.Framing.ChunkTailMax)[..^Connection.Framing.ChunkTailMax];
        }

        _reserved = room.Length;
        return room;
    }

    // Before anything is changed: the response goes on as if nothing had been asked.
    private void CheckReserve(int sizeHint)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(sizeHint);
        int held = HasStarted && !SuppressesBody ? Output.End : _earlyLength;
        int max = Array.MaxLength - FramingMax - held;
        if (sizeHint > max)
        {
            ThrowTooMuch(sizeHint, max, held);
        }
    }

    private static void ThrowTooMuch(int sizeHint, int max, int held) => throw new ArgumentOutOfRangeException(
        nameof(sizeHint), sizeHint, $"At most {max} bytes of a response can be asked for while {held} wait to be sent; write in smaller parts and flush in between.");

    public void AdvanceBody(int count)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(count);
        if (count > _reserved)
        {
            throw new ArgumentOutOfRangeException(
                nameof(count), count, $"{_reserved} bytes can be advanced over: those that GetMemory gave, unless something has been written or flushed since.");
        }

        if (_lentAt >= 0)
        {
            AppendLent(_lent.AsSpan(_lentAt, count), isAdvanced: true);
            _lentAt += count;
        }
        else
        {
            AdvanceInPlace(count);
        }

        _reserved -= count;
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private void AdvanceInPlace(int count)
    {
        Count(count, isAdvanced: true);
        if (!HasStarted)
        {
            _earlyLength += count;
        }
        else if (!SuppressesBody && !Life.IsAborted)
        {
            if (_reservedAt >= 0)
            {
                AppendBody(_early.AsSpan(_reservedAt, count));  // the head was written in between
            }
            else
            {
                Output.End += count;
            }
        }

        _reservedAt += _reservedAt >= 0 ? count : 0;
    }

    private void CheckNotEnded()
    {
        if (_ended | _fileFailed)
        {
            ThrowNotWritable();
        }
    }

    [DoesNotReturn]
    private void ThrowNotWritable() => throw (_fileFailed ? FileFailed() : new InvalidOperationException("Writing is not allowed after the response was completed."));

    /// <summary>Appends body bytes to what will be sent. The head is written when it has not been.</summary>
    public void Append(ReadOnlySpan<byte> bytes)
    {
        _reserved = 0;
        AppendLent(bytes);
    }

    private void AppendLent(ReadOnlySpan<byte> bytes, bool isAdvanced = false)
    {
        CheckNotEnded();
        if (IsBusy)
        {
            AppendBehind(bytes);
            return;
        }

        Count(bytes.Length, isAdvanced);
        AppendCounted(bytes);
    }

    // Nothing else is on its way.
    private void AppendNow(ReadOnlySpan<byte> bytes)
    {
        _reserved = 0;
        Count(bytes.Length);
        AppendCounted(bytes);
    }

    private void AppendCounted(ReadOnlySpan<byte> bytes)
    {
        if (!HasStarted)
        {
            ReserveEarly(bytes.Length);
            bytes.CopyTo(_early.AsSpan(_earlyLength));
            _earlyLength += bytes.Length;
        }
        else if (!SuppressesBody && !Life.IsAborted)
        {
            AppendBody(bytes);
        }
    }

    private void AppendBody(ReadOnlySpan<byte> bytes)
    {
        while (bytes.Length > 0)
        {
            Connection.Framing.OpenChunk(Output);
            int room = Connection.Framing.ChunkRoom(Output);
            int count = Math.Min(room, bytes.Length);
            Output.Append(bytes[..count]);
            bytes = bytes[count..];
            if (count == room)
            {
                Connection.Framing.CloseChunk(Output);
            }
        }
    }

    // What is outgrown is not used again, and a large one not before the end of the request: the handler may have a span of it still.
    private void ReserveEarly(int size)
    {
        _early ??= _earlyKept;
        if (_early is null || _early.Length - _earlyLength < size)
        {
            long needed = (long)_earlyLength + size;
            if (needed > Array.MaxLength)
            {
                throw new InvalidOperationException("A response part is larger than 2 GiB; flush in between.");
            }

            int wanted = (int)Math.Min(Array.MaxLength, Math.Max(Math.Max(EarlySize, (_early?.Length ?? 0) * 2L), needed));
            byte[] larger = wanted > EarlyKeptMax ? Steady.Rent(wanted) : new byte[wanted];
            _early.AsSpan(0, _earlyLength).CopyTo(larger);
            _early = larger;
        }
    }

    private void ResetEarly()
    {
        if (_early is { Length: > EarlyKeptMax } early)
        {
            Steady.Return(early);
        }
        else
        {
            _earlyKept = _early ?? _earlyKept;
        }

        _early = null;
        _earlyLength = 0;
        _lent = null;
        _lentAt = -1;
    }

    // ---- the end ----

    /// <summary>Writes the end of the response; the handler has finished. Never throws.</summary>
    public void End()
    {
        Gate.Close();
        EndOnce();
    }

    /// <summary>The application says that the response is complete. Within the gate, which must be left for good.</summary>
    public ValueTask Complete()
    {
        EndOnce();
        return _order.Flush.IsPending ? FlushWithAnother() : FlushNow();
    }

    private void EndOnce()
    {
        if (_ended)
        {
            return;
        }

        _ended = true;
        _reserved = 0;
        IsCut |= FileBytesLeft != 0;    // in the middle of a record or chunk
        try
        {
            if (_failure is not null)
            {
                FailAsReported();
            }

            if (_order.HasFollowers)
            {
                EndFollowers(null);
            }

            if (_order.HasUnfinished)
            {
                // What was begun will never be whole, whatever it looked like.
                Start();
                FailInside(new InvalidOperationException("The handler ended before a write that it had begun; await every write."));
                IsCut = true;
            }
            else if (!HasStarted && IsGivenUpByStatus)
            {
                ReplaceGivenUp(null);
                Start(0);
            }
            else if (!HasStarted)
            {
                long declared = ResponseHeaders.DeclaredLength;
                if (declared >= 0 && _written < declared && !Head.IsHead && !HasNoBodyStatus)
                {
                    ReplaceByError(new InvalidOperationException(MismatchText(declared)));
                }

                if (declared < 0 && _earlyLength == 0 && !IsLengthLeftOut)
                {
                    ResponseHeaders[HeaderNames.ContentLength] = "0";       // hosting's log and OnCompleted look for it there
                }

                Start(_earlyLength);
                if (Life.IsAborted)
                {
                    StatusCode = StatusCodes.Status499ClientClosedRequest;      // hosting's name for it: nothing of the response has left, or will
                }
            }
            else if (!IsCut && !Life.IsGivenUp && _declared >= 0 && _written < _declared && !SuppressesBody)
            {
                FailInside(new InvalidOperationException(MismatchText(_declared)));
            }
        }
        catch (Exception error) when (!HasStarted)
        {
            ReplaceByError(error);
            Start(0);
        }
        catch (Exception error)
        {
            // In the middle of its head: another thread is changing the fields.
            IsCut = true;
            FailInside(error);
        }

        if (IsInline && !_order.Flush.IsPending)
        {
            WriteEnd();
            return;
        }

        // The loop may be sending what an application flushed and did not wait for.
        using (_sending.Hold())
        {
            WriteEnd();
        }
    }

    private void WriteEnd()
    {
        if (Output.ChunkStart >= 0)
        {
            Connection.Framing.CloseChunk(Output);
        }

        if (!IsUpgraded)
        {
            Connection.Framing.WriteEnd(this, Output);
        }
    }

    /// <summary>The handler failed. Before the first byte the response becomes a 500 (or what the exception says), after it the response is cut, unless the peer has given it up.</summary>
    public void Fail(Exception error)
    {
        Gate.Close();
        if (_ended)
        {
            FailBehindEnd(error);
            return;
        }

        Exception? cause = error is OperationCanceledException && HasStarted ? _failure : null;     // for which it has been cancelled
        _failure = null;
        FailInside(cause ?? error);
    }

    private void FailAsReported()
    {
        Exception failure = _failure!;
        _failure = null;
        FailInside(failure);
    }

    private void CheckNotFailed()
    {
        if (_failure is not null)
        {
            ThrowFailed(_failure);
        }
    }

    [DoesNotReturn]
    private static void ThrowFailed(Exception failure) =>
        throw new InvalidOperationException("The response cannot begin: the application has said that it failed.", failure);

    /// <summary>Something of the request has failed, and its handler may go on as if nothing had: the response will not be a whole one. Within a use, or the guard of the body's reader.</summary>
    public void Report(Exception error) => _failure ??= error;

    /// <summary>The same outside of them. False when the response is complete or the request over.</summary>
    private bool TryReport(Exception error, long ticket)
    {
        if (!Gate.TryEnterAgain(ticket))
        {
            return false;
        }

        Report(error);
        Gate.Exit(ticket);
        return true;
    }

    private Exception? _failure;

    // Whoever completes the response is within the gate, and must not wait for himself.
    private void FailInside(Exception error)
    {
        Rejection = error as BadHttpRequestException;
        if (Life.IsCancelled && error is OperationCanceledException or IOException)
        {
            AppStatus = 1;
            if (!HasStarted)
            {
                ReplaceGivenUp(error);
            }
            else
            {
                CutUnlessWhole();
            }

            return;
        }

        if (!HasStarted)
        {
            ReplaceByError(error);
            return;
        }

        EndFailure = _ended ? error : null;
        CutUnlessWhole();
        AppStatus = 1;
        ErrorLine ??= Line(error);
        Services.Log.HandlerFailed(TraceIdentifier, error);
    }

    // RFC 9110 §9.3.2, §15.3.5: of a response without a body nothing is missing once its head is there. A web server that has the head
    // alone of a broken FastCGI response answers with an error of its own, or not at all; over HTTP the end of the connection takes nothing away.
    private void CutUnlessWhole() => IsCut |= !Life.IsGivenUp && !(Head.IsFastCgi && SuppressesBody && !Life.IsAborted);

    /// <summary>What was found wrong when the handler had ended as if nothing were: fewer bytes than announced, a failure that it had reported.</summary>
    public Exception? EndFailure { get; private set; }

    private void ReplaceByError(Exception error)
    {
        EndFailure = _ended ? error : null;
        if (error is BadHttpRequestException bad)
        {
            Rejection = bad;
            Services.Log.BadRequest(TraceIdentifier, bad.StatusCode, MessageOf(bad));
            ReplaceByStatus(bad.StatusCode);
            return;
        }

        Services.Log.HandlerFailed(TraceIdentifier, error);
        ErrorLine ??= Line(error);
        ReplaceByStatus(StatusCodes.Status500InternalServerError);
    }

    /// <summary>A fault of the server itself: whatever of the response there is goes no further, and its connection ends with it.</summary>
    public void Break(Exception error)
    {
        Gate.Close();
        _ended = true;
        IsCut = true;
        AppStatus = 1;
        if (_order.HasFollowers)
        {
            EndFollowers(error);
        }

        using (_sending.Hold())
        {
            if (Output is { ChunkStart: >= 0 } output)
            {
                output.End = output.ChunkStart;
                output.ChunkStart = -1;
            }
        }

        Services.Log.InternalError(error);
    }

    /// <summary>The path holds an escaped NUL, which is no path to anybody: answered without the handler.</summary>
    public void RefusePath()
    {
        Services.OffLoop.Refused(Observe.Refusal.EscapedNul);
        ReplaceByStatus(StatusCodes.Status400BadRequest);
        End();
    }

    /// <summary>Turns the response, none of which has been sent, into an empty one with this status.</summary>
    public void ReplaceByStatus(int status)
    {
        _earlyLength = 0;
        _reserved = 0;
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

    private bool ResetOutput()
    {
        bool reusable = !_order.Flush.IsPending && !_order.HasUnfinished;
        if (_order.Flush.IsPending)
        {
            EndWaitSoon();      // whoever still waits for bytes to leave finds the gate closed
        }

        ResetEarly();
        _failure = null;
        _reserved = 0;
        _deferredEnd = 0;
        _sendsEnd = false;
        _declared = -1;
        _written = 0;
        if (IsUpgraded)
        {
            Services.RemoveUpgraded();
        }

        _ended = HasStarted = SuppressesBody = IsCut = IsUnanswered = IsUpgraded = IsEndSent = false;
        StatusCode = StatusCodes.Status200OK;
        ReasonPhrase = null;
        Rejection = null;
        EndFailure = null;
        AppStatus = 0;
        ErrorLine = null;
        _allowsSynchronousIO = null;
        return reusable;
    }

    /// <summary>The response was a switch of protocols: the connection's bytes belong to the application.</summary>
    public bool IsUpgraded { get; set; }

    /// <summary>For what writes a body: behind a switch of protocols there is none, and its bytes would lie among those of the tunnel. Within the gate.</summary>
    /// <exception cref="InvalidOperationException">The response was a switch of protocols.</exception>
    public void CheckNotUpgraded()
    {
        if (IsUpgraded)
        {
            ThrowUpgraded();
        }
    }

    [DoesNotReturn]
    private static void ThrowUpgraded() =>
        throw new InvalidOperationException("The connection has switched protocols, and the response has no body: write to the stream that UpgradeAsync gave.");
}
