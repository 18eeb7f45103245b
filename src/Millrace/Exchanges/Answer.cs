// The answer to a request: its head and, in Answer.Body.cs, its body, as bytes in the exchange's output. In which order an application's writes come here is in
// AnswerWrites.cs, how the bytes get to the socket in AnswerSender.cs, who may write when in ResponseGate.cs; how an answer ends, and what becomes of one
// that fails, is in Exchange.End.cs.
//
//   Empty ──Start──▶ Begun ──End──▶ Ended
//     └─────End────▶ Ending ─Start─────┘         what is replaced, or completed, when the handler has ended without a byte

using System.Diagnostics;
using System.Diagnostics.CodeAnalysis;
using Microsoft.AspNetCore.Http;
using Microsoft.Net.Http.Headers;

namespace Millrace.Exchanges;

internal enum AnswerStage : byte
{
    /// <summary>Status and fields may still change.</summary>
    Empty,

    /// <summary>No more may be written, and the head has not been.</summary>
    Ending,

    /// <summary>The head is fixed.</summary>
    Begun,

    /// <summary>Nothing more may be written. The end of the answer has been, perhaps sent, or is about to be.</summary>
    Ended,
}

internal sealed partial class Answer(Exchange exchange)
{
    private volatile AnswerStage _stage;
    private int _statusCode = StatusCodes.Status200OK;
    private int _fixedStatus;       // from the start on: another thread may be setting the one above at that moment, and all of the head, and what follows it, has to be of one status; 0: none

    public ResponseHeaders Headers { get; } = new();

    public int StatusCode
    {
        get => _fixedStatus != 0 ? _fixedStatus : _statusCode;
        set
        {
            _statusCode = value;
            _hasLateStatus |= exchange.Life.HasTimedOut;
        }
    }

    /// <summary>What hosting sees of an answer of which nothing has left, or will, also where its head was fixed.</summary>
    public void ShowAs(int status) => (_statusCode, _fixedStatus) = (status, _fixedStatus == 0 ? 0 : status);

    public string? ReasonPhrase { get; set; }

    /// <summary>The head is fixed.</summary>
    public bool HasStarted => _stage >= AnswerStage.Begun;

    /// <summary>The application writes nothing more of it: its end has been written, or is about to be.</summary>
    public bool IsWritten => _stage is AnswerStage.Ending or AnswerStage.Ended;

    /// <summary>HEAD, 204, 205, 304 and a 2xx to CONNECT have no body, whatever the application writes.</summary>
    public bool SuppressesBody { get; private set; }

    private void Enter(AnswerStage stage)
    {
        Debug.Assert((_stage, stage) is (AnswerStage.Empty, AnswerStage.Begun or AnswerStage.Ending) or (AnswerStage.Begun or AnswerStage.Ending, AnswerStage.Ended), $"{_stage} -> {stage}");
        _stage = stage;
    }

    public void Begin()
    {
        Headers.Begin();
        SuppressesBody = exchange.Head.IsHead;
    }

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

        exchange.CheckMayBegin();
        Fix(length, coming);
        Enter(IsWritten ? AnswerStage.Ended : AnswerStage.Begun);
        Headers.Fix();
        WriteHead();
        if (_early.Length > 0)
        {
            ReadOnlySpan<byte> early = _early.Take();
            if (!SuppressesBody && !exchange.Life.IsUnwanted)
            {
                AppendBody(early);
            }
        }
    }

    private void Fix(long length, int coming)
    {
        _fixedStatus = exchange.IsUpgraded ? StatusCodes.Status101SwitchingProtocols : _statusCode;
        try
        {
            CheckStatus();
            CheckMayHaveLength();
            SuppressesBody |= HasNoBodyStatus || OpensTunnel;
            _declared = OpensTunnel || exchange.IsUpgraded ? -1 : Headers.DeclaredLength;
            if (length >= 0 && !SuppressesBody && (_declared < 0 || _declared > length))
            {
                _declared = length;     // and no more, whatever another thread has announced since the end was judged: the next answer would be taken for what is missing
            }

            CheckDeclared(coming);
        }
        catch
        {
            _fixedStatus = 0;
            throw;
        }
    }

    // It fails where another thread changes the fields: half a head is of no use to anybody, whatever the application makes of the exception.
    private void WriteHead()
    {
        try
        {
            exchange.Connection.Framing.WriteHead(exchange, exchange.Output, _declared);
        }
        catch (Exception error)
        {
            exchange.Report(error);
            exchange.AbortByApplication(exchange.Ticket);
            throw;
        }
    }

    // RFC 9110 §9.3.6: to the client all that follows is the tunnel's, and has no length. There is none here.
    private bool OpensTunnel => StatusCode is >= 200 and < 300 && exchange.Head.IsConnect;

    // No length is due: there is no body, or nobody who waits for it.
    private bool IsLengthLeftOut => exchange.Head.IsHead || HasNoBodyStatus || OpensTunnel || exchange.Life.IsUnwanted;

    public bool HasNoBodyStatus => StatusCode is 204 or 205 or 304 || (StatusCode == 101 && !exchange.IsUpgraded);

    private void CheckStatus()
    {
        if (StatusCode is < 200 or > 999 && !(StatusCode == 101 && exchange.IsUpgraded))
        {
            int status = StatusCode;
            StatusCode = StatusCodes.Status500InternalServerError;
            throw new InvalidOperationException($"{status} is not a final status code (RFC 9110 §15).");
        }
    }

    // ---- the end ----

    /// <summary>From here on nothing may be written but the end itself.</summary>
    public void StopWriting()
    {
        if (!IsWritten)
        {
            Enter(HasStarted ? AnswerStage.Ended : AnswerStage.Ending);
        }
    }

    /// <summary>Writes the head, and all that has been written before it, which is the whole body.</summary>
    public void StartWhole(bool isDeclared)
    {
        if (!isDeclared && _early.Length == 0 && !IsLengthLeftOut)
        {
            Headers[HeaderNames.ContentLength] = "0";       // hosting's log and OnCompleted look for it there
        }

        Start(_early.Length);
    }

    public void WriteEnd()
    {
        CloseChunk();
        if (!exchange.IsUpgraded)
        {
            exchange.Connection.Framing.WriteEnd(exchange, exchange.Output);
        }

        exchange.Sender.BeginEnd();
    }

    public void CloseChunk()
    {
        if (exchange.Output.ChunkStart >= 0)
        {
            exchange.Connection.Framing.CloseChunk(exchange.Output);
        }
    }

    /// <summary>Turns the response, none of which has been sent, into an empty one with this status.</summary>
    public void ReplaceByStatus(int status)
    {
        _early.Drop();
        _reserved = 0;
        _written = 0;
        Headers.Begin();
        StatusCode = status;
        ReasonPhrase = null;
        Headers[HeaderNames.ContentLength] = "0";
    }

    public void Reset()
    {
        _stage = AnswerStage.Empty;
        ResetBody();
        ResetLength();
        SuppressesBody = _hasLateStatus = _hasLateBytes = WasRefused = IsBehindAnother = false;
        _statusCode = StatusCodes.Status200OK;
        _fixedStatus = 0;
        ReasonPhrase = null;
    }

    // ---- after the time limit ----

    private bool _hasLateStatus;
    private bool _hasLateBytes;

    /// <summary>The application has set the status since it was told, or written something, unless that may be what another body had still in hand.</summary>
    public bool WentOn => _hasLateStatus || (_hasLateBytes && !IsBehindAnother);

    /// <summary>It has tried to, with a token that was cancelled.</summary>
    public bool WasRefused { get; private set; }

    /// <summary>The application has put a body of its own in the place of the server's (compression, caches): what it writes, and what is refused of it, is not seen here.</summary>
    public bool IsBehindAnother { get; set; }

    public void NoteRefusal() => (_hasLateStatus, _hasLateBytes, WasRefused) = (false, false, true);
}
