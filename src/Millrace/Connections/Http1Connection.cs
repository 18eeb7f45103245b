// An HTTP/1.1 connection, the receiving half: heads one after the other (RFC 9112 §2 to §5), their bodies (§6, §7), and
// what becomes of the connection between them (§9). Sequencing only: bytes are read in Protocols/Http1, what a handler
// sees is in Exchanges/. The sending half is in Http1Connection.Respond.cs, bodies are in Http1Connection.Body.cs.
//
//          first byte          head whole             handler ended, body whole
//   Idle -------------> Head --------------> Running ---------------------------> Idle
//                        |                    |   handler ended first
//                        | fault, 408         +----------------------> Draining --> Idle
//                        v                    | 101
//                     refused, closed         +----------------------> tunnel, closed

using System.Net;
using Millrace.Exchanges;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Protocols;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.Http1;
using HttpVersion = Millrace.Protocols.Http1.HttpVersion;

namespace Millrace.Connections;

internal sealed partial class Http1Connection<TKernel> : Connection<TKernel>
    where TKernel : struct, IKernel
{
    private const int RequestsPerTurn = 128;    // pipelined ones; then the loop's other connections have their turn

    private readonly byte[] _peer;
    private IPEndPoint? _remote;
    private IPEndPoint? _local;

    // A head, or the trailers of a body, that comes in pieces: all its bytes so far, and the reader that knows where it stopped.
    private Http1Head? _reader;
    private byte[]? _partial;
    private int _partialLength;
    private long _headSinceMs;

    // The request in progress. Set by the loop before its handler runs.
    private bool _is11;
    private bool _keepAlive;
    private bool _offersUpgrade;
    private bool _refused;          // bytes may follow that nobody will read

    public Http1Connection(EventLoop<TKernel> loop, int descriptor, bool isTcp, byte[] peer)
        : base(loop, descriptor, isTcp) => _peer = peer;

    public override bool IsFastCgi => false;

    public override IPEndPoint? RemoteEndPoint => _remote ??= EndPointOf(SocketName.Read(_peer));

    public override IPEndPoint? LocalEndPoint => _local ??= IsTcp ? EndPointOf(SocketName.Of(Descriptor)) : null;

    private static IPEndPoint? EndPointOf(SocketName? name) => name?.Address is { } address ? new IPEndPoint(address, name.Value.Port) : null;

    protected override bool IsMidRequest => _partialLength > 0 || _body != BodyKind.None;

    // A client that is told of the end, and has not asked for it, may be sending its next request at this moment.
    protected override bool MayHaveMoreInput => _refused || (_closes && _keepAlive) || _body != BodyKind.None || _upgraded;

    // ---- reading ----

    protected override bool Process(LoopDriver driver, byte[] buffer, int start, int end)
    {
        for (int requests = 1; start < end && !IsClosed; requests++)
        {
            if (IsClosing)
            {
                _refused = true;    // the rest is for nobody
                return true;
            }

            if (_body != BodyKind.None)
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

            if (IsAway || IsWaitingForGate)
            {
                return true;
            }

            Unhold();
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
        if (IsClosed || !IsSending)
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

    /// <summary>True: <see cref="Connection{TKernel}.Exchange"/> has a whole head. False: more must come, or the request was refused.</summary>
    private bool ReadHead(LoopDriver driver, byte[] buffer, ref int start, int end)
    {
        if (_partialLength > 0)
        {
            return ReadHeadOn(driver, buffer, ref start, end);
        }

        Http1Head reader = driver.TakeHttp1Head();
        switch (reader.Read(buffer.AsSpan(start, end - start), Services.HttpLimits, out int consumed))
        {
            case ReadResult.Done:
                if (ReferenceEquals(buffer, driver.Input))
                {
                    Begin(driver, reader, buffer, start, assembly: null);
                }
                else
                {
                    byte[] copy = BufferPool.Rent(consumed);
                    buffer.AsSpan(start, consumed).CopyTo(copy);
                    Begin(driver, reader, copy, 0, copy);
                }

                driver.Return(reader);
                start += consumed;
                return true;
            case ReadResult.NeedMore:
                _reader = reader;
                _headSinceMs = Loop.NowMs;
                Gather(buffer.AsSpan(start, end - start));
                SetDeadline(_headSinceMs + (long)Options.HeadTimeout.TotalMilliseconds);
                return false;
            default:
                Refuse(driver, reader.Fault);
                reader.Reset();
                driver.Return(reader);
                return false;
        }
    }

    private bool ReadHeadOn(LoopDriver driver, byte[] buffer, ref int start, int end)
    {
        int before = _partialLength;
        Gather(buffer.AsSpan(start, end - start));
        Http1Head reader = _reader!;
        switch (reader.Read(_partial.AsSpan(0, _partialLength), Services.HttpLimits, out int consumed))
        {
            case ReadResult.Done:
                byte[] assembly = _partial!;
                _partial = null;
                _partialLength = 0;
                Begin(driver, reader, assembly, 0, assembly);
                break;
            case ReadResult.NeedMore:
                return false;
            default:
                Refuse(driver, reader.Fault);
                reader.Reset();
                break;
        }

        _reader = null;
        driver.Return(reader);
        start += consumed - before;
        return consumed > 0;
    }

    private void Begin(LoopDriver driver, Http1Head reader, byte[] source, int origin, byte[]? assembly)
    {
        _is11 = reader.Version == HttpVersion.Http11;
        _refused = reader.Form == TargetForm.Authority;     // after CONNECT nobody knows what the bytes are
        _keepAlive = reader.KeepAlive && !_refused;
        _offersUpgrade = reader.IsUpgrade && !reader.IsChunked && reader.ContentLength <= 0;
        _expectsContinue = reader.ExpectsContinue;
        _continueSent = _bodyWanted = _closes = _chunking = false;
        _body = reader.IsChunked ? BodyKind.Chunked : reader.ContentLength > 0 ? BodyKind.Length : BodyKind.None;
        _bodyLeft = reader.ContentLength;
        Exchange exchange = driver.RentExchange();
        FillHead(exchange.Head, reader, source, origin);
        exchange.Begin(this, driver.Output, assembly, Loop.NowMs);
        Exchange = exchange;
    }

    private static void FillHead(RequestHead head, Http1Head reader, byte[] source, int origin)
    {
        head.Buffer = source;
        head.Origin = origin;
        head.Method = SliceOf(reader.Method);
        head.Target = SliceOf(reader.Target);
        head.Path = SliceOf(reader.Path);
        head.Query = SliceOf(reader.Query);
        head.Protocol = new Slice(reader.Target.End + 1, "HTTP/1.1".Length);
        head.Host = SliceOf(reader.Authority);
        head.ContentLength = reader.ContentLength;
        ReadOnlySpan<HeaderField> fields = reader.Headers;
        Span<HeaderSlice> slices = head.ReserveFields(fields.Length);
        for (int i = 0; i < fields.Length; i++)
        {
            ref readonly HeaderField field = ref fields[i];
            slices[i] = new HeaderSlice(field.NameStart, field.NameLength, field.ValueStart, field.ValueLength);
        }

        // RFC 9112 §3.2.2: the authority of an absolute target stands in for whatever Host says, and for a Host that HTTP/1.0 does not need.
        head.HasHostInTargetOnly = reader.HostIndex < 0 && reader.Authority.Length > 0;
        if (reader.Form == TargetForm.Absolute && reader.HostIndex >= 0)
        {
            ref HeaderSlice host = ref slices[reader.HostIndex];
            host = new HeaderSlice(host.NameStart, host.NameLength, reader.Authority.Start, reader.Authority.Length);
        }
    }

    private static Slice SliceOf(ByteRange range) => range.Length == 0 ? default : new Slice(range.Start, range.Length);

    private void Gather(ReadOnlySpan<byte> bytes)
    {
        int needed = _partialLength + bytes.Length;
        if (_partial is null || _partial.Length < needed)
        {
            byte[] larger = BufferPool.Rent(Math.Max(needed, Math.Max(1024, _partialLength * 2)));
            if (_partial is not null)
            {
                Buffer.BlockCopy(_partial, 0, larger, 0, _partialLength);
                BufferPool.Return(_partial);
            }

            _partial = larger;
        }

        bytes.CopyTo(_partial.AsSpan(_partialLength));
        _partialLength = needed;
    }

    // ---- between requests ----

    protected override void OnExchangeEnded(bool keepsOpen)
    {
        if (keepsOpen)
        {
            ResetDiscarded();   // what is left of the body is drained: Process
        }
    }

    protected override void OnClosed()
    {
        DropPartial();
        if (Exchange is { } exchange && IsWaitingForGate)
        {
            exchange.Reset();
            Exchange = null;
        }
    }

    private void DropPartial()
    {
        _reader = null;
        _partialLength = 0;
        if (_partial is { } partial)
        {
            BufferPool.Return(partial);
            _partial = null;
        }
    }
}
