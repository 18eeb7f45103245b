// How the bytes of a response get from the exchange's output buffer to the socket.
//
// In the handler's synchronous part a flush is only noted: if the handler ends with it, everything leaves in one send
// together with the end of the response; if it goes asynchronous or blocks, its driver or the driver that takes over the
// loop sends what was noted. After that, writes go to the socket directly from whatever thread the handler is on.

using System.Runtime.CompilerServices;
using Microsoft.AspNetCore.Http;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal sealed partial class Exchange
{
    private readonly SendLock _sending = new();
    private int _deferredEnd;        // output up to here was flushed but not sent yet; 0 when nothing was

    /// <summary>Protects what the handler's thread and the loop both send.</summary>
    public SendLock Sending => _sending;

    /// <summary>Sends an interim response (RFC 9110 §15.2) ahead of the head, now or when the handler's synchronous part is over.</summary>
    /// <returns>False when the head has been written, or the response is over: then that is sent, since the peer holds its body back until it sees something.</returns>
    public bool SendInterim(ReadOnlySpan<byte> response)
    {
        long ticket = Ticket;
        if (!Gate.TryEnterAgain(ticket))     // a reader may be at work while another thread writes
        {
            return false;
        }

        try
        {
            if (HasStarted)
            {
                SendBegun();
                return false;
            }

            using (_sending.Hold())
            {
                Output.Append(response);
                SendSoon(Output.End);
            }

            return true;
        }
        finally
        {
            Gate.Exit(ticket);
        }
    }

    private void SendBegun()
    {
        using (_sending.Hold())
        {
            if (Output.ChunkStart >= 0 && _reserved == 0)
            {
                Connection.Framing.CloseChunk(Output);
            }

            // Somebody may be writing into the memory of a chunk that is still open: what lies before it is enough.
            SendSoon(Output.ChunkStart >= 0 ? Output.ChunkStart : Output.End);
        }
    }

    // Under the lock. Nobody waits for these bytes: what the socket does not take, the loop sends on.
    private void SendSoon(int end)
    {
        Volatile.Write(ref _deferredEnd, end);
        Interlocked.MemoryBarrier();
        if (!IsInline)
        {
            SendDeferred();
        }
    }

    /// <summary>Switches protocols (RFC 9110 §7.8): writes the 101; from here on the connection carries raw bytes both ways.</summary>
    /// <returns>What reads them.</returns>
    /// <exception cref="InvalidOperationException">As many connections as may have switched already.</exception>
    public BodyReader Upgrade()
    {
        if (IsUpgraded || HasStarted)
        {
            throw new InvalidOperationException("The protocol cannot be switched: it has been, or the response has started, meanwhile.");
        }

        Services.AddUpgraded();
        StatusCode = StatusCodes.Status101SwitchingProtocols;
        IsUpgraded = true;
        Start();
        BodyReader reader = Body.BeginTunnel();
        Connection.OnUpgraded(this);
        return reader;
    }

    /// <summary>Sends what has been written so far, now or (in the handler's synchronous part) a little later. Within the gate.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public ValueTask FlushAsync() => IsBusy ? new ValueTask(Follow([])) : FlushNow();

    private ValueTask FlushNow()
    {
        Start();
        _reserved = 0;
        if (Output.ChunkStart >= 0)
        {
            Connection.Framing.CloseChunk(Output);
        }

        if (Life.IsAborted)
        {
            if (IsOwed)
            {
                SendEnd();
            }

            return default;
        }

        if (IsInline && Output.Length < OutputBuffer.SendAt)
        {
            Volatile.Write(ref _deferredEnd, Output.End);
            Interlocked.MemoryBarrier();
            if (IsInline)
            {
                return default;
            }
        }

        return SendAsync();
    }

    // The end has been written while a flush of another thread waits.
    private ValueTask FlushWithAnother()
    {
        using (_sending.Hold())
        {
            FlushState flush = _order.Flush.State;
            if (flush == FlushState.Leaving)
            {
                return new ValueTask(_order.Flush.Task);       // all there is leaves before it goes on
            }

            if (flush == FlushState.Resuming)
            {
                if (Connection.SendOutput(this, Output) == SendResult.Again)
                {
                    Volatile.Write(ref _deferredEnd, Output.End);   // the loop goes on, with nobody to tell
                    Connection.WantWritable(this);
                }

                return default;
            }
        }

        return FlushNow();
    }

    /// <summary>Sends all of the output; waits when the socket takes no more.</summary>
    private ValueTask SendAsync()
    {
        using (_sending.Hold())
        {
            _deferredEnd = 0;       // all of it leaves now, or when the socket takes bytes again
            if (Connection.SendOutput(this, Output) == SendResult.Again)
            {
                return WaitWritable();
            }

            ReleaseOutput();
            return default;
        }
    }

    /// <summary>The end of the response has left, and something still happens after it. Under the send lock.</summary>
    public bool IsEndSent { get; private set; }

    private bool _sendsEnd;          // what is flushed ends with the end of the response

    /// <summary>Sends the end of the response, because something is to happen after it that may take its time. What the socket does not take the loop sends on meanwhile.</summary>
    public void SendEnd()
    {
        Life.StopCancelling();
        using (_sending.Hold())
        {
            _sendsEnd = true;
            if (_order.Flush.State == FlushState.Leaving)
            {
                return;     // the loop is sending all there is
            }

            if (Connection.SendOutput(this, Output) != SendResult.Again)
            {
                _deferredEnd = 0;
                NoteSent();
                ReleaseOutput();
                return;
            }

            // On the driver's thread it is done when the driver comes back, or by the one that takes over.
            Volatile.Write(ref _deferredEnd, Output.End);
            Interlocked.MemoryBarrier();
            if (!IsInline)
            {
                Connection.WantWritable(this);
            }
        }
    }

    /// <summary>The same where that is seldom long, in the handler's synchronous part: the end leaves with what ends in the same turn, or as soon as the driver does not come back in time.</summary>
    public void DeferEnd()
    {
        _sendsEnd = true;
        Volatile.Write(ref _deferredEnd, Output.End);
        Interlocked.MemoryBarrier();
        if (!IsInline)
        {
            SendEnd();      // it was taken over just now
        }
    }

    // Who has given a request up by a record waits for its end.
    private bool IsOwed => !Life.IsAborted || (HasEnded && Life.IsGivenUp);

    // Under the lock. What was flushed has been sent.
    private void NoteSent()
    {
        if (_sendsEnd && !IsEndSent && Output.IsEmpty)
        {
            IsEndSent = true;
            Life.StopCancelling();
        }
    }

    // Under the lock. The loop calls ContinueSending when the socket takes bytes again, perhaps at once.
    private ValueTask WaitWritable()
    {
        Task flushed = _order.Flush.Begin();
        Connection.WantWritable(this);
        return new ValueTask(flushed);
    }

    /// <summary>Driver or loop: sends what an inline handler flushed and nobody has sent yet.</summary>
    public void SendDeferred()
    {
        if (!_sending.TryHold(out SteadyLock.Holder held))
        {
            return;
        }

        using (held)
        {
            if (Output is null)
            {
                return;     // the response has ended and left
            }

            int end = Volatile.Read(ref _deferredEnd);
            if (end > Output.Start && IsOwed && _order.Flush.State != FlushState.Leaving)
            {
                Connection.SendUpTo(this, Output, end);
                if (Output.Start < end && IsOwed)
                {
                    // Flushed, and nobody waits for it: the loop goes on as the socket empties, the handler may say nothing for long.
                    Connection.WantWritable(this);
                    return;
                }
            }

            _deferredEnd = 0;
            if (_order.Flush.State != FlushState.Leaving)
            {
                NoteSent();
                Connection.SendBesides(this);
                ReleaseOutputUnlessWritten();
            }
        }
    }

    /// <summary>Loop: the socket takes bytes again. True when the handler that waited can go on: call <see cref="ResumeFlush"/> then.</summary>
    public bool ContinueSending()
    {
        if (!_sending.TryHold(out SteadyLock.Holder held))
        {
            return false;
        }

        using (held)
        {
            if (Output is null)
            {
                return false;       // the response has ended and left: its rest is the connection's
            }

            if (Connection.ContinueBreakingOff(this))
            {
                return _order.Flush.TryEnd();     // what was flushed is of no use to anybody
            }

            if (_order.Flush.State != FlushState.Leaving)
            {
                SendDeferred();     // whoever waited may be writing on: no more than was meant to leave
                return false;
            }

            if (Connection.SendOutput(this, Output) != SendResult.Again)
            {
                NoteSent();
                ReleaseOutput();    // what is written while a flush waits is a follower
                return _order.Flush.TryEnd();
            }

            Connection.WantWritable(this);
            return false;
        }
    }

    // Under the lock.
    private void EndWaitSoon()
    {
        if (_order.Flush.TryEnd())
        {
            Services.RunUserCode(static exchange => ((Exchange)exchange!).ResumeFlush(), this);
        }
    }

    /// <summary>Runs the code that waited for its bytes to leave.</summary>
    public void ResumeFlush()
    {
        if (_order.Flush.TryFinish(out TaskCompletionSource? flushed))
        {
            LetFollow();
            flushed.SetResult();
        }
    }

    public bool IsFlushPending => _order.Flush.IsPending;

    /// <summary>
    /// Writes, and sends where there is enough of it. Within the gate. The span of an application's memory is taken before: what
    /// gives it may be code of the application, and nobody else's request waits for that.
    /// </summary>
    /// <param name="span">What to write.</param>
    /// <param name="taken">Bytes that have been written, or copied. Where these are not all, <see cref="WriteRest"/> must be called when the gate has been left.</param>
    public ValueTask Write(ReadOnlySpan<byte> span, out int taken)
    {
        CheckNotEnded();
        if (IsBusy)
        {
            return WriteBehind(span, out taken);
        }

        Start(coming: span.Length);
        if (span.Length <= OutputBuffer.SendAt - Output.Length)
        {
            AppendNow(span);
            taken = span.Length;
            return default;
        }

        ValueTask sent = WriteParts(span, out taken);
        if (taken < span.Length)
        {
            _order.BeginParts();
        }

        return sent;
    }

    // Until all has been written, or what has been must wait for the socket.
    private ValueTask WriteParts(ReadOnlySpan<byte> span, out int taken)
    {
        for (taken = 0; !Life.IsAborted;)
        {
            int count = Math.Min(Math.Max(1024, OutputBuffer.SendAt - Output.Length), span.Length - taken);
            AppendNow(span.Slice(taken, count));
            taken += count;
            if (taken == span.Length)
            {
                return default;
            }

            if (Output.ChunkStart >= 0)
            {
                Connection.Framing.CloseChunk(Output);
            }

            ValueTask sent = SendAsync();
            if (!sent.IsCompletedSuccessfully)
            {
                return sent;
            }
        }

        Count(span.Length - taken);
        taken = span.Length;
        return default;
    }

    /// <summary>Goes on with a write that had to wait, part by part. Outside the gate, which it enters for each of them.</summary>
    public async ValueTask WriteRest(ValueTask sent, ReadOnlyMemory<byte> rest, long ticket)
    {
        bool isLeft = false;
        try
        {
            while (rest.Length > 0)
            {
                await sent.ConfigureAwait(false);
                sent = WriteOn(ref rest, ticket);
            }
        }
        catch (Exception error)
        {
            // A part must not pass for all of it: neither should the application go on, nor where its handler is just ending.
            isLeft = !TryReport(error, ticket);
            throw;
        }
        finally
        {
            if (!isLeft)
            {
                _order.EndParts();
                LetFollow();
            }
        }
    }

    private ValueTask WriteOn(ref ReadOnlyMemory<byte> rest, long ticket)
    {
        ReadOnlySpan<byte> span = rest.Span;
        Gate.EnterAgain(ticket);
        try
        {
            ValueTask sent = WriteParts(span, out int taken);
            rest = rest[taken..];
            return sent;
        }
        finally
        {
            Gate.Exit(ticket);
        }
    }
}
