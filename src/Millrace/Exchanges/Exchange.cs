// One request and its response: what both protocols fill and what every handler sees, through the features of ASP.NET
// Core or through Request and Response. Knows nothing of the protocol it arrived by.
//
//   RequestInProgress.cs   what was asked; who may look at it (Uses.cs, ResponseGate.cs), and what ends it early (RequestLife.cs)
//   Exchange.cs            its turn
//   Answer.cs              head and body of the response as bytes; AnswerWrites.cs, AnswerFile.cs: in which order they come; AnswerSender.cs: how they leave
//   Exchange.End.cs        how it ends, and what becomes of a response that fails
//   Exchange.Buffers.cs    the memory for both
//
// An exchange is used by one request after the other. Whatever user code may keep beyond its request (contexts, features,
// header collections, streams, tokens) is made per request, carries its ticket and dies with it: Uses.cs.

using System.Diagnostics.CodeAnalysis;
using Microsoft.AspNetCore.Http;
using Millrace.Observe;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal sealed partial class Exchange : RequestInProgress
{
    public Exchange(ExchangeServices services)
        : base(services)
    {
        Answer = new Answer(this);
        Sender = new AnswerSender(this, Sending);
        Writes = new AnswerWrites(this);
        File = new AnswerFile(this, Sending);
        Body = new RequestBody(this, services.Options.RequestBodyBuffer);
        OnRunCompleted = RunCompleted;
        OnBodyRoom = BodyRoom;
    }

    public RequestBody Body { get; }

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

        if (Answer.BytesWaiting > 0)
        {
            throw new InvalidOperationException("The protocol cannot be switched: bytes of a body have been written, and would lie among those of the new protocol.");
        }

        Services.AddUpgraded();
        Answer.StatusCode = StatusCodes.Status101SwitchingProtocols;
        IsUpgraded = true;
        StartUpgraded();
        BodyReader reader = Body.BeginTunnel();
        Connection.OnUpgraded(this);
        return reader;
    }

    // Where the answer cannot begin so, it is as if nobody had asked: what is answered instead has a body.
    private void StartUpgraded()
    {
        try
        {
            Answer.Start();
            Answer.DropReserved();
        }
        catch when (!Answer.HasStarted)
        {
            EndUpgraded();
            throw;
        }
    }

    private void EndUpgraded()
    {
        if (IsUpgraded)
        {
            IsUpgraded = false;
            Services.RemoveUpgraded();
        }
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

    /// <summary>True while the handler is in its first, synchronous part on the driver of its loop: what it flushes is only noted.</summary>
    public volatile bool IsInline;

    /// <summary>Begins with a request whose head has been filled in.</summary>
    public void Begin(ResponseChannel connection, OutputBuffer output, byte[]? assembly, long nowMs)
    {
        Connection = connection;
        _output = output;
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
        EndUpgraded();
        Head.Reset();
        ResetBuffers();
        RequestHeaders.End();
        Answer.Headers.End();
        ResetRequest();
        IsInline = false;
        Connection = null!;
        return reusable;
    }

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
                if (Sender.IsEndSent && !IsUpgraded)
                {
                    Life.Cancel();     // nothing is missing of what its peer has, and the next request on the connection may be somebody else's
                    return;
                }

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

                Connection.TellOfPeerEnd();

                Sender.EndWaitSoon();      // the peer may be given more time, whoever writes for it has no reason to wait
            }
        }
    }

    /// <summary>The handler has ended: a response that it has not ended is broken.</summary>
    public void EnsureEnded()
    {
        if (!Answer.IsWritten)
        {
            Break(new InvalidOperationException("The request handler failed without ending its response."));
        }
    }

    /// <summary>The handler has ended, and the request's own state is still there. Says it once.</summary>
    /// <param name="nowMs">The loop's clock, not that of the turn.</param>
    public void LogIfSlow(long nowMs)
    {
        long total = nowMs - StartedMs;
        if (total < Services.SlowRequestMs || IsUpgraded || _saidSlow)
        {
            return;
        }

        _saidSlow = true;

        long waiting = RunsSinceMs - StartedMs;
        string route = Services.Handler.RouteOf(this) ?? FieldText.Shown(StringTable.Decode(Head[Head.Path]), 256);
        Services.Log.SlowRequest(TraceIdentifier, FieldText.Shown(Head.MethodText), route, total, waiting, total - waiting - BlockedMs, BlockedMs);
    }
}
