// One request and its response: what both protocols fill and what every handler sees, through the features of ASP.NET
// Core or through Request and Response. Knows nothing of the protocol it arrived by.
//
//   Exchange.cs            what was asked; its turn; who may look at it (Uses.cs, ResponseGate.cs), and what ends it early (RequestLife.cs)
//   Answer.cs              head and body of the response as bytes; AnswerWrites.cs, AnswerFile.cs: in which order they come; AnswerSender.cs: how they leave
//   Exchange.End.cs        how it ends, and what becomes of a response that fails
//   Exchange.Buffers.cs    the memory for both
//   Exchange.Times.cs      where its time goes
//
// An exchange is used by one request after the other. Whatever user code may keep beyond its request (contexts, features,
// header collections, streams, tokens) is made per request, carries its ticket and dies with it: Uses.cs.

using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;
using Microsoft.AspNetCore.Http;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal sealed partial class Exchange
{
    private string? _traceIdentifier;
    private uint _number;

    public Exchange(ExchangeServices services)
    {
        Services = services;
        Answer = new Answer(this);
        Sender = new AnswerSender(this, Sending);
        Writes = new AnswerWrites(this);
        File = new AnswerFile(this, Sending);
        Gate = new ResponseGate(Sending);
        Life = new RequestLife(services);
        RequestHeaders = new RequestHeaders(Head);
        Body = new RequestBody(this, services.Options.RequestBodyBuffer);
        Output = null!;
        OnRunCompleted = RunCompleted;
        OnBodyRoom = BodyRoom;
    }

    public ExchangeServices Services { get; }

    /// <summary>The connection served at the moment.</summary>
    public ResponseChannel Connection { get; private set; } = null!;

    // ---- the request ----

    public RequestHead Head { get; } = new();

    public RequestHeaders RequestHeaders { get; }

    public RequestBody Body { get; }

    /// <summary>Whether the request is still wanted, and what of it. Used in place, never copied.</summary>
    public RequestLife Life;

    /// <summary>Fields behind a chunked body (RFC 9112 §7.1.2), there before the body is complete; null when none came.</summary>
    public IHeaderDictionary? Trailers { get; set; }

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

    // ---- its response ----

    /// <summary>Head and body.</summary>
    public Answer Answer { get; }

    /// <summary>How it leaves.</summary>
    public AnswerSender Sender { get; }

    /// <summary>What the application writes of it.</summary>
    public AnswerWrites Writes { get; }

    /// <summary>The file it consists of.</summary>
    public AnswerFile File { get; }

    /// <summary>Whose turn it is to write. Used in place, never copied.</summary>
    public WriteOrder Order = new();

    /// <summary>Protects what the handler's thread and the loop both send.</summary>
    public SendLock Sending { get; } = new();

    /// <summary>The response was a switch of protocols: the connection's bytes belong to the application.</summary>
    public bool IsUpgraded { get; private set; }

    /// <summary>Switches protocols (RFC 9110 §7.8): writes the 101; from here on the connection carries raw bytes both ways.</summary>
    /// <returns>What reads them.</returns>
    /// <exception cref="InvalidOperationException">As many connections as may have switched already.</exception>
    public BodyReader Upgrade()
    {
        if (IsUpgraded || Answer.HasStarted)
        {
            throw new InvalidOperationException("The protocol cannot be switched: it has been, or the response has started, meanwhile.");
        }

        Services.AddUpgraded();
        Answer.StatusCode = StatusCodes.Status101SwitchingProtocols;
        IsUpgraded = true;
        Answer.Start();
        BodyReader reader = Body.BeginTunnel();
        Connection.OnUpgraded(this);
        return reader;
    }

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
        Head.NoteMethod();
        Answer.Begin();
        BeginBehindOutput();
        Life.Begin();
        Gate.Open();
    }

    /// <summary>None of the response has been written: what the output holds now comes before it.</summary>
    public void BeginBehindOutput()
    {
        Output.ResponseStart = Output.End;
        Sender.DeferOutput();
    }

    /// <summary>Nobody acts for the request any more: what its ticket opened has ended, and opens nothing. <see cref="Reset"/> follows.</summary>
    public void Retire()
    {
        NextTicket();
        Body.Expire();
    }

    /// <summary>Ends the request. True when the object may serve another one; otherwise something still hangs on to it.</summary>
    public bool Reset()
    {
        Gate.Close();
        NextTicket();
        Services.Handler.Reset(this);
        HandlerState = null;
        bool reusable = Body.Reset() & ResetEnd();
        Life.Reset();
        if (IsUpgraded)
        {
            IsUpgraded = false;
            Services.RemoveUpgraded();
        }

        Head.Reset();
        ResetBuffers();
        RequestHeaders.End();
        Answer.Headers.Begin();
        ResetTimes();
        Trailers = null;
        _allowsSynchronousIO = null;
        _traceIdentifier = null;
        IsInline = false;
        Connection = null!;
        return reusable;
    }

    // ---- who may look at it: whoever bears its ticket ----

    /// <summary>Who may write the response. Used in place, never copied.</summary>
    public ResponseGate Gate;

    private UseWord _uses;
    private HandlerStack _handlerStack;

    /// <inheritdoc cref="ResponseGate.Ticket"/>
    public long Ticket => Gate.Ticket;

    // The request is over: its ticket opens nothing any more, and what it opened has ended.
    private void NextTicket() => Gate.Renew(_uses.EndAll(Ticket));

    /// <inheritdoc cref="HandlerStack.Enter"/>
    public void EnterHandler() => _handlerStack.Enter();

    /// <inheritdoc cref="HandlerStack.Leave"/>
    public void LeaveHandler() => _handlerStack.Leave();

    /// <summary>Whether the calling thread runs the handler's synchronous part, of whichever request the exchange serves.</summary>
    public bool IsHandlerThread
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        get => _handlerStack.IsHere;
    }

    /// <summary>Begins to look at the exchange, for the request that <paramref name="ticket"/> was given to; the answer must be disposed of.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public ExchangeUse Use(long ticket) =>
        IsHandlerThread && ticket == Ticket ? default : UseElsewhere(ticket);

    /// <summary>Says no when the request has ended: for what touches nothing of the exchange.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void CheckCurrent(long ticket)
    {
        if (ticket != Ticket)
        {
            ThrowEnded();
        }
    }

    /// <summary>The same where the end of the request is no error.</summary>
    public bool TryUse(long ticket, out ExchangeUse use)
    {
        if (IsHandlerThread && ticket == Ticket)
        {
            use = default;
            return true;
        }

        use = new ExchangeUse(this);
        return _uses.TryBegin(ticket);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private ExchangeUse UseElsewhere(long ticket)
    {
        if (!_uses.TryBegin(ticket))
        {
            ThrowEnded();
        }

        return new ExchangeUse(this);
    }

    internal void EndUse() => _uses.End();

    [DoesNotReturn]
    internal static void ThrowEnded() =>
        throw new ObjectDisposedException("HTTP request", "The request has ended. What belonged to it cannot be used any more: copy what is needed longer, and await what is begun.");

    // ---- running ----

    /// <summary>Continuation of a handler that did not end in its turn.</summary>
    public Action OnRunCompleted { get; }

    /// <summary>The handler has read enough of a body for which the loop had stopped reading.</summary>
    public Action OnBodyRoom { get; }

    private void RunCompleted() => Connection.FinishAway(this);

    private void BodyRoom() => Connection?.PostResumeReading();

    public void OnBodyWanted() => Connection.OnBodyWanted(this);

    /// <summary>The application gives the connection up (HttpContext.Abort).</summary>
    /// <param name="ticket">Says for which request; nothing happens when it is over.</param>
    public void AbortByApplication(long ticket)
    {
        if (!TryUse(ticket, out ExchangeUse use))
        {
            return;
        }

        // Within the use: afterwards the descriptor may be another connection's.
        using (use)
        {
            using (Sending.Hold())
            {
                using (Life.Hold())
                {
                    if (!Life.TryDrop())
                    {
                        return;
                    }

                    IsBroken = true;
                    AppStatus = 1;
                    Connection.BreakOff(this, atOnce: false);
                    Life.Cancel();
                }

                Sender.EndWaitSoon();      // the peer may be given more time, whoever writes for it has no reason to wait
            }
        }
    }

    /// <summary>The handler has ended, and nothing that it ran for may escape to whoever called it.</summary>
    public void EnsureEnded()
    {
        if (!Answer.HasEnded)
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
