// Which records may follow which (FastCGI 1.0 §3 to §6), one request at a time (FCGI_MPXS_CONNS is 0): records in, one event after the other out. What
// PARAMS say is read in Cgi/, what becomes of an event is the connection's matter. Nothing is buffered but the unfinished head of a record and BEGIN_REQUEST's 8 bytes.
using System.Diagnostics;

namespace Millrace.Protocols.FastCgi;

/// <summary>How far the request in progress has arrived.</summary>
public enum SequenceState : byte
{
    /// <summary>There is none: BEGIN_REQUEST is awaited.</summary>
    Idle,

    /// <summary>PARAMS are arriving (§5.2).</summary>
    Params,

    /// <summary>PARAMS are whole, STDIN is arriving (§5.3).</summary>
    Stdin,

    /// <summary>STDIN has ended. Until the response has ended too only an abort, or the next request, can follow.</summary>
    Whole,
}

/// <summary>How far the response to the request in progress is, as far as it matters for what the web server may send.</summary>
public enum ResponseProgress : byte
{
    /// <summary>The request has not been given to anybody.</summary>
    None,

    /// <summary>It has been taken, and is answered some time.</summary>
    Awaited,

    /// <summary>All the bytes that its length has announced have been written, or it has none, and END_REQUEST has not been sent.</summary>
    Whole,

    /// <summary>END_REQUEST has been sent, or is what comes next; or the web server has given the request up.</summary>
    Over,
}

/// <summary>What a piece of a record means. The piece is that of <see cref="RequestSequence.Read"/>.</summary>
public enum SequenceEvent : byte
{
    /// <summary>All of the input has been read.</summary>
    NeedMore,

    /// <summary>The bytes are no records (§3.3): <see cref="RequestSequence.Fault"/>. Nothing more is read.</summary>
    Faulty,

    /// <summary>A request has begun (§5.1).</summary>
    Begun,

    /// <summary>A piece of its PARAMS.</summary>
    Params,

    /// <summary>Its PARAMS are whole.</summary>
    ParamsEnd,

    /// <summary>A piece of its STDIN.</summary>
    Stdin,

    /// <summary>Its STDIN is whole.</summary>
    StdinEnd,

    /// <summary>It is aborted (§5.4). It ends when its response has ended, or with <see cref="RequestSequence.Drop"/>.</summary>
    Aborted,

    /// <summary>The next request has begun before this one has ended: nothing more is to be read until <see cref="RequestSequence.End"/>.</summary>
    NextBegun,

    /// <summary>The same, and the web server waits no longer for this one, which need not be run.</summary>
    NextBegunInstead,

    /// <summary>A request beside this one: END_REQUEST with FCGI_CANT_MPX_CONN (§5.5).</summary>
    Multiplexed,

    /// <summary>A request for a role other than the responder's: END_REQUEST with FCGI_UNKNOWN_ROLE (§5.5).</summary>
    UnknownRole,

    /// <summary>A piece of GET_VALUES (§4.1).</summary>
    Values,

    /// <summary>The last piece of it: the answer is due.</summary>
    ValuesEnd,

    /// <summary>A management record of a type that is not known: UNKNOWN_TYPE is due (§4.2).</summary>
    UnknownType,

    /// <summary>A piece that is for nobody: of a request that is over or never began, or of a type that has no meaning here.</summary>
    Skipped,

    /// <summary>BEGIN_REQUEST that cannot be one (§3.3, §5.1): <see cref="RequestSequence.Fault"/>. Nothing more is to be read.</summary>
    BeginFaulty,

    /// <summary>BEGIN_REQUEST for the id in progress: <see cref="FastCgiFault.BegunTwice"/>. Nothing more is to be read.</summary>
    BegunTwice,

    /// <summary>STDIN before the end of PARAMS (§5.2): <see cref="FastCgiFault.StdinTooEarly"/>. Nothing more is to be read.</summary>
    StdinTooEarly,
}

/// <summary>The requests of one connection, one after the other. The default value is at the start of a connection.</summary>
/// <remarks>
/// <code>
///          BEGIN             PARAMS(0)            STDIN(0)
/// Idle ───────────▶ Params ────────────▶ Stdin ────────────▶ Whole
///  ▲                   │ Drop               │ Drop, End         │ Drop, End
///  └───────────────────┴────────────────────┴───────────────────┘      End with a next request: Params, also from Idle, behind a Drop
/// </code>
/// </remarks>
public struct RequestSequence
{
    private RecordReader _reader;
    private ulong _beginBody;           // BEGIN_REQUEST's 8 bytes while they arrive in pieces
    private BeginRequest _begin;        // the last one
    private ushort _nextId;
    private bool _nextKeepsConnection;
    private bool _hasBegun;             // a request, be it long over
    private bool _isFurther;            // ... before this one, whose answers are on their way: an ABORT_REQUEST for this one must find a reader, or the close becomes a reset over them
    private bool _isRestComing;         // of a request that was refused beside another one, or in place of one
    private bool _isStdinComing;        // of the last request, which was answered or refused before it was whole
    private bool _toldOneAtATime;       // the web server has asked, and was answered FCGI_MPXS_CONNS=0
    private bool _knowsOneAtATime;      // ... in an earlier read
    private bool _begunKnowing;         // ... before it began the request in progress

    /// <summary>How far the request in progress has arrived.</summary>
    public SequenceState State { get; private set; }

    /// <summary>Id of the request in progress, or of the last one, in [0, 65535].</summary>
    public ushort Id { get; private set; }

    /// <summary>Whether the connection is to stay open behind it (FCGI_KEEP_CONN, §5.1).</summary>
    public bool KeepsConnection { get; private set; }

    /// <summary>Whether <see cref="SequenceEvent.NextBegun"/> or <see cref="SequenceEvent.NextBegunInstead"/> has come for this request.</summary>
    public bool HasNext { get; private set; }

    /// <summary>Whether the web server that has sent it waits no longer for this one: it knows the connection to carry one at a time.</summary>
    public readonly bool HasNextInstead => HasNext && IsInstead(_nextId);

    /// <summary>Whether the record that these bytes begin with gives this request up: <see cref="SequenceEvent.NextBegunInstead"/> is the next event.</summary>
    /// <param name="rest">The bytes that follow those consumed before.</param>
    /// <returns>False also where the record has not come whole.</returns>
    public readonly bool IsGivenUpBy(ReadOnlySpan<byte> rest) =>
        _begunKnowing && _reader.AtRecordStart && rest.Length >= RecordHeader.Size + BeginRequest.Size
        && RecordHeader.Read(rest) is { Version: RecordHeader.Version1, Type: RecordType.BeginRequest } head
        && BeginRequest.Check(head.RequestId, head.ContentLength) == FastCgiFault.None
        && BeginRequest.Read(rest[RecordHeader.Size..]).Role == Role.Responder
        && IsInstead(head.RequestId);

    /// <summary>Whether a request that was refused beside this one has asked for the end of the connection behind it.</summary>
    public bool ClosesBehind { get; private set; }

    /// <summary>The last BEGIN_REQUEST.</summary>
    public readonly BeginRequest Begin => _begin;

    /// <summary>Why nothing can be read any more.</summary>
    public FastCgiFault Fault { get; private set; }

    /// <summary>Whether nothing can be read any more: bytes that are no records, or a record that cannot be where it is.</summary>
    public readonly bool IsLost => Fault != FastCgiFault.None;

    /// <summary>Whether no record is pending: neither head, content nor padding.</summary>
    public readonly bool AtRecordStart => _reader.AtRecordStart;

    /// <summary>Whether bytes have come that make a part of something.</summary>
    public readonly bool IsMidRequest => State != SequenceState.Idle || !_reader.AtRecordStart;

    /// <summary>Whether no request is in progress, and the rest of one that is over may be coming: until its STDIN ends, as far as that can be seen.</summary>
    public readonly bool IsRestComing => State == SequenceState.Idle && (_isRestComing || _isStdinComing);

    /// <summary>Whether the web server may be sending more of what has begun. ABORT_REQUEST may come for a request that has been answered (§5.4).</summary>
    public readonly bool MayMoreCome => _isRestComing || _isStdinComing || State is SequenceState.Params or SequenceState.Stdin || (_isFurther && !KeepsConnection);

    /// <summary>The web server has been told that requests come one at a time (§4.1).</summary>
    public void TellOneAtATime() => _toldOneAtATime = true;

    /// <summary>Bits that tell another sequence, which reads on where this one is at rest, what it cannot see: that a request has begun before, that
    /// what is left of it may be coming, and that the web server knows of one at a time.</summary>
    public byte Knowledge
    {
        readonly get => (byte)(
            (_hasBegun ? Known.HasBegun : Known.Nothing)
            | (_isRestComing || _isStdinComing ? Known.RestComing : Known.Nothing)
            | (_toldOneAtATime ? Known.ToldOneAtATime : Known.Nothing)
            | (_knowsOneAtATime ? Known.KnowsOneAtATime : Known.Nothing));
        set
        {
            var known = (Known)value;
            _hasBegun = (known & Known.HasBegun) != 0;
            _isRestComing = (known & Known.RestComing) != 0;
            _toldOneAtATime = (known & Known.ToldOneAtATime) != 0;
            _knowsOneAtATime = (known & Known.KnowsOneAtATime) != 0;
        }
    }

    // As they go to another process, which may be of another version: none changes its value.
    [Flags]
    private enum Known : byte
    {
        Nothing = 0,
        HasBegun = 1,
        RestComing = 2,         // or STDIN alone: at rest they come to the same
        ToldOneAtATime = 4,
        KnowsOneAtATime = 8,
    }

    /// <summary>Bytes have come while no request was in progress: what it was told before, it knew when it sent them.</summary>
    public void NoteRead() => _knowsOneAtATime = _toldOneAtATime;

    /// <summary>Reads up to the next event.</summary>
    /// <param name="input">The bytes that follow those consumed before.</param>
    /// <param name="progress">How far the response to the request in progress is.</param>
    /// <param name="consumed">Bytes taken; all of the input where the answer is <see cref="SequenceEvent.NeedMore"/>.</param>
    /// <param name="part">The piece of a record that the event is about, by its place in the input.</param>
    /// <returns>The event.</returns>
    public SequenceEvent Read(ReadOnlySpan<byte> input, ResponseProgress progress, out int consumed, out RecordPart part)
    {
        Debug.Assert(!HasNext, "the next request is read before the one in progress has ended");
        Debug.Assert(!IsLost, "read behind what cannot be read");
        ReadResult result = _reader.Read(input, out consumed, out part);
        if (result == ReadResult.Done && part.Type == RecordType.BeginRequest && !part.IsLast && BeginRequest.Check(part.RequestId, part.ContentLength) == FastCgiFault.None)
        {
            GatherBegin(input.Slice(part.Start, part.Length));
            return SequenceEvent.NeedMore;      // a piece that is not the last one ends where the input does
        }

        if (result != ReadResult.Done)
        {
            Fault = _reader.Fault;
            return result == ReadResult.NeedMore ? SequenceEvent.NeedMore : SequenceEvent.Faulty;
        }

        bool isOurs = part.RequestId == Id;
        switch (part.Type)
        {
            case RecordType.Params when isOurs && State == SequenceState.Params && part.ContentLength > 0:
                return SequenceEvent.Params;
            case RecordType.Params when isOurs && State == SequenceState.Params:
                State = SequenceState.Stdin;
                return SequenceEvent.ParamsEnd;
            case RecordType.Stdin when isOurs && State == SequenceState.Stdin && part.ContentLength > 0:
                return SequenceEvent.Stdin;
            case RecordType.Stdin when isOurs && State == SequenceState.Stdin:
                State = SequenceState.Whole;
                return SequenceEvent.StdinEnd;
            case RecordType.Stdin when isOurs && State == SequenceState.Idle && part.ContentLength == 0:
                _isStdinComing = false;
                return SequenceEvent.Skipped;
            case RecordType.Stdin when isOurs && State == SequenceState.Params:
                Fault = FastCgiFault.StdinTooEarly;
                return SequenceEvent.StdinTooEarly;
            case RecordType.BeginRequest:
                GatherBegin(input.Slice(part.Start, part.Length));
                return TakeBegin(part, progress);
            case RecordType.AbortRequest when isOurs && State != SequenceState.Idle && part.IsFirst:
                return SequenceEvent.Aborted;
            case RecordType.GetValues when part.RequestId == RecordHeader.NullRequestId:
                return part.IsLast ? SequenceEvent.ValuesEnd : SequenceEvent.Values;
            case 0 or > RecordType.UnknownType when part.RequestId == RecordHeader.NullRequestId && part.IsLast:
                return SequenceEvent.UnknownType;
            default:
                return SequenceEvent.Skipped;
        }
    }

    private void GatherBegin(ReadOnlySpan<byte> bytes)
    {
        foreach (byte b in bytes)
        {
            _beginBody = (_beginBody << 8) | b;
        }
    }

    private SequenceEvent TakeBegin(in RecordPart part, ResponseProgress progress)
    {
        Fault = BeginRequest.Check(part.RequestId, part.ContentLength);
        if (Fault != FastCgiFault.None)
        {
            return SequenceEvent.BeginFaulty;
        }

        _begin = BeginRequest.Of(_beginBody);
        bool isServed = _begin.Role == Role.Responder;
        if (State == SequenceState.Idle)
        {
            if (!isServed)
            {
                _isRestComing |= !_begin.KeepConnection;    // its PARAMS are still to come
                return SequenceEvent.UnknownRole;
            }

            Start(part.RequestId, _begin.KeepConnection);
            return SequenceEvent.Begun;
        }

        bool isNext = IsNext(part.RequestId, progress);
        if (!isNext && !(isServed && State != SequenceState.Params && IsInstead(part.RequestId)))
        {
            if (part.RequestId != Id)
            {
                return SequenceEvent.Multiplexed;
            }

            Fault = FastCgiFault.BegunTwice;
            return SequenceEvent.BegunTwice;
        }

        if (!isServed)
        {
            ClosesBehind |= !_begin.KeepConnection;
            return SequenceEvent.UnknownRole;
        }

        HasNext = true;
        _nextId = part.RequestId;
        _nextKeepsConnection = _begin.KeepConnection;
        return isNext ? SequenceEvent.NextBegun : SequenceEvent.NextBegunInstead;
    }

    // END_REQUEST may have reached the web server before anybody here has taken note of it: what it sends then is its next request, under any
    // id. HAProxy does not even wait for it where Content-Length tells it that the response is whole, or where it has aborted the request.
    // Before that only the same id can be: another one would be a request beside this one.
    private readonly bool IsNext(ushort id, ResponseProgress progress) => progress switch
    {
        ResponseProgress.Over => true,
        ResponseProgress.Whole => State == SequenceState.Whole,
        ResponseProgress.Awaited => State == SequenceState.Whole && id == Id,
        _ => false,
    };

    // A web server that knows the connection to carry one request at a time, and sends another one beside the first, waits no longer for
    // the first: HAProxy 2.6 says nothing when a client goes away, and gives the connection to the next one. Refused, that client would have
    // no answer until `timeout server` is over. Both may come in one read: clients that leave at once would else stop all who come after them.
    private readonly bool IsInstead(ushort id) => id != Id && _begunKnowing && KeepsConnection;

    private void Start(ushort id, bool keepsConnection)
    {
        Id = id;
        KeepsConnection = keepsConnection;
        State = SequenceState.Params;
        _isFurther = _hasBegun;
        _hasBegun = true;
        _isRestComing = _isStdinComing = false;
        _begunKnowing = _knowsOneAtATime;
    }

    /// <summary>The request in progress will not be run: it was refused, or aborted in time. What still comes of it is skipped.</summary>
    /// <remarks>Where it was given up for the next one, <see cref="End"/> follows, which begins that.</remarks>
    public void Drop()
    {
        Debug.Assert(State != SequenceState.Idle, "no request to drop");
        GoIdle();
    }

    /// <summary>The response to the request in progress has ended.</summary>
    /// <param name="keepsOpen">Whether the connection serves the next one. If it has begun, it is in progress now.</param>
    /// <returns>Whether a next request is in progress.</returns>
    /// <remarks>Before its PARAMS are whole a request has no response. One that was dropped has its end like any other.</remarks>
    public bool End(bool keepsOpen)
    {
        Debug.Assert(State != SequenceState.Params, "a request ends that has no head");
        bool isNext = HasNext && keepsOpen;
        GoIdle();
        HasNext = false;
        if (isNext)
        {
            Start(_nextId, _nextKeepsConnection);
        }

        _isRestComing |= ClosesBehind;
        return isNext;
    }

    private void GoIdle()
    {
        _isStdinComing |= State is SequenceState.Params or SequenceState.Stdin;
        State = SequenceState.Idle;
    }
}
