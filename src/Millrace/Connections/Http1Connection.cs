// An HTTP/1.1 connection, the receiving half: what becomes of its requests, one after the other. Where a head, a body and the next
// request begin is the RequestSequence's to say, bytes are read in Protocols/Http1, what a handler sees is in Exchanges/. What
// the connection answers of itself is in Http1Connection.Respond.cs, bodies are in Http1Connection.Body.cs.

using System.Net;
using Millrace.Exchanges;
using Millrace.Framing;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Platform;
using Millrace.Protocols;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.Http1;
using HttpVersion = Millrace.Protocols.Http1.HttpVersion;

namespace Millrace.Connections;

internal sealed partial class Http1Connection<TKernel> : Connection<TKernel>
    where TKernel : struct, IKernel
{
    private readonly byte[] _peer;
    private readonly Http1Framing _frames;
    private IPEndPoint? _remote;
    private IPEndPoint? _local;

    private RequestSequence _sequence;      // the loop's; an exchange reads it as it ends, and what the loop changes meanwhile it has pinned or noted

    // A head, or the trailers of a body, that comes in pieces: all its bytes so far, and the reader that knows where it stopped.
    private Http1Head? _reader;
    private GatheredBytes _partial;
    private long _headSinceMs;

    // Bytes of the empty line that may stand ahead of a request line (RFC 9112 §2.2), while nothing has come behind it: no request has begun. Clients of old send one behind a body.
    private int _lineAhead;

    // The request in progress. Set by the loop before its handler runs.
    private bool _offersUpgrade;

    public Http1Connection(EventLoop<TKernel> loop, int descriptor, bool isTcp, byte[] peer)
        : this(loop, descriptor, isTcp, peer, new Http1Framing(isTcp))
    {
    }

    private Http1Connection(EventLoop<TKernel> loop, int descriptor, bool isTcp, byte[] peer, Http1Framing frames)
        : base(loop, descriptor, isTcp, frames) => (_peer, _frames) = (peer, frames);

    protected override bool IsFastCgi => false;

    public override IPEndPoint? RemoteEndPoint => _remote ??= EndPointOf(SocketName.Read(_peer));

    public override IPEndPoint? LocalEndPoint => _local ??= IsTcp ? EndPointOf(SocketName.Of(Descriptor)) : null;

    public override string? LocalPath => IsTcp ? null : SocketName.Of(Descriptor)?.Path;

    private static IPEndPoint? EndPointOf(SocketName? name) => name?.Address is { } address ? new IPEndPoint(address, name.Value.Port) : null;

    // Nothing is read behind a request that is whole, and what is noted need not be a request: an end of the client's, or a body that once was paused.
    protected override bool HasNextRequest => HasNotedInput && !_sequence.IsBodyOpen;

    protected override bool IsMidRequest => _sequence.IsMidRequest;

    protected override bool IsRestComing => _sequence.State == SequenceState.Draining;

    protected override bool IsAtRest => _sequence.State == SequenceState.Idle && _lineAhead != 1;

    protected override byte Knowledge { get => 0; set => _ = value; }

    protected override byte[] Peer => _peer;

    // A client that is told of the end, and has not asked for it, may be sending its next request at this moment.
    // One that has asked for it may have sent the empty line of old clients, or a request that it has not waited with: a close over bytes that nobody has read is a reset (RFC 9112 §2.2, §9.6).
    protected override bool MayHaveMoreInput =>
        _sequence.MayMoreCome || (_frames.KeepAlive && (_frames.Closes || _frames.IsEndWanted)) || _upgraded || Loop.Kernel.Unread(Descriptor) > 0;

    // ---- reading ----

    protected override bool Process(LoopDriver driver, byte[] buffer, int start, int end)
    {
        for (int requests = 1; start < end && !IsClosed; requests++)
        {
            if (IsClosing)
            {
                _sequence.Close();      // the rest is for nobody
                return true;
            }

            if (_sequence.State == SequenceState.Draining)
            {
                start = Drain(buffer, start, end);
                continue;
            }

            if (!ReadHead(driver, buffer, ref start, end))
            {
                return true;
            }

            Exchange exchange = Exchange!;
            if (!BeginBody(driver, exchange, buffer, ref start, end))
            {
                return true;
            }

            HoldBehind(driver, buffer, start, end);
            if (!Dispatch(driver, exchange))
            {
                return false;
            }

            if (Stage is Stage.Away or Stage.Queued)
            {
                return true;
            }

            _held.Drop();
            if (driver.Output.Length > OutputBuffer.SendAt && !SendSoFar(driver, buffer, start, end))
            {
                return true;
            }

            if (requests == RequestsPerTurn && start < end && !IsClosing)
            {
                Yield(buffer.AsSpan(start, end - start));
                return true;
            }
        }

        return true;
    }

    // Pipelined answers leave together, but not without bound. False: the peer must read first.
    private bool SendSoFar(LoopDriver driver, byte[] buffer, int start, int end)
    {
        SendDriverOutput(driver);
        if (Stage != Stage.Sending)
        {
            return !IsClosed;
        }

        Hold(buffer.AsSpan(start, end - start));
        return false;
    }

    // In the driver's input the bytes may stay where they are; another buffer is about to be given back.
    private void HoldBehind(LoopDriver driver, byte[] buffer, int start, int end)
    {
        if (ReferenceEquals(buffer, driver.Input))
        {
            HoldInPlace(buffer, start, end);
        }
        else
        {
            Hold(buffer.AsSpan(start, end - start));
        }
    }

    // ---- the head ----

    /// <summary>True: <see cref="LentConnection{TKernel}.Exchange"/> has a whole head. False: more must come, or the request was refused.</summary>
    private bool ReadHead(LoopDriver driver, byte[] buffer, ref int start, int end)
    {
        if (_reader is null && IsLineAhead(buffer.AsSpan(start, end - start)))
        {
            return false;
        }

        Http1Head reader = _reader ?? driver.TakeHttp1Head();
        int before = _partial.Length;
        ReadOnlySpan<byte> bytes = WithPartial(buffer.AsSpan(start, end - start));
        switch (_sequence.Read(bytes, reader, Services.HttpLimits, out int consumed, out _))
        {
            case SequenceEvent.HeadEnd:
                Begin(driver, reader, buffer, start, consumed);
                _reader = null;
                driver.Return(reader);
                start += consumed - before;
                return true;
            case SequenceEvent.NeedMore when _reader is not null:
                return false;
            case SequenceEvent.NeedMore:
                _reader = reader;
                _headSinceMs = Loop.Kernel.NowMs;       // the turn's time may be a blocking handler old
                if (before == 0)
                {
                    _partial.Add(bytes);
                }

                SetDeadline(_headSinceMs + (long)Options.HeadTimeout.TotalMilliseconds);
                return false;
            default:
                System.Diagnostics.Debug.Assert(_sequence.Fault != Http1Fault.None, "between requests there is nothing but heads");
                Refuse(driver, _sequence.Fault);
                reader.Reset();
                driver.Return(reader);
                return false;
        }
    }

    /// <summary>True: nothing has come but an empty line, or the half of one. False: it is part of the head that these bytes begin.</summary>
    private bool IsLineAhead(ReadOnlySpan<byte> bytes)
    {
        ReadOnlySpan<byte> missing = "\r\n"u8[_lineAhead..];
        if (bytes.Length <= missing.Length && missing.StartsWith(bytes))
        {
            _lineAhead += bytes.Length;
            return true;
        }

        if (_lineAhead > 0)
        {
            _partial.Add("\r\n"u8[.._lineAhead]);
            _lineAhead = 0;
        }

        return false;
    }

    /// <summary>All the bytes of what comes in pieces, or these where nothing does.</summary>
    private ReadOnlySpan<byte> WithPartial(ReadOnlySpan<byte> bytes)
    {
        if (_partial.IsEmpty)
        {
            return bytes;
        }

        _partial.Add(bytes);
        return _partial.Bytes;
    }

    // The exchange has the bytes of the head where they are, in the driver's input, or gets a buffer of its own.
    private void Begin(LoopDriver driver, Http1Head reader, byte[] buffer, int start, int length)
    {
        if (!_partial.IsEmpty)
        {
            byte[] assembly = _partial.Detach();
            Begin(driver, reader, assembly, 0, 0, assembly);
        }
        else if (ReferenceEquals(buffer, driver.Input))
        {
            Begin(driver, reader, buffer, start, length, assembly: null);
        }
        else
        {
            byte[] copy = BufferPool.Rent(length);
            buffer.AsSpan(start, length).CopyTo(copy);
            Begin(driver, reader, copy, 0, length, copy);
        }
    }

    private void Begin(LoopDriver driver, Http1Head reader, byte[] source, int origin, int length, byte[]? assembly)
    {
        _frames.Begin(is11: reader.Version == HttpVersion.Http11, keepAlive: reader.KeepAlive && reader.Form != TargetForm.Authority);
        _offersUpgrade = reader.IsUpgrade && reader.Form != TargetForm.Authority && !reader.IsChunked && reader.ContentLength <= 0;
        _expectsContinue = reader.ExpectsContinue;
        _continueSent = _bodyWanted = false;
        Exchange exchange = driver.RentExchange();
        exchange.Head.Fill(reader, source, origin, length);
        exchange.Begin(this, driver.Output, assembly, Loop.NowMs);
        Exchange = exchange;
    }

    // ---- between requests ----

    protected override bool IsFramingLost => _sequence.State == SequenceState.Closing;

    protected override void OnExchangeEnded(bool keepsOpen)
    {
        if (keepsOpen)
        {
            ResetDiscarded();
            _sequence.End();
        }
    }

    protected override void OnClosed(bool wasQueued)
    {
        DropPartial();
        if (Exchange is { } exchange && wasQueued)
        {
            exchange.Reset();
            Exchange = null;
        }
    }

    private void DropPartial()
    {
        _reader = null;
        _partial.Drop();
    }
}
