// A FastCGI connection, the receiving half: which records may follow which (FastCGI 1.0 §3 to §6), and the request they
// make. One request at a time: FCGI_MPXS_CONNS is 0. Sequencing only: bytes are read in Protocols/FastCgi, variables in
// Protocols/Cgi, and what a handler sees is in Exchanges/. The sending half is in FastCgiConnection.Respond.cs, a
// request that waits for its turn in FastCgiConnection.Queue.cs, how long it waits for what is missing in FastCgiConnection.Time.cs.
//
//          BEGIN            PARAMS(0)                  handler started
//   Idle ---------> Params -----------> Ready (STDIN) -----------------> Running
//    ^                |  ABORT, fault                                       |
//    +----------------+<-------------------- END_REQUEST -------------------+

using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Protocols;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.FastCgi;
using Millrace.Protocols.Text;

namespace Millrace.Connections;

internal sealed partial class FastCgiConnection<TKernel> : Connection<TKernel>
    where TKernel : struct, IKernel
{
    private enum Phase : byte
    {
        Idle,
        Params,
        Ready,
        Running,
    }

    private RecordReader _reader;
    private Phase _phase;
    private bool _keepConnection;
    private bool _hasBegun;          // a request, be it long over
    private bool _isFurther;         // ... before this one
    private bool _stdinOpen;
    private ushort _id;
    private ulong _beginBody;        // BEGIN_REQUEST's 8 bytes while they arrive in pieces

    // PARAMS: in place in the buffer being processed, or gathered when they come in pieces.
    private int _inPlaceStart = -1;
    private int _inPlaceLength;
    private byte[]? _assembly;
    private int _assemblyLength;

    private byte[]? _query;          // GET_VALUES that comes in pieces
    private int _queryLength;

    // The next request, sent before the end of this one (its BEGIN_REQUEST; what follows is held).
    private bool _hasNext;
    private ushort _nextId;
    private bool _nextKeepConnection;
    private bool _closesBehind;      // a request that was refused meanwhile asked for the end of the connection
    private bool _toldOneAtATime;    // the front server has asked, and was answered FCGI_MPXS_CONNS=0
    private bool _knowsOneAtATime;   // ... in an earlier read
    private bool _begunKnowing;      // ... before it began the request that it sends or that runs

    public FastCgiConnection(EventLoop<TKernel> loop, int descriptor, bool isTcp)
        : base(loop, descriptor, isTcp)
    {
    }

    public override bool IsFastCgi => true;

    // The front server reports both addresses with each request; the socket's own say nothing about the client.
    public override System.Net.IPEndPoint? RemoteEndPoint => null;

    public override System.Net.IPEndPoint? LocalEndPoint => null;

    protected override bool ReadsWhileExchanging => !_hasNext;

    protected override bool HasNextRequest => _hasNext;

    protected override bool IsMidRequest => _phase != Phase.Idle || !_reader.AtRecordStart;

    // ABORT_REQUEST may come for a request that has been answered (§5.4). Whoever sends it has given that answer up, not those before it.
    protected override bool MayHaveMoreInput => _stdinOpen || (_isFurther && !_keepConnection);

    protected override bool KeepsOpen(Exchange exchange)
    {
        if (exchange.IsCut && (!exchange.IsAborted || exchange.IsGivenUp))
        {
            BreakWhenTaken(IsTcp && !exchange.IsUnanswered ? BreakSign.Reset : BreakSign.Bytes);
        }

        return _keepConnection;
    }

    // ---- reading ----

    protected override bool Process(LoopDriver driver, byte[] buffer, int start, int end)
    {
        _knowsOneAtATime = _toldOneAtATime;
        bool hasRecordEnded = false;
        while (start < end && !IsClosed)
        {
            if (IsClosing)
            {
                return true;    // the rest is for nobody
            }

            if (!Next(buffer, ref start, end, out int at, out RecordPart part))
            {
                break;
            }

            Take(driver, part, buffer, at);
            hasRecordEnded |= _reader.AtRecordStart;
            if (_phase == Phase.Ready && !_stdinOpen)
            {
                return Start(driver, buffer, start, end);
            }

            if (driver.Output.Length > OutputBuffer.SendAt)
            {
                SendDriverOutput(driver);
                if (IsSending)
                {
                    KeepParams(buffer);
                    Hold(buffer.AsSpan(start, end - start));
                    return true;
                }
            }
        }

        if (IsClosed)
        {
            return true;
        }

        if (_phase == Phase.Ready)
        {
            return Start(driver, buffer, end, end);
        }

        if (_phase == Phase.Params)
        {
            KeepParams(buffer);
        }

        SetDeadlineOfRest(hasRecordEnded);
        return true;
    }

    protected override void ProcessWhileExchanging(LoopDriver driver, byte[] buffer, int start, int end)
    {
        while (start < end && !_hasNext && Next(buffer, ref start, end, out int at, out RecordPart part))
        {
            Take(driver, part, buffer, at);
        }

        if (_reader.Fault != FastCgiFault.None)
        {
            Exchange!.Body.Break(new IOException("The front server broke the FastCGI protocol."));
            BreakOffNow(Exchange);
            return;
        }

        if (_hasNext && start < end)
        {
            Hold(buffer.AsSpan(start, end - start));
        }
    }

    private bool Next(byte[] buffer, ref int start, int end, out int at, out RecordPart part)
    {
        ReadResult result = _reader.Read(buffer.AsSpan(start, end - start), out int consumed, out part);
        at = start + part.Start;
        start += consumed;
        if (result == ReadResult.Faulty)
        {
            Loop.Counters.Refused(Refusal.Of(_reader.Fault));
            if (_phase != Phase.Running || IsWaitingForGate)
            {
                Close(reset: false);
            }
        }

        return result == ReadResult.Done;
    }

    private void Take(LoopDriver driver, in RecordPart part, byte[] buffer, int at)
    {
        switch (part.Type)
        {
            case RecordType.Params:
                TakeParams(driver, part, buffer, at);
                break;
            case RecordType.Stdin:
                TakeStdin(part, buffer, at);
                break;
            case RecordType.BeginRequest:
                TakeBegin(driver, part, buffer, at);
                break;
            case RecordType.AbortRequest:
                TakeAbort(driver, part);
                break;
            case RecordType.GetValues when part.RequestId == 0:
                TakeGetValues(driver, part, buffer, at);
                break;
            default:
                TakeOther(driver, part);
                break;
        }
    }

    // ---- BEGIN_REQUEST, §5.1 ----

    private void TakeBegin(LoopDriver driver, in RecordPart part, byte[] buffer, int at)
    {
        FastCgiFault fault = BeginRequest.Check(part.RequestId, part.ContentLength);
        if (fault != FastCgiFault.None)
        {
            BreakOff(Refusal.Of(fault));
            return;
        }

        foreach (byte b in buffer.AsSpan(at, part.Length))
        {
            _beginBody = (_beginBody << 8) | b;
        }

        if (!part.IsLast)
        {
            return;
        }

        Span<byte> body = stackalloc byte[BeginRequest.Size];
        System.Buffers.Binary.BinaryPrimitives.WriteUInt64BigEndian(body, _beginBody);
        BeginRequest begin = BeginRequest.Read(body);
        if (_phase == Phase.Idle)
        {
            Begin(driver, part.RequestId, begin);
        }
        else if (!IsNext(part.RequestId) && !GivesUpRunning(part.RequestId, begin.Role, cameLater: ReferenceEquals(buffer, driver.Input)))
        {
            RefuseBeside(driver, part.RequestId);
        }
        else if (begin.Role == Role.Responder)
        {
            _hasNext = true;
            Note();
            _nextId = part.RequestId;
            _nextKeepConnection = begin.KeepConnection;
        }
        else
        {
            RefuseRole(driver, part.RequestId, begin.KeepConnection);
        }
    }

    private void RefuseBeside(LoopDriver driver, ushort id)
    {
        if (id == _id)
        {
            BreakOff(Refusal.BeginTwice);
            return;
        }

        Loop.Counters.Refused(Refusal.Multiplexed);
        SendEndRequest(driver, id, ProtocolStatus.CannotMultiplex);
    }

    private void RefuseRole(LoopDriver driver, ushort id, bool keepConnection)
    {
        Loop.Counters.Refused(Refusal.UnknownRole);
        SendEndRequest(driver, id, ProtocolStatus.UnknownRole);
        if (keepConnection)
        {
            return;
        }

        if (_phase == Phase.Running)
        {
            _closesBehind = true;
            Note();
        }
        else
        {
            _stdinOpen = true;      // its PARAMS are still to come
            CloseWhenSent();
        }
    }

    // END_REQUEST may have reached the front server before the exchange has given the connection back: what it sends then is
    // its next request, under any id. HAProxy does not even wait for it where Content-Length tells it that the response is
    // whole, or where it has aborted the request. Before that only the same id can be: another one would be a request beside
    // this one.
    private bool IsNext(ushort id) =>
        _phase == Phase.Running && (Exchange!.HasEnded || Exchange.IsGivenUp || (!_stdinOpen && (id == _id || Exchange.IsWholeToPeer)));

    // A front server that knows the connection to carry one request at a time, and sends another one later than the first, waits
    // no longer for the first: HAProxy 2.6 says nothing when a client goes away, and gives the connection to the next one. Refused,
    // that client would have no answer until `timeout server` is over. Two requests in one read are taken for what they look like.
    private bool GivesUpRunning(ushort id, Role role, bool cameLater)
    {
        if (_phase != Phase.Running || id == _id || role != Role.Responder || !_begunKnowing || !cameLater || !_keepConnection)
        {
            return false;
        }

        Loop.Counters.Aborts++;
        AbortRunning("The front server has given the request up for another one.");
        return true;
    }

    private void Begin(LoopDriver driver, ushort id, in BeginRequest begin)
    {
        if (begin.Role != Role.Responder)
        {
            RefuseRole(driver, id, begin.KeepConnection);
            return;
        }

        _id = id;
        _keepConnection = begin.KeepConnection;
        BeginParams();
    }

    private void BeginParams()
    {
        _phase = Phase.Params;
        _isFurther = _hasBegun;
        _hasBegun = true;
        _stdinOpen = true;
        _begunKnowing = _knowsOneAtATime;
        _headSinceMs = Loop.NowMs;
        _idleUntilMs = 0;
        _inPlaceStart = -1;
        _assemblyLength = 0;
    }

    // ---- PARAMS, §5.2 ----

    private void TakeParams(LoopDriver driver, in RecordPart part, byte[] buffer, int at)
    {
        if (part.RequestId != _id || _phase != Phase.Params)
        {
            Ignore(part);
            return;
        }

        if (part.ContentLength == 0)
        {
            FinishHead(driver, buffer);
            return;
        }

        int total = _assemblyLength + (_inPlaceStart >= 0 ? _inPlaceLength : 0) + part.Length;
        if (total > Options.MaxHeadBytes)
        {
            Refuse(driver, CgiFault.ParametersTooLarge);
            return;
        }

        if (_assemblyLength == 0 && _inPlaceStart < 0)
        {
            _inPlaceStart = at;
            _inPlaceLength = part.Length;
            return;
        }

        KeepParams(buffer);
        Gather(ref _assembly, ref _assemblyLength, buffer.AsSpan(at, part.Length));
    }

    // The buffer is about to be used for something else, or more pieces follow.
    private void KeepParams(byte[] buffer)
    {
        if (_inPlaceStart >= 0)
        {
            Gather(ref _assembly, ref _assemblyLength, buffer.AsSpan(_inPlaceStart, _inPlaceLength));
            _inPlaceStart = -1;
        }
    }

    private static void Gather(ref byte[]? store, ref int length, ReadOnlySpan<byte> bytes)
    {
        int needed = length + bytes.Length;
        if (store is null || store.Length < needed)
        {
            byte[] larger = BufferPool.Rent(Math.Max(needed, Math.Max(1024, length * 2)));
            if (store is not null)
            {
                Buffer.BlockCopy(store, 0, larger, 0, length);
                BufferPool.Return(store);
            }

            store = larger;
        }

        bytes.CopyTo(store.AsSpan(length));
        length = needed;
    }

    private void FinishHead(LoopDriver driver, byte[] buffer)
    {
        if (!ReferenceEquals(buffer, driver.Input))
        {
            KeepParams(buffer);     // bytes that had been held: their buffer does not stay with a request that goes on
        }

        bool inPlace = _inPlaceStart >= 0;
        byte[] source = inPlace ? buffer : _assembly ?? [];
        int origin = inPlace ? _inPlaceStart : 0;
        int length = inPlace ? _inPlaceLength : _assemblyLength;
        CgiHead cgi = driver.Cgi;
        CgiFault fault = cgi.Read(source.AsSpan(origin, length), Options.MaxParameters);
        if (fault != CgiFault.None)
        {
            Refuse(driver, fault);
            return;
        }

        Slice target = cgi.RequestUri;
        if (target.IsEmpty)
        {
            // No REQUEST_URI: the target is rebuilt behind the parameters.
            KeepParams(buffer);
            source = _assembly!;
            origin = 0;
            target = RebuildTarget(cgi, length);
            source = _assembly!;
            fault = target.Length > cgi.TargetLengthMax ? CgiFault.TargetTooLong : cgi.JudgePath(target.In(source), source.AsSpan(0, length));
            if (fault != CgiFault.None)
            {
                Refuse(driver, fault);
                return;
            }
        }

        byte[]? assembly = source == _assembly ? _assembly : null;
        if (assembly is not null)
        {
            _assembly = null;
            _assemblyLength = 0;
        }

        Exchange exchange = driver.RentExchange();
        FillHead(exchange.Head, cgi, source, origin, length, target);
        exchange.Begin(this, driver.Output, assembly, Loop.NowMs);
        exchange.Body.Begin(cgi.ContentLength, Options.MaxRequestBodySize, BodyState.Open);
        Exchange = exchange;
        _phase = Phase.Ready;
    }

    private Slice RebuildTarget(CgiHead cgi, int length)
    {
        int room = TargetPath.RebuildSizeMax(cgi.ScriptName.Length, cgi.PathInfo.Length, cgi.QueryString.Length);
        byte[] whole = BufferPool.Rent(length + room);
        _assembly.AsSpan(0, length).CopyTo(whole);
        BufferPool.Return(_assembly!);
        ReadOnlySpan<byte> old = whole.AsSpan(0, length);
        int written = TargetPath.Rebuild(cgi.ScriptName.In(old), cgi.PathInfo.In(old), cgi.QueryString.In(old), whole.AsSpan(length));
        _assembly = whole;
        return new Slice(length, written);
    }

    private static void FillHead(RequestHead head, CgiHead cgi, byte[] source, int origin, int length, Slice target)
    {
        head.Buffer = source;
        head.Origin = origin;
        head.IsFastCgi = true;
        head.Method = cgi.Method;
        head.Target = target;
        ReadOnlySpan<byte> text = head[target];
        TargetPath.Split(text, out Slice path, out Slice query);
        head.Path = new Slice(target.Start + Math.Max(path.Start, 0), path.Length);
        head.Query = query.IsPresent ? new Slice(target.Start + query.Start, query.Length) : default;
        head.Protocol = cgi.Protocol;
        head.Host = cgi.Host;
        head.HasHostInTargetOnly = cgi.HasHostInTargetOnly;
        head.ServerName = cgi.ServerName;
        head.ServerPort = cgi.ServerPort;
        head.ServerAddress = cgi.ServerAddress;
        head.RemoteAddress = cgi.RemoteAddress;
        head.RemotePort = cgi.RemotePort;
        head.ContentType = cgi.ContentType;
        head.ContentLength = cgi.ContentLength;
        head.IsHttps = cgi.IsHttps;
        head.Parameters = new Slice(0, length);
        head.SetFields(cgi.Headers);
    }

    // ---- STDIN, §5.3 ----

    private void TakeStdin(in RecordPart part, byte[] buffer, int at)
    {
        if (part.RequestId != _id || _phase is Phase.Idle || !_stdinOpen)
        {
            Ignore(part);
            return;
        }

        if (_phase == Phase.Params)
        {
            BreakOff(Refusal.StdinBeforeParamsEnd);
            return;
        }

        RequestBody body = Exchange!.Body;
        if (part.ContentLength == 0)
        {
            _stdinOpen = false;
            if (!body.Complete())
            {
                Loop.Counters.Refused(Refusal.BodyShort);
            }
        }
        else if (!body.Feed(buffer.AsSpan(at, part.Length)))
        {
            Loop.Counters.Refused(Refusal.BodyLong);
        }
    }

    // ---- the others ----

    private void TakeAbort(LoopDriver driver, in RecordPart part)
    {
        if (part.RequestId != _id || _phase == Phase.Idle || !part.IsFirst)
        {
            Ignore(part);
            return;
        }

        Loop.Counters.Aborts++;
        if (_phase == Phase.Running)
        {
            AbortRunning("The front server aborted the request.");
            return;
        }

        DropRequest(driver);
        SendEndRequest(driver, _id, ProtocolStatus.RequestComplete);
        if (!_keepConnection)
        {
            CloseWhenSent();
        }
    }

    private void AbortRunning(string message)
    {
        Exchange!.Body.Break(new IOException(message));
        Exchange.GiveUp();
    }

    private void TakeGetValues(LoopDriver driver, in RecordPart part, byte[] buffer, int at)
    {
        ReadOnlySpan<byte> content = buffer.AsSpan(at, part.Length);
        if (!part.IsFirst || !part.IsLast)
        {
            Gather(ref _query, ref _queryLength, content);
            if (!part.IsLast)
            {
                return;
            }

            content = _query.AsSpan(0, _queryLength);
        }

        Span<byte> result = stackalloc byte[ManagementValues.ResultSizeMax];
        int requests = Math.Min(Services.Gate?.Limit ?? Options.MaxConnections, Options.MaxConnections);
        int size = ManagementValues.WriteResult(content, Options.MaxConnections, requests, multiplexes: false, result);
        SendControl(driver, result[..size]);
        _toldOneAtATime |= result[..size].IndexOf("FCGI_MPXS_CONNS"u8) >= 0;
        ReturnStore(ref _query);
        _queryLength = 0;
    }

    private void TakeOther(LoopDriver driver, in RecordPart part)
    {
        Ignore(part);
        if (part.RequestId == 0 && part.IsLast && part.Type is 0 or > RecordType.UnknownType)
        {
            Loop.Counters.Refused(Refusal.UnknownType);
            Span<byte> record = stackalloc byte[RecordHeader.Size + UnknownType.Size];
            RecordHeader.Write(record, RecordType.UnknownType, 0, UnknownType.Size, 0);
            UnknownType.Write(record[RecordHeader.Size..], (byte)part.Type);
            SendControl(driver, record);
        }
    }

    // Records for requests that are over or never began, and types that have no meaning here: skipped, but not without end.
    private void Ignore(in RecordPart part)
    {
        if (!CountDiscarded(part.Length + (part.IsFirst ? RecordHeader.Size : 0)))
        {
            BreakOff(Refusal.DiscardLimit);
        }
    }

    // ---- running ----

    private bool Start(LoopDriver driver, byte[] buffer, int start, int end)
    {
        Hold(buffer.AsSpan(start, end - start));
        _phase = Phase.Running;
        _inPlaceStart = -1;
        ResetDiscarded();
        return Dispatch(driver, Exchange!);
    }

    protected override void OnExchangeEnded(bool keepsOpen)
    {
        _phase = Phase.Idle;
        _stdoutBegun = false;
        if (_hasNext && keepsOpen)
        {
            _id = _nextId;
            _keepConnection = _nextKeepConnection;
            BeginParams();
        }

        _hasNext = false;
        if (_closesBehind)
        {
            _stdinOpen = true;
            CloseWhenSent();
        }
    }

    /// <summary>The connection is of no further use: framing or sequence is lost.</summary>
    private void BreakOff(string refusal)
    {
        Loop.Counters.Refused(refusal);
        if (_phase == Phase.Running && !IsWaitingForGate)
        {
            Exchange!.Body.Break(new IOException($"The front server broke the FastCGI protocol ({refusal})."));
            BreakOffNow(Exchange);
        }
        else
        {
            Close(reset: false);
        }
    }

    // A request that was being received and will not be run: the time for its head is none for the connection.
    private void DropRequest(LoopDriver driver)
    {
        _phase = Phase.Idle;
        SetDeadline(Options.IdleTimeout);
        _inPlaceStart = -1;
        ReleaseAssembly();
        if (Exchange is { } exchange)
        {
            Exchange = null;
            if (exchange.Reset())
            {
                driver.Return(exchange);
            }
        }
    }

    private void ReleaseAssembly()
    {
        ReturnStore(ref _assembly);
        _assemblyLength = 0;
    }

    private static void ReturnStore(ref byte[]? store)
    {
        if (store is { } bytes)
        {
            BufferPool.Return(bytes);
            store = null;
        }
    }

    protected override void OnClosed()
    {
        ReleaseAssembly();
        ReturnStore(ref _query);

        if (Exchange is { } exchange && (_phase == Phase.Ready || IsWaitingForGate))
        {
            exchange.Reset();
            Exchange = null;
        }
    }
}
