// How the bytes of an answer get from the exchange's output buffer to the socket.
//
// In the handler's synchronous part a flush is only noted: if the handler ends with it, everything leaves in one send
// together with the end of the response; if it goes asynchronous or blocks, its driver or the driver that takes over the
// loop sends what was noted. After that, writes go to the socket directly from whatever thread the handler is on.

using System.Diagnostics;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal sealed class AnswerSender(Exchange exchange, SendLock sending)
{
    private int _deferredEnd;       // output up to here was flushed but not sent yet; 0 when nothing was
    private volatile EndSending _end;       // from Begun on under the lock; begun behind the last byte, and seen so
    private bool _isHandlerOver;    // nothing of what still happens can be told any more that its peer has gone

    /// <summary>The end of the response has left, and something still happens after it. Under the send lock.</summary>
    public bool IsEndSent => _end == EndSending.Sent;

    /// <summary>What the output holds now, answers to earlier requests, is sent should this one take its time.</summary>
    public void DeferOutput() => _deferredEnd = exchange.Output.End;

    /// <summary>Sends an interim response (RFC 9110 §15.2) ahead of the head, now or when the handler's synchronous part is over.</summary>
    /// <returns>False when the head has been written, or the response is over: then that is sent, since the peer holds its body back until it sees something.</returns>
    public bool SendInterim(ReadOnlySpan<byte> response)
    {
        long ticket = exchange.Ticket;
        if (!exchange.Gate.TryEnterSoon(ticket))     // a reader may be at work while another thread writes, or be a logger that is told of the failure of this very response
        {
            return false;
        }

        try
        {
            if (exchange.Answer.HasStarted)
            {
                SendBegun();
                return false;
            }

            using (sending.Hold())
            {
                exchange.Output.Append(response);
                SendSoon(exchange.Output.End);
            }

            return true;
        }
        finally
        {
            exchange.Gate.Exit(ticket);
        }
    }

    private void SendBegun()
    {
        using (sending.Hold())
        {
            if (!exchange.Answer.IsReservedInPlace)
            {
                exchange.Answer.CloseChunk();
            }

            // Somebody may be writing into the memory of a chunk that is still open: what lies before it is enough.
            SendSoon(exchange.Output.ChunkStart >= 0 ? exchange.Output.ChunkStart : exchange.Output.End);
        }
    }

    // Under the lock. Nobody waits for these bytes: what the socket does not take, the loop sends on.
    private void SendSoon(int end)
    {
        Volatile.Write(ref _deferredEnd, end);
        Interlocked.MemoryBarrier();
        if (!exchange.IsInline)
        {
            SendDeferred();
        }
    }

    /// <summary>Sends what has been written so far, now or (in the handler's synchronous part) a little later. Within the gate, and nothing else is on its way.</summary>
    public ValueTask FlushNow()
    {
        exchange.Answer.Start();
        exchange.Answer.DropReservedInPlace();
        exchange.Answer.CloseChunk();
        if (exchange.Life.IsUnwanted)
        {
            // The handler may be at work yet: behind CompleteAsync it is, and its request counts as answered.
            if (IsOwed)
            {
                SendEnd();
            }

            return default;
        }

        if (exchange.IsInline && exchange.Output.Length < OutputBuffer.SendAt)
        {
            Volatile.Write(ref _deferredEnd, exchange.Output.End);
            Interlocked.MemoryBarrier();
            if (exchange.IsInline)
            {
                return default;
            }
        }

        return SendAsync();
    }

    /// <summary>The same when the end has been written while a flush of another thread waits.</summary>
    public ValueTask FlushWithAnother()
    {
        using (sending.Hold())
        {
            FlushState flush = exchange.Order.Flush.State;
            if (flush == FlushState.Blocked)
            {
                return new ValueTask(exchange.Order.Flush.Task);       // all there is leaves before it goes on
            }

            if (flush == FlushState.Resuming)
            {
                if (SendOutput() == SendResult.Again)
                {
                    Volatile.Write(ref _deferredEnd, exchange.Output.End);   // the loop goes on, with nobody to tell
                    exchange.Connection.WantWritable(exchange);
                }
                else
                {
                    NoteSent();
                }

                return default;
            }
        }

        return FlushNow();
    }

    /// <summary>Sends all of the output; waits when the socket takes no more.</summary>
    public ValueTask SendAsync()
    {
        using (sending.Hold())
        {
            _deferredEnd = 0;       // all of it leaves now, or when the socket takes bytes again
            if (SendOutput() == SendResult.Again)
            {
                return WaitWritable();
            }

            NoteSent();
            exchange.ReleaseOutput();
            return default;
        }
    }

    /// <summary>Sends the end of the response, because something is to happen after it that may take its time. What the socket does not take the loop sends on meanwhile.</summary>
    public void SendEnd()
    {
        exchange.Life.StopCancelling();
        using (sending.Hold())
        {
            BeginEnd();
            if (exchange.Order.Flush.State == FlushState.Blocked)
            {
                return;     // the loop is sending all there is
            }

            if (exchange.Connection.SendOutput(exchange, exchange.Output) != SendResult.Again)
            {
                _deferredEnd = 0;
                NoteSent();
                exchange.ReleaseOutput();
                return;
            }

            // On the driver's thread it is done when the driver comes back, or by the one that takes over.
            Volatile.Write(ref _deferredEnd, exchange.Output.End);
            Interlocked.MemoryBarrier();
            if (!exchange.IsInline)
            {
                exchange.Connection.WantWritable(exchange);
            }
        }
    }

    /// <summary>The same where that is seldom long, in the handler's synchronous part: the end leaves with what ends in the same turn, or as soon as the driver does not come back in time.</summary>
    public void DeferEnd()
    {
        BeginEnd();
        _isHandlerOver = true;
        Volatile.Write(ref _deferredEnd, exchange.Output.End);
        Interlocked.MemoryBarrier();
        if (IsEndSent || !exchange.IsInline)
        {
            SendEnd();      // it was completed before, or taken over just now
        }
    }

    /// <summary>The last byte of the response has been written: whatever is sent from here on may end with it. One that is not whole ends otherwise.</summary>
    public void BeginEnd()
    {
        Debug.Assert(exchange.Answer.IsWritten);
        if (_end == EndSending.NotBegun && !exchange.IsBroken)
        {
            _end = EndSending.Begun;
        }
    }

    // Who has given a request up by a record waits for its end.
    private bool IsOwed => !exchange.Life.IsUnwanted || (exchange.Answer.IsWritten && exchange.Life.IsGivenUp);

    // Under the lock. What was flushed has been sent.
    private void NoteSent()
    {
        if (_end == EndSending.Begun && exchange.Output.IsEmpty)
        {
            _end = EndSending.Sent;
            Interlocked.MemoryBarrier();
            if (_isHandlerOver)
            {
                exchange.Life.StopCancelling();
            }

            exchange.Connection.OnEndSent(exchange);
        }
    }

    private SendResult SendOutput()
    {
        exchange.Answer.NoteWhole();
        SendResult result = exchange.Connection.SendOutput(exchange, exchange.Output);
        if (result == SendResult.Again)
        {
            exchange.Answer.NoteStuck();
        }

        return result;
    }

    /// <summary>Under the lock. The loop calls <see cref="ContinueSending"/> when the socket takes bytes again, perhaps at once.</summary>
    public ValueTask WaitWritable()
    {
        Task flushed = exchange.Order.Flush.Begin();
        exchange.Connection.WantWritable(exchange);
        return new ValueTask(flushed);
    }

    /// <summary>Driver or loop: sends what an inline handler flushed and nobody has sent yet.</summary>
    public void SendDeferred()
    {
        if (!sending.TryHold(out SteadyLock.Holder held))
        {
            return;
        }

        using (held)
        {
            if (exchange.OutputIfAny is null)
            {
                return;     // the response has ended and left
            }

            int end = Volatile.Read(ref _deferredEnd);
            if (end > exchange.Output.Start && IsOwed && exchange.Order.Flush.State != FlushState.Blocked)
            {
                if (end == exchange.Output.End)
                {
                    exchange.Answer.NoteWhole();
                }

                exchange.Connection.SendUpTo(exchange, exchange.Output, end);
                if (exchange.Output.Start < end && IsOwed)
                {
                    exchange.Answer.NoteStuck();
                    // Flushed, and nobody waits for it: the loop goes on as the socket empties, the handler may say nothing for long.
                    exchange.Connection.WantWritable(exchange);
                    return;
                }
            }

            _deferredEnd = 0;
            if (exchange.Order.Flush.State != FlushState.Blocked)
            {
                NoteSent();
                exchange.Connection.SendBesides(exchange);
                exchange.ReleaseOutputUnlessWritten();
            }
        }
    }

    /// <summary>Loop: the socket takes bytes again. True when the handler that waited can go on: call <see cref="ResumeFlush"/> then.</summary>
    public bool ContinueSending()
    {
        if (!sending.TryHold(out SteadyLock.Holder held))
        {
            return false;
        }

        using (held)
        {
            if (exchange.OutputIfAny is null)
            {
                return false;       // the response has ended and left: its rest is the connection's
            }

            if (exchange.Connection.ContinueBreakingOff(exchange))
            {
                return exchange.Order.Flush.TryEnd();     // what was flushed is of no use to anybody
            }

            if (exchange.Order.Flush.State != FlushState.Blocked)
            {
                SendDeferred();     // whoever waited may be writing on: no more than was meant to leave
                return false;
            }

            if (SendOutput() != SendResult.Again)
            {
                NoteSent();
                exchange.ReleaseOutput();    // what is written while a flush waits is a follower
                return exchange.Order.Flush.TryEnd();
            }

            exchange.Connection.WantWritable(exchange);
            return false;
        }
    }

    /// <summary>Under the lock. Whoever waits for bytes to leave goes on, elsewhere.</summary>
    public void EndWaitSoon()
    {
        if (exchange.Order.Flush.TryEnd())
        {
            ResumeFlushSoon();
        }
    }

    /// <summary>For whoever has been told to call <see cref="ResumeFlush"/> and runs no code of the application's.</summary>
    public void ResumeFlushSoon() => exchange.Services.RunUserCode(static sender => ((AnswerSender)sender!).ResumeFlush(), this);

    /// <summary>Runs the code that waited for its bytes to leave.</summary>
    public void ResumeFlush()
    {
        if (exchange.Order.Flush.TryFinish(out TaskCompletionSource? flushed))
        {
            exchange.Writes.LetFollow();
            flushed.SetResult();
        }
    }

    public bool IsFlushPending => exchange.Order.Flush.IsPending;

    /// <summary>All of it leaves now, or when the socket takes bytes again. Under the lock.</summary>
    public void DropDeferred() => _deferredEnd = 0;

    /// <summary>So many bytes at the beginning of the output, which have been sent, are there no more. Under the lock.</summary>
    public void MoveDeferred(int sent) => _deferredEnd = Math.Max(0, _deferredEnd - sent);

    public void Reset()
    {
        _deferredEnd = 0;
        _end = EndSending.NotBegun;
        _isHandlerOver = false;
    }
}
