// How an exchange ends: the handler has ended, says that its response is complete, or fails. A request whose handler has been told that nobody
// may be waiting any more, and lets go of it before the first byte, ends like this:
//
//   a time limit has passed                           504: the peer still waits
//   the body ended too early, or is otherwise refused its status: a peer that has only finished sending still listens
//   the peer has aborted it by a record               END_REQUEST alone, and the connection goes on
//   the peer has gone, or has finished sending        nothing (over FastCGI, where it may still read, the sign of a broken response), and the connection ends; hosting sees 499, which is no status of HTTP and never leaves

using System.Diagnostics.CodeAnalysis;
using Microsoft.AspNetCore.Http;

namespace Millrace.Exchanges;

internal sealed partial class Exchange
{
    private const int ErrorLineMax = 512;

    private Exception? _failure;

    /// <summary>The response is not whole, and its peer must see that: its connection shows the sign behind it.</summary>
    public bool IsBroken { get; private set; }

    /// <summary>No byte of this response leaves: its handler has let go of it, and there is nothing to say. Behind an ABORT_REQUEST the end of the request leaves all the same.</summary>
    public bool IsUnanswered { get; private set; }

    /// <summary>Why the request was refused: what the application let pass, or reading its body threw.</summary>
    public BadHttpRequestException? Rejection { get; private set; }

    /// <summary>What was found wrong when the handler had ended as if nothing were: fewer bytes than announced, a failure that it had reported.</summary>
    public Exception? EndFailure { get; private set; }

    /// <summary>Value of END_REQUEST's application status.</summary>
    public uint AppStatus { get; set; }

    /// <summary>One line for the front server's error log, without controls.</summary>
    public string? ErrorLine { get; set; }

    /// <summary>Writes the end of the response; the handler has finished. Never throws.</summary>
    public void End()
    {
        Gate.Close();
        SilentEnd.Report(this);
        EndOnce();
    }

    /// <summary>The application says that the response is complete. Within the gate, which must be left for good.</summary>
    public ValueTask Complete()
    {
        EndOnce();
        return Order.Flush.IsPending ? Sender.FlushWithAnother() : Sender.FlushNow();
    }

    // Whatever goes wrong here, the request has its end, be it that its peer sees that there is none: on a connection that went on without, the next answer would be taken for this one's.
    private void EndOnce()
    {
        if (Answer.IsWritten)
        {
            return;
        }

        try
        {
            WriteEnd();
        }
        catch (Exception error)
        {
            BreakInside(error);
        }
    }

    private void WriteEnd()
    {
        Answer.StopWriting();
        Answer.DropReserved();
        IsBroken |= File.BytesLeft != 0;    // in the middle of a record or chunk
        try
        {
            if (_failure is not null)
            {
                FailAsReported();
            }

            if (Order.HasFollowers)
            {
                Writes.EndFollowers(null);
            }

            if (Order.HasUnfinished)
            {
                // What was begun will never be whole, whatever it looked like.
                Answer.Start();
                FailInside(new InvalidOperationException("The handler ended before a write that it had begun; await every write."));
                IsBroken = true;
            }
            else if (!Answer.HasStarted && IsLetGoByStatus)
            {
                ReplaceLetGo(null);
                Answer.Start(0);
            }
            else if (!Answer.HasStarted)
            {
                long declared = Answer.Headers.DeclaredLength;
                if (!Life.IsUnwanted && Answer.MissingOf(declared) is { } missing)
                {
                    ReplaceByError(new InvalidOperationException(missing));
                }

                Answer.StartWhole(declared >= 0);
                if (Life.IsUnwanted)
                {
                    Answer.ShowAs(StatusCodes.Status499ClientClosedRequest);      // hosting's name for it: nothing of the response has left, or will
                }
            }
            else if (!IsBroken && !Life.IsGivenUp && Answer.Missing is { } lacking)
            {
                FailInside(Life.IsUnwanted ? new IOException(lacking) : new InvalidOperationException(lacking));     // nobody is left to miss it
            }
        }
        catch (Exception error) when (!Answer.HasStarted)
        {
            ReplaceByError(error);
            Answer.Start(0);
        }
        catch (Exception error)
        {
            IsBroken = true;    // in the middle of its head: another thread is changing the fields
            FailInside(error);
        }

        if (IsInline && !Order.Flush.IsPending)
        {
            Answer.WriteEnd();
            return;
        }

        // The loop may be sending what an application flushed and did not wait for.
        using (Sending.Hold())
        {
            Answer.WriteEnd();
        }
    }

    /// <summary>The handler failed. Before the first byte the response becomes a 500 (or what the exception says), after it the response is broken, unless the peer has given it up.</summary>
    public void Fail(Exception error)
    {
        Gate.Close();
        if (Answer.IsWritten)
        {
            FailBehindEnd(error);
            return;
        }

        Exception? cause = error is OperationCanceledException && Answer.HasStarted ? _failure : null;     // for which it has been cancelled
        _failure = null;
        FailInside(cause ?? error);
    }

    private void FailAsReported()
    {
        Exception failure = _failure!;
        _failure = null;
        FailInside(failure);
    }

    /// <summary>Something has been reported, and no end has told of it yet.</summary>
    public bool HasFailed => _failure is not null;

    /// <summary>The application may not begin a response that it has said has failed. One that is ending begins: what is reported from then on, on another thread, comes too late.</summary>
    public void CheckMayBegin()
    {
        if (_failure is { } failure && !Answer.IsWritten)
        {
            ThrowFailed(failure);
        }
    }

    [DoesNotReturn]
    private static void ThrowFailed(Exception failure) =>
        throw new InvalidOperationException("The response cannot begin: the application has said that it failed.", failure);

    /// <summary>Something of the request has failed, and its handler may go on as if nothing had: the response will not be a whole one. Within a use, or the guard of the body's reader.</summary>
    public void Report(Exception error) => _failure ??= error;

    /// <summary>The same outside of them. False when the response is complete or the request over.</summary>
    public bool TryReport(Exception error, long ticket)
    {
        if (!Gate.TryEnterAgain(ticket))
        {
            return false;
        }

        Report(error);
        Gate.Exit(ticket);
        return true;
    }

    /// <summary>The handler has been told that nobody may be waiting any more, and this is how it lets go.</summary>
    public bool IsLetGoBy(Exception error) => LetsGo(error) && !Life.HasTimedOut;

    private bool LetsGo(Exception error) => (Life.IsCancelled || Life.HasLeftWithAll) && error is (OperationCanceledException or IOException);

    /// <summary>Whoever completes the response is within the gate, and must not wait for himself.</summary>
    public void FailInside(Exception error)
    {
        Rejection = error as BadHttpRequestException;
        if (LetsGo(error))
        {
            AppStatus = 1;
            if (!Answer.HasStarted)
            {
                ReplaceLetGo(error);
            }
            else
            {
                BreakUnlessWhole();
            }

            return;
        }

        if (!Answer.HasStarted)
        {
            ReplaceByError(error);
            return;
        }

        EndFailure = Answer.IsWritten ? error : null;
        BreakUnlessWhole();
        AppStatus = 1;
        ErrorLine ??= Line(error);
        Services.Log.HandlerFailed(TraceIdentifier, error);
    }

    // RFC 9110 §9.3.2, §15.3.5, RFC 9112 §6.3: nothing is missing of a response without a body, nor of one as long as announced. Its connection is idle to a web server,
    // over FastCGI to HAProxy: the next request on it, somebody else's, would be lost. Those that have a head alone of a broken FastCGI response answer with an error of their own, or not at all.
    private void BreakUnlessWhole() => IsBroken |= !Life.IsGivenUp && (Life.IsUnwanted || !Answer.IsWholeToPeer);

    private void ReplaceByError(Exception error)
    {
        EndFailure = Answer.IsWritten ? error : null;
        if (error is BadHttpRequestException bad)
        {
            Rejection = bad;
            Services.Log.BadRequest(TraceIdentifier, bad.StatusCode, MessageOf(bad));
            Answer.ReplaceByStatus(bad.StatusCode);
            return;
        }

        Services.Log.HandlerFailed(TraceIdentifier, error);
        ErrorLine ??= Line(error);
        Answer.ReplaceByStatus(StatusCodes.Status500InternalServerError);
    }

    /// <summary>A fault of the server itself: whatever of the response there is goes no further, and its connection ends with it.</summary>
    public void Break(Exception error)
    {
        Gate.Close();
        BreakInside(error);
    }

    private void BreakInside(Exception error)
    {
        Answer.StopWriting();
        IsBroken = true;
        AppStatus = 1;
        if (Order.HasFollowers)
        {
            Writes.EndFollowers(error);
        }

        using (Sending.Hold())
        {
            if (Output is { ChunkStart: >= 0 } output)
            {
                output.End = output.ChunkStart;
                output.ChunkStart = -1;
            }
        }

        Services.Log.InternalError(error);
    }

    // The exception handler of ASP.NET Core makes 499 of it before the server sees anything.
    private bool IsLetGoByStatus => Life.IsCancelled && Answer.StatusCode == StatusCodes.Status499ClientClosedRequest;

    private void ReplaceLetGo(Exception? error)
    {
        if (Life.HasTimedOut)
        {
            Answer.ReplaceByStatus(StatusCodes.Status504GatewayTimeout);
            return;
        }

        if ((Body.Error ?? error) is BadHttpRequestException bad)
        {
            ReplaceByError(bad);
            return;
        }

        Answer.ReplaceByStatus(StatusCodes.Status499ClientClosedRequest);
        IsUnanswered = true;
        IsBroken |= !Life.IsGivenUp;
    }

    // The response has been completed, and may have arrived: it stays what it is, and what is sent behind it is the next one.
    private void FailBehindEnd(Exception error)
    {
        Rejection = error as BadHttpRequestException;
        if (!LetsGo(error))
        {
            Services.Log.HandlerFailed(TraceIdentifier, error);
        }
    }

    // Code of the application where the exception is its own, and the response has yet to end.
    private static string MessageOf(BadHttpRequestException bad)
    {
        try
        {
            return bad.Message;
        }
        catch (Exception error)
        {
            return $"(its message: {error.GetType().FullName})";
        }
    }

    /// <summary>The path holds an escaped NUL, which is no path to anybody: answered without the handler.</summary>
    public void RefusePath()
    {
        Services.OffLoop.Refused(Observe.Refusal.EscapedNul);
        Answer.ReplaceByStatus(StatusCodes.Status400BadRequest);
        End();
    }

    // Goes into the front server's error log: one line, no controls, nothing a peer could forge a line with.
    private string Line(Exception error) =>
        FieldText.Shown($"millrace: request {TraceIdentifier}: unhandled {error.GetType().FullName}", ErrorLineMax);

    /// <summary>The response will not be whole, and its peer must see that.</summary>
    public void MarkBroken() => IsBroken = true;

    // True when nobody waits any more for bytes to leave.
    private bool ResetEnd()
    {
        bool reusable = !Order.Flush.IsPending && !Order.HasUnfinished;
        if (Order.Flush.IsPending)
        {
            Sender.EndWaitSoon();      // whoever still waits finds the gate closed
        }

        Answer.Reset();
        Sender.Reset();
        File.Reset();
        _failure = null;
        IsBroken = IsUnanswered = false;
        Rejection = null;
        EndFailure = null;
        AppStatus = 0;
        ErrorLine = null;
        return reusable;
    }
}
