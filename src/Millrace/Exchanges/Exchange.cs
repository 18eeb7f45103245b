// One request and its response: what both protocols fill and what every handler sees, through the features of ASP.NET
// Core or through Request and Response. Knows nothing of the protocol it arrived by. How bytes of the response leave is
// in Exchange.Output.cs, where they are kept in Exchange.Buffers.cs; abort and time limits are in Exchange.Abort.cs.
//
// An exchange is used by one request after the other. Whatever user code may keep beyond its request (contexts, features,
// header collections, streams, tokens) is made per request, carries its ticket and dies with it: Exchange.Use.cs.

using Millrace.Platform;

namespace Millrace.Exchanges;

internal sealed partial class Exchange
{
    private string? _traceIdentifier;
    private uint _number;

    public Exchange(ExchangeServices services)
    {
        Services = services;
        RequestHeaders = new RequestHeaders(Head);
        Body = new RequestBody(this, services.Options.RequestBodyBuffer);
        Output = null!;
        OnRunCompleted = RunCompleted;
        OnBodyDrained = BodyDrained;
    }

    public ExchangeServices Services { get; }

    /// <summary>The connection served at the moment.</summary>
    public ResponseChannel Connection { get; private set; } = null!;

    // ---- the request ----

    public RequestHead Head { get; } = new();

    public RequestHeaders RequestHeaders { get; }

    public RequestBody Body { get; }

    /// <summary>Fields behind a chunked body (RFC 9112 §7.1.2), there before the body is complete; null when none came.</summary>
    public Microsoft.AspNetCore.Http.IHeaderDictionary? Trailers { get; set; }

    /// <summary>Milliseconds of the loop's clock at which the head was complete.</summary>
    public long StartedMs { get; private set; }

    public string TraceIdentifier
    {
        get => _traceIdentifier ??= MakeIdentifier();
        set => _traceIdentifier = value;
    }

    // As Kestrel makes it: the connection, and the number of the request on it.
    private string MakeIdentifier()
    {
        const int Digits = 8;
        Span<char> tail = stackalloc char[1 + Digits];
        uint number = _number;
        for (int i = Digits; i > 0; i--)
        {
            tail[i] = "0123456789ABCDEF"[(int)(number & 15)];
            number >>= 4;
        }

        tail[0] = ':';
        return string.Concat(Connection.Id, tail);
    }

    /// <summary>What the handler keeps for the request: the feature collection.</summary>
    public object? HandlerState { get; set; }

    // ---- its turn ----

    /// <summary>True while the handler is in its first, synchronous part on a driver that watches over it.</summary>
    public volatile bool IsInline;

    /// <summary>Begins with a request whose head has been filled in.</summary>
    public void Begin(ResponseChannel connection, OutputBuffer output, byte[]? assembly, long nowMs)
    {
        Connection = connection;
        Output = output;
        _assembly = assembly;
        StartedMs = nowMs;
        _number = connection.NextRequestNumber();
        RequestHeaders.Begin();
        ResponseHeaders.Begin();
        Head.NoteMethod();
        SuppressesBody = Head.IsHead;
        BeginBehindOutput();
        _answered = _sealed = false;
        OpenGate();
    }

    /// <summary>None of the response has been written: what the output holds now comes before it.</summary>
    public void BeginBehindOutput()
    {
        Output.ResponseStart = Output.End;
        DeferOutput();
    }

    /// <summary>What the output holds now, answers to earlier requests, is sent should this one take its time.</summary>
    public void DeferOutput() => _deferredEnd = Output.End;

    /// <summary>Nobody acts for the request any more: what its ticket opened has ended, and opens nothing. <see cref="Reset"/> follows.</summary>
    public void Retire()
    {
        NextTicket();
        Body.Expire();
    }

    /// <summary>Ends the request. True when the object may serve another one; otherwise something still hangs on to it.</summary>
    public bool Reset()
    {
        CloseGate();
        NextTicket();
        Services.Handler.Reset(this);
        HandlerState = null;
        bool reusable = Body.Reset() & ResetOutput();
        ResetAbort();
        FileBytesLeft = 0;
        _fileFailed = false;
        IsSendingFile = false;
        File = null;
        Head.Reset();
        ResetBuffers();
        RequestHeaders.End();
        ResponseHeaders.Begin();
        ResetTimes();
        Trailers = null;
        _traceIdentifier = null;
        IsInline = false;
        Connection = null!;
        return reusable;
    }

    // ---- running ----

    /// <summary>Continuation of a handler that did not end in its turn.</summary>
    public Action OnRunCompleted { get; }

    /// <summary>The handler has read enough of a body for which the loop had stopped reading.</summary>
    public Action OnBodyDrained { get; }

    private void RunCompleted() => Connection.FinishDetached(this);

    private void BodyDrained() => Connection?.PostResumeReading();

    public void OnBodyWanted() => Connection.OnBodyWanted(this);

    /// <summary>The handler has ended on a thread of no loop, and nothing that it ran for may escape to that thread.</summary>
    public void EnsureEnded()
    {
        if (!HasEnded)
        {
            Break(new InvalidOperationException("The request handler failed without ending its response."));
        }
    }

    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    /// <exception cref="InvalidOperationException">Synchronous body I/O is not allowed.</exception>
    public void CheckSynchronousIO(string instead, long ticket)
    {
        using ExchangeUse use = Use(ticket);
        if (!AllowsSynchronousIO)
        {
            throw new InvalidOperationException(
                $"Synchronous operations are disallowed. Call {instead} or set AllowSynchronousIO to true instead.");
        }
    }

    private bool? _allowsSynchronousIO;

    public bool AllowsSynchronousIO
    {
        get => _allowsSynchronousIO ?? Services.Options.AllowSynchronousIO;
        set => _allowsSynchronousIO = value;
    }
}
