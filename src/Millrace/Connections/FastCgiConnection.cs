// A FastCGI connection, the receiving half: what becomes of the records of the web server, and the request they make. Bytes
// and their sequence are read in Protocols/FastCgi, variables in Protocols/Cgi, and what a handler sees is in Exchanges/. The
// sending half is in FastCgiConnection.Respond.cs, a request that waits for its turn in FastCgiConnection.Queue.cs, how long it waits
// for what is missing in FastCgiConnection.Time.cs.
//
// How far a request has arrived, and what a record means then, is the RequestSequence's to say.

using Millrace.Exchanges;
using Millrace.Framing;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Platform;
using Millrace.Protocols;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.FastCgi;
using Millrace.Protocols.Text;

namespace Millrace.Connections;

internal sealed partial class FastCgiConnection<TKernel> : Connection<TKernel>
    where TKernel : struct, IKernel
{
    private readonly FastCgiFraming _frames;
    private RequestSequence _sequence;
    private bool _isTaken;           // the request in progress has a place: it runs, or waits for its turn

    // PARAMS: in place in the buffer being processed, or gathered when they come in pieces.
    private int _inPlaceStart = -1;
    private int _inPlaceLength;
    private byte[]? _assembly;
    private int _assemblyLength;

    private byte[]? _query;          // GET_VALUES that comes in pieces
    private int _queryLength;

    public FastCgiConnection(EventLoop<TKernel> loop, int descriptor, bool isTcp)
        : this(loop, descriptor, isTcp, new FastCgiFraming(isTcp))
    {
    }

    private FastCgiConnection(EventLoop<TKernel> loop, int descriptor, bool isTcp, FastCgiFraming frames)
        : base(loop, descriptor, isTcp, frames) => _frames = frames;

    protected override bool IsFastCgi => true;

    // The front server reports both addresses with each request; the socket's own say nothing about the client.
    public override System.Net.IPEndPoint? RemoteEndPoint => null;

    public override System.Net.IPEndPoint? LocalEndPoint => null;

    // The front server decides (KEEP_CONN): no response says it.
    public override bool EndsBehind(Exchange exchange, out long nowMs)
    {
        nowMs = Loop.NowMs;
        return !_sequence.KeepsConnection;
    }

    protected override bool ReadsWhileExchanging => !_sequence.HasNext;

    protected override bool HasNextRequest => _sequence.HasNext;

    protected override bool IsMidRequest => _sequence.IsMidRequest;

    // Whoever aborts a request that has been answered has given that answer up, not those before it.
    protected override bool MayHaveMoreInput => _sequence.MayMoreCome;

    private bool HasHead => _sequence.State is SequenceState.Stdin or SequenceState.Whole;

    private ResponseProgress Progress =>
        !_isTaken ? ResponseProgress.None
        : Exchange!.HasEnded || Exchange.Life.IsGivenUp ? ResponseProgress.Over
        : Exchange.IsWholeToPeer ? ResponseProgress.Whole
        : ResponseProgress.Awaited;

    protected override bool KeepsOpen(Exchange exchange)
    {
        if (exchange.IsCut && (!exchange.Life.IsAborted || exchange.Life.IsGivenUp))
        {
            BreakWhenTaken(IsTcp && !exchange.IsUnanswered ? BreakSign.Reset : BreakSign.Bytes);
        }

        return _sequence.KeepsConnection;
    }

    // ---- reading ----

    protected override bool Process(LoopDriver driver, byte[] buffer, int start, int end)
    {
        _sequence.NoteRead();
        while (start < end && !IsClosed)
        {
            if (IsClosing)
            {
                return true;    // the rest is for nobody
            }

            if (!Take(driver, buffer, ref start, end))
            {
                break;
            }

            _recordSinceMs = _sequence.AtRecordStart ? 0 : _recordSinceMs;
            if (_sequence.State == SequenceState.Whole)
            {
                return Start(driver, buffer, start, end);
            }

            // Not behind a head: its request has the driver's output, and lies in the buffer.
            if (!HasHead && driver.Output.Length > OutputBuffer.SendAt)
            {
                SendDriverOutput(driver);
                if (Stage == Stage.Sending)
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

        if (HasHead)
        {
            return Start(driver, buffer, end, end);
        }

        if (_sequence.State == SequenceState.Params)
        {
            KeepParams(buffer);
        }

        SetDeadlineOfRest();
        return true;
    }

    protected override void ProcessWhileExchanging(LoopDriver driver, byte[] buffer, int start, int end)
    {
        while (start < end && !_sequence.HasNext && Take(driver, buffer, ref start, end))
        {
        }

        if (_sequence.Fault == FastCgiFault.Version)
        {
            Exchange!.Body.Break(new IOException("The front server broke the FastCGI protocol."));
            BreakOffNow(Exchange);
            return;
        }

        if (_sequence.HasNext && start < end)
        {
            Hold(buffer.AsSpan(start, end - start));
        }

        if (!_sequence.AtRecordStart && Exchange!.Body.State == BodyState.Complete)
        {
            NoteInput();        // the next request may have begun: when this one ends, its head has the time for a head, not that of an idle connection
        }
    }

    /// <summary>Does what the next event asks for. False: more must come, or nothing can.</summary>
    private bool Take(LoopDriver driver, byte[] buffer, ref int start, int end)
    {
        bool cameLater = ReferenceEquals(buffer, driver.Input);
        SequenceEvent its = _sequence.Read(buffer.AsSpan(start, end - start), Progress, cameLater, out int consumed, out RecordPart part);
        int at = start + part.Start;
        start += consumed;
        switch (its)
        {
            case SequenceEvent.NeedMore:
                return false;
            case SequenceEvent.Faulty:
                TakeFault();
                return false;
            case SequenceEvent.Begun:
                BeginParams();
                break;
            case SequenceEvent.Params:
                TakeParams(driver, part, buffer, at);
                break;
            case SequenceEvent.ParamsEnd:
                FinishHead(driver, buffer);
                break;
            case SequenceEvent.Stdin:
                TakeStdin(buffer.AsSpan(at, part.Length));
                break;
            case SequenceEvent.StdinEnd:
                FinishStdin();
                break;
            case SequenceEvent.Aborted:
                Loop.Counters.Aborts++;
                TakeAbort(driver);
                break;
            case SequenceEvent.NextBegun:
                NoteInput();
                break;
            case SequenceEvent.NextBegunInstead:
                NoteInput();
                Loop.Counters.Aborts++;
                AbortTaken("The front server has given the request up for another one.");
                break;
            case SequenceEvent.Multiplexed:
                Loop.Counters.Refused(Refusal.Multiplexed);
                SendEndRequest(driver, part.RequestId, ProtocolStatus.CannotMultiplex);
                break;
            case SequenceEvent.UnknownRole:
                RefuseRole(driver, part.RequestId);
                break;
            case SequenceEvent.Values or SequenceEvent.ValuesEnd:
                TakeValues(driver, buffer.AsSpan(at, part.Length), part);
                break;
            case SequenceEvent.UnknownType:
                Skip(part);
                RefuseType(driver, part.Type);
                break;
            case SequenceEvent.Skipped:
                Skip(part);
                break;
            case SequenceEvent.BeginFaulty:
                BreakOff(Refusal.Of(_sequence.Fault));
                break;
            case SequenceEvent.BegunTwice:
                BreakOff(Refusal.BeginTwice);
                break;
            case SequenceEvent.StdinTooEarly:
                BreakOff(Refusal.StdinBeforeParamsEnd);
                break;
        }

        return true;
    }

    private void TakeFault()
    {
        Loop.Counters.Refused(Refusal.Of(_sequence.Fault));
        if (!_isTaken || Stage == Stage.Queued)
        {
            Close(reset: false);
        }
    }

    // ---- BEGIN_REQUEST, §5.1 ----

    private void RefuseRole(LoopDriver driver, ushort id)
    {
        Loop.Counters.Refused(Refusal.UnknownRole);
        SendEndRequest(driver, id, ProtocolStatus.UnknownRole);
        if (_sequence.ClosesBehind)
        {
            NoteInput();
        }
        else if (!_sequence.Begin.KeepConnection)
        {
            CloseWhenSent();
        }
    }

    private void BeginParams()
    {
        _headSinceMs = _recordSinceMs != 0 ? _recordSinceMs : Loop.NowMs;
        _recordSinceMs = _idleUntilMs = 0;
        _inPlaceStart = -1;
        _assemblyLength = 0;
    }

    // ---- PARAMS, §5.2 ----

    private void TakeParams(LoopDriver driver, in RecordPart part, byte[] buffer, int at)
    {
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
        _frames.Begin(_sequence.Id);
        exchange.Begin(this, driver.Output, assembly, Loop.NowMs);
        exchange.Body.Begin(cgi.ContentLength, Options.MaxRequestBodySize, BodyState.Open);
        Exchange = exchange;
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
        head.Length = length;
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

    private void TakeStdin(ReadOnlySpan<byte> bytes)
    {
        if (!Exchange!.Body.Feed(bytes))
        {
            Loop.Counters.Refused(Refusal.BodyLong);
        }
    }

    private void FinishStdin()
    {
        if (!Exchange!.Body.Complete())
        {
            Loop.Counters.Refused(Refusal.BodyShort);
        }
    }

    // ---- the others ----

    private void TakeAbort(LoopDriver driver)
    {
        if (_isTaken)
        {
            AbortTaken("The front server aborted the request.");
        }
        else
        {
            EndUnrun(driver, ProtocolStatus.RequestComplete);
        }
    }

    // The request will not be run, and has no response but this.
    private void EndUnrun(LoopDriver driver, ProtocolStatus status)
    {
        DropRequest(driver);
        SendEndRequest(driver, _sequence.Id, status);
        if (!_sequence.KeepsConnection)
        {
            CloseWhenSent();
        }
    }

    private void AbortTaken(string message)
    {
        Exchange!.Body.Break(new IOException(message));
        Exchange.Life.GiveUp();
    }

    private void TakeValues(LoopDriver driver, ReadOnlySpan<byte> content, in RecordPart part)
    {
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
        if (result[..size].IndexOf("FCGI_MPXS_CONNS"u8) >= 0)
        {
            _sequence.TellOneAtATime();
        }

        ReturnStore(ref _query);
        _queryLength = 0;
    }

    private void RefuseType(LoopDriver driver, RecordType type)
    {
        Loop.Counters.Refused(Refusal.UnknownType);
        Span<byte> record = stackalloc byte[RecordHeader.Size + UnknownType.Size];
        RecordHeader.Write(record, RecordType.UnknownType, 0, UnknownType.Size, 0);
        UnknownType.Write(record[RecordHeader.Size..], (byte)type);
        SendControl(driver, record);
    }

    // Records for requests that are over or never began, and types that have no meaning here: skipped, but not without end.
    private void Skip(in RecordPart part)
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
        _isTaken = true;
        _inPlaceStart = -1;
        ResetDiscarded();
        Exchange!.BeginBehindOutput();      // what has been answered behind its head
        return Dispatch(driver, Exchange);
    }

    protected override void OnExchangeEnded(bool keepsOpen)
    {
        _isTaken = false;
        if (_sequence.End(keepsOpen))
        {
            BeginParams();
        }

        if (_sequence.ClosesBehind)
        {
            CloseWhenSent();
        }
    }

    /// <summary>The connection is of no further use: framing or sequence is lost.</summary>
    private void BreakOff(string refusal)
    {
        Loop.Counters.Refused(refusal);
        if (_isTaken && Stage != Stage.Queued)
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
        _isTaken = false;
        _sequence.Drop();
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

    protected override void OnClosed(bool wasQueued)
    {
        ReleaseAssembly();
        ReturnStore(ref _query);

        if (Exchange is { } exchange && (!_isTaken || wasQueued))
        {
            exchange.Reset();
            Exchange = null;
        }

        _isTaken = false;       // what is still answered in this turn goes nowhere
    }
}
