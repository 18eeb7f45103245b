// RFC 9112: where on a connection one request ends and the next begins, and what bytes are in between. Bytes in, one event after the other out. Heads are read by
// Http1Head, chunks by ChunkedReader; whether the connection stays open is the connection's matter. No I/O, no copy.

namespace Millrace.Protocols.Http1;

/// <summary>What the next byte of a connection belongs to.</summary>
public enum SequenceState : byte
{
    /// <summary>The next request: none of it has come.</summary>
    Idle,

    /// <summary>A head of which a part has come (§2.2).</summary>
    Head,

    /// <summary>The body of the request in progress (§6).</summary>
    Body,

    /// <summary>The next request. The one in progress is whole, and has not been answered.</summary>
    Answering,

    /// <summary>The rest of a body that nobody reads: its request has been answered (§9.3).</summary>
    Draining,

    /// <summary>Another protocol (RFC 9110 §7.8).</summary>
    Tunnel,

    /// <summary>Nobody: where a message ends is lost, or the connection ends with the response in progress.</summary>
    Closing,
}

/// <summary>What has been read.</summary>
public enum SequenceEvent : byte
{
    /// <summary>Nothing, or not enough. What was not consumed is to be given again, with more behind it.</summary>
    NeedMore,

    /// <summary>A head is whole.</summary>
    HeadEnd,

    /// <summary>A head is malformed: <see cref="RequestSequence.Fault"/>. It is the last of the connection.</summary>
    HeadFaulty,

    /// <summary>A piece of the body.</summary>
    Body,

    /// <summary>The last piece of the body; it may be empty. Its trailers are in <see cref="RequestSequence.Trailers"/>.</summary>
    BodyEnd,

    /// <summary>A body is malformed: <see cref="RequestSequence.Fault"/>. Nothing behind it is read.</summary>
    BodyFaulty,

    /// <summary>A piece of a body that nobody reads.</summary>
    Drained,

    /// <summary>The last piece of it; it may be empty. The next request begins behind it.</summary>
    DrainedEnd,

    /// <summary>Bytes of another protocol.</summary>
    Tunnelled,

    /// <summary>Bytes that wait until the request in progress has been answered.</summary>
    Behind,

    /// <summary>Bytes for nobody.</summary>
    Skipped,
}

/// <summary>The requests of one connection, one after the other. The default value is at the start of a connection. Keep it in a field, do not copy it.</summary>
/// <remarks>
/// <code>
///      part of a head     the rest of it       body whole              End
/// Idle ───────────▶ Head ─────────────▶ Body ────────────▶ Answering ─────▶ Idle
///  │                  │                 ▲ │ End                │
///  │ a whole head     │                 │ ├──────▶ Draining ───│──────────▶ Idle     body whole
///  └──────────────────│─────────────────┘ │                    │ Upgrade
///                     │ malformed         │ malformed, Close   └─────▶ Tunnel
///                     └──────────────▶ Closing                            from Body also with the body of a CONNECT
/// </code>
/// From Idle and Head to Answering where there is no body, to Closing behind a CONNECT. From every state to Closing by Close, from Idle also by what is malformed.
/// </remarks>
public struct RequestSequence
{
    private enum BodyKind : byte
    {
        None,
        Length,
        Chunked,
    }

    /// <summary>A reader that is made for the first chunked body of a connection.</summary>
    private sealed class ChunkedBody
    {
        public ChunkedReader Reader;
    }

    private ChunkedBody? _chunks;
    private BodyKind _body;         // of which bytes are still to come
    private bool _hasTrailers;      // the body that has just ended was chunked
    private long _left;             // with Length: how many
    private SequenceState _behind;  // what the bytes behind the request in progress belong to

    /// <summary>What the next byte belongs to.</summary>
    public SequenceState State { get; private set; }

    /// <summary>What was malformed; None where nothing was.</summary>
    public Http1Fault Fault { get; private set; }

    /// <summary>Whether bytes of a body are still to come.</summary>
    public readonly bool IsBodyOpen => _body != BodyKind.None;

    /// <summary>Whether a request is in the middle of arriving.</summary>
    public readonly bool IsMidRequest => State == SequenceState.Head || IsBodyOpen;

    /// <summary>Whether bytes may be coming that nobody will read.</summary>
    public readonly bool MayMoreCome => State is SequenceState.Closing or SequenceState.Tunnel || IsBodyOpen;

    /// <summary>Bytes that a chunked body has at least, as far as its chunks have said: in [0, 2^64-1]; 0 for other bodies.</summary>
    public readonly ulong BytesAnnounced => _body == BodyKind.Chunked ? _chunks!.Reader.DataBytesAnnounced : 0;

    /// <summary>The trailers of the chunked body that has just ended; offsets count from <see cref="TrailersStart"/>.</summary>
    public readonly ReadOnlySpan<HeaderField> Trailers => _hasTrailers ? _chunks!.Reader.Trailers : [];

    /// <summary>Where in the input of the last call they begin.</summary>
    public readonly int TrailersStart => _hasTrailers ? _chunks!.Reader.TrailersStart : 0;

    /// <summary>Reads up to the next event.</summary>
    /// <param name="input">The bytes that follow those consumed before.</param>
    /// <param name="head">Reads heads; the same until a head is whole. Not used while a body is read.</param>
    /// <param name="limits">What heads and trailers are bound by.</param>
    /// <param name="consumed">Bytes taken.</param>
    /// <param name="piece">What the event is about, by its place in the input, where it is about bytes of a body.</param>
    /// <returns>The event.</returns>
    public SequenceEvent Read(ReadOnlySpan<byte> input, Http1Head head, in Http1Limits limits, out int consumed, out ByteRange piece)
    {
        switch (State)
        {
            case SequenceState.Idle or SequenceState.Head:
                piece = default;
                return ReadHead(input, head, in limits, out consumed);
            case SequenceState.Body or SequenceState.Draining:
                return _body == BodyKind.Length ? ReadLength(input, out consumed, out piece) : ReadChunk(input, out consumed, out piece);
            default:
                consumed = State == SequenceState.Answering ? 0 : input.Length;
                piece = new ByteRange(0, input.Length);
                return input.Length == 0 ? SequenceEvent.NeedMore
                    : State == SequenceState.Answering ? SequenceEvent.Behind
                    : State == SequenceState.Tunnel ? SequenceEvent.Tunnelled
                    : SequenceEvent.Skipped;
        }
    }

    private SequenceEvent ReadHead(ReadOnlySpan<byte> input, Http1Head head, in Http1Limits limits, out int consumed)
    {
        switch (head.Read(input, in limits, out consumed))
        {
            case ReadResult.Done:
                Begin(head, in limits);
                return SequenceEvent.HeadEnd;
            case ReadResult.NeedMore:
                State = SequenceState.Head;
                return SequenceEvent.NeedMore;
            default:
                Fault = head.Fault;
                State = SequenceState.Closing;
                return SequenceEvent.HeadFaulty;
        }
    }

    private void Begin(Http1Head head, in Http1Limits limits)
    {
        _behind = head.Form == TargetForm.Authority ? SequenceState.Closing : SequenceState.Answering;      // after CONNECT nobody knows what the bytes are
        if (head.IsChunked)
        {
            _chunks ??= new ChunkedBody();
            _chunks.Reader.Reset(limits);
            _body = BodyKind.Chunked;
            State = SequenceState.Body;
        }
        else if (head.ContentLength > 0)
        {
            _left = head.ContentLength;
            _body = BodyKind.Length;
            State = SequenceState.Body;
        }
        else
        {
            State = _behind;
        }
    }

    private SequenceEvent ReadLength(ReadOnlySpan<byte> input, out int consumed, out ByteRange piece)
    {
        consumed = (int)Math.Min(_left, input.Length);
        piece = new ByteRange(0, consumed);
        _left -= consumed;
        return _left == 0 ? EndBody() : consumed > 0 ? Piece : SequenceEvent.NeedMore;
    }

    private SequenceEvent ReadChunk(ReadOnlySpan<byte> input, out int consumed, out ByteRange piece)
    {
        ref ChunkedReader reader = ref _chunks!.Reader;
        ReadResult result = reader.Read(input, out consumed, out int start, out int length);
        piece = new ByteRange(start, length);
        switch (result)
        {
            case ReadResult.Done:
                return EndBody();
            case ReadResult.NeedMore:
                return length > 0 ? Piece : SequenceEvent.NeedMore;
            default:
                Fault = reader.Fault;
                State = SequenceState.Closing;
                return SequenceEvent.BodyFaulty;
        }
    }

    private readonly SequenceEvent Piece => State == SequenceState.Body ? SequenceEvent.Body : SequenceEvent.Drained;

    private SequenceEvent EndBody()
    {
        _hasTrailers = _body == BodyKind.Chunked;
        _body = BodyKind.None;
        bool isRead = State == SequenceState.Body;
        State = isRead ? _behind : SequenceState.Idle;
        return isRead ? SequenceEvent.BodyEnd : SequenceEvent.DrainedEnd;
    }

    /// <summary>The request in progress has been answered, and the connection serves the next one.</summary>
    /// <remarks>A web server in front that has the answer and has sent the body uses the connection for somebody else: trailers end it no more.</remarks>
    public void End()
    {
        System.Diagnostics.Debug.Assert(State is SequenceState.Body or SequenceState.Answering, "a request ends that has no head, or behind which nothing can come");
        State = IsBodyOpen ? SequenceState.Draining : SequenceState.Idle;
        _chunks?.Reader.PassOverTrailers();
    }

    /// <summary>The protocol is switched: everything that comes from now on belongs to the other one.</summary>
    /// <remarks>From the request whose answer says so, which has no body; once it has been switched this changes nothing.</remarks>
    public void Upgrade()
    {
        System.Diagnostics.Debug.Assert(State is SequenceState.Answering or SequenceState.Tunnel, "nothing to switch");
        State = SequenceState.Tunnel;
    }

    /// <summary>Nothing more is read.</summary>
    public void Close() => State = SequenceState.Closing;
}
