// What an application writes, part by part, and in which order: a write goes to the output and where there is enough of it to the socket; one
// that comes while another is still on its way follows it. Who waits, and whose turn it is, is in WriteOrder.cs.

using System.Runtime.CompilerServices;
using Microsoft.Win32.SafeHandles;

namespace Millrace.Exchanges;

internal sealed class AnswerWrites(Exchange exchange)
{
    private bool IsBusy => exchange.Order.IsBusy;

    /// <summary>
    /// Writes, and sends where there is enough of it. Within the gate. The span of an application's memory is taken before: what
    /// gives it may be code of the application, and nobody else's request waits for that.
    /// </summary>
    /// <param name="span">What to write.</param>
    /// <param name="taken">Bytes that have been written, or copied. Where these are not all, <see cref="WriteRest"/> must be called when the gate has been left.</param>
    public ValueTask Write(ReadOnlySpan<byte> span, out int taken)
    {
        exchange.Answer.CheckNotEnded();
        exchange.Answer.NoteWrite(span.Length);
        exchange.Answer.DropReserved();
        if (IsBusy)
        {
            return WriteBehind(span, out taken);
        }

        exchange.Answer.Start(coming: span.Length);
        if (span.Length <= OutputBuffer.SendAt - exchange.Output.Length)
        {
            exchange.Answer.AppendNow(span);
            taken = span.Length;
            return default;
        }

        exchange.Answer.CheckCount(span.Length);    // nothing of it is written where it is more than was announced
        ValueTask sent = WriteParts(span, out taken);
        if (taken < span.Length)
        {
            exchange.Order.BeginParts();
        }

        return sent;
    }

    // Until all has been written, or what has been must wait for the socket.
    private ValueTask WriteParts(ReadOnlySpan<byte> span, out int taken)
    {
        for (taken = 0; !exchange.Life.IsUnwanted;)
        {
            int count = Math.Min(Math.Max(1024, OutputBuffer.SendAt - exchange.Output.Length), span.Length - taken);
            exchange.Answer.AppendNow(span.Slice(taken, count));
            taken += count;
            if (taken == span.Length)
            {
                return default;
            }

            exchange.Answer.CloseChunk();
            ValueTask sent = exchange.Sender.SendAsync();
            if (!sent.IsCompletedSuccessfully)
            {
                return sent;
            }
        }

        exchange.Answer.Count(span.Length - taken);
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
            isLeft = !exchange.TryReport(error, ticket);
            throw;
        }
        finally
        {
            if (!isLeft)
            {
                exchange.Order.EndParts();
                LetFollow();
            }
        }
    }

    private ValueTask WriteOn(ref ReadOnlyMemory<byte> rest, long ticket)
    {
        ReadOnlySpan<byte> span = rest.Span;
        exchange.Gate.EnterAgain(ticket);
        try
        {
            ValueTask sent = WriteParts(span, out int taken);
            rest = rest[taken..];
            return sent;
        }
        finally
        {
            exchange.Gate.Exit(ticket);
        }
    }

    /// <summary>Sends what has been written so far, now or (in the handler's synchronous part) a little later. Within the gate.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public ValueTask FlushAsync()
    {
        exchange.Answer.DropReserved();
        return FlushBehind();
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private ValueTask FlushBehind() => IsBusy ? new ValueTask(Follow([])) : exchange.Sender.FlushNow();

    /// <summary>
    /// What waits for the peer, as long as whoever began it wants it. Once it is given up nobody knows how much of the response has
    /// left: the connection is broken off, as by <see cref="Exchange.AbortByApplication"/>.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public ValueTask While(ValueTask written, long ticket, CancellationToken cancellationToken) =>
        written.IsCompletedSuccessfully || !cancellationToken.CanBeCanceled ? written : WaitWhile(written, ticket, cancellationToken);

    private async ValueTask WaitWhile(ValueTask written, long ticket, CancellationToken cancellationToken)
    {
        var patience = new Patience(exchange, ticket, cancellationToken);
        using (cancellationToken.UnsafeRegister(static patience => ((Patience)patience!).End(), patience))
        {
            await written.ConfigureAwait(false);
        }

        if (patience.HasEnded)
        {
            throw new OperationCanceledException(cancellationToken);
        }
    }

    private sealed class Patience(Exchange exchange, long ticket, CancellationToken token)
    {
        public bool HasEnded { get; private set; }

        public void End()
        {
            if (!exchange.IsExcused(ticket, token))
            {
                HasEnded = true;
                exchange.AbortByApplication(ticket);
            }
        }
    }

    // ---- behind others ----

    /// <summary>Ends when all that has been begun has left, or failed, and at once where the response is complete.</summary>
    /// <exception cref="ObjectDisposedException">The request is over.</exception>
    public Task WhenIdle(long ticket)
    {
        if (!exchange.Gate.TryEnterAgain(ticket))
        {
            _ = exchange.Gate.IsComplete(ticket);
            return Task.CompletedTask;
        }

        try
        {
            return IsBusy ? Follow([], isOwed: true) : Task.CompletedTask;
        }
        finally
        {
            exchange.Gate.Exit(ticket);
        }
    }

    /// <summary>A file, or a part of it, and all of that is on its way when this ends, as behind a write. See <see cref="AnswerFile.SendAsync"/>.</summary>
    public ValueTask SendFile(SafeFileHandle file, long offset, long count, FileExtent extent, long ticket, CancellationToken cancellationToken)
    {
        ValueTask sent = exchange.File.SendAsync(file, offset, count, extent, ticket, cancellationToken);
        if (!sent.IsCompletedSuccessfully)
        {
            return FlushAfter(sent, ticket);
        }

        if (!exchange.Gate.EnterUnlessComplete(ticket))
        {
            return default;
        }

        try
        {
            return exchange.Answer.HasStarted ? FlushBehind() : default;     // nothing of a file begins no response
        }
        finally
        {
            exchange.Gate.Exit(ticket);
        }
    }

    /// <summary>Ends when a write that had to wait, and what is flushed with it, has left.</summary>
    public async ValueTask FlushAfter(ValueTask written, long ticket)
    {
        await written.ConfigureAwait(false);
        if (!exchange.Gate.TryEnterAgain(ticket))
        {
            _ = exchange.Gate.IsComplete(ticket);       // then all of it goes with the end; where the request is over this throws
            return;
        }

        ValueTask flushed;
        try
        {
            flushed = IsBusy ? new ValueTask(Follow([], isOwed: true)) : exchange.Sender.FlushNow();
        }
        finally
        {
            exchange.Gate.Exit(ticket);
        }

        await flushed.ConfigureAwait(false);
    }

    private ValueTask WriteBehind(ReadOnlySpan<byte> bytes, out int taken)
    {
        taken = bytes.Length;
        return new ValueTask(Follow(bytes.ToArray()));
    }

    public void AppendBehind(ReadOnlySpan<byte> bytes)
    {
        if (bytes.Length > 0)
        {
            _ = Follow(bytes.ToArray(), isUnseen: true);
        }
    }

    /// <summary>Within the gate.</summary>
    /// <param name="bytes">What to write; none: a flush. Null: whoever waits takes the turn himself.</param>
    /// <param name="isUnseen">Nobody waits for it.</param>
    /// <param name="isOwed">One at most for each write that is let in.</param>
    public Task Follow(byte[]? bytes, bool isUnseen = false, bool isOwed = false)
    {
        var follower = new Follower(bytes, isUnseen);
        if (!exchange.Order.TryAdd(follower, isOwed))
        {
            return BreakOffBehind();
        }

        LetFollow();    // what was on its way may have left meanwhile
        return follower.Task;
    }

    // Within the gate. The response has a gap from here on, and nothing of it is of use to anybody.
    private Task BreakOffBehind()
    {
        var error = new InvalidOperationException(
            $"{WriteOrder.BehindMax / (1024 * 1024)} MiB of the response wait for a peer that takes them too slowly, and the connection is broken off: await each write before the next.");
        if (!exchange.Life.IsUnwanted)
        {
            exchange.Report(error);
            exchange.AbortByApplication(exchange.Ticket);
        }

        return Task.FromException(error);
    }

    /// <summary>Something that others may have waited for has ended. On any thread, perhaps of a request that is over.</summary>
    public void LetFollow()
    {
        // Where there are none: who comes just now looks by himself what is on its way.
        if (exchange.Order.HasFollowers && exchange.Order.TryGoOn(in exchange.Gate, out long ticket))
        {
            exchange.Services.RunUserCode(static state => ((Turn)state!).Go(), new Turn(this, ticket));
        }
    }

    private sealed class Turn(AnswerWrites writes, long ticket)
    {
        public void Go() => _ = writes.WriteFollowers(ticket);
    }

    // Ends when there are none left, when one takes the turn himself, or with the response.
    private async Task WriteFollowers(long ticket)
    {
        while (exchange.Gate.TryEnterAgain(ticket))
        {
            if (!exchange.Order.TryNext(out Follower? next))
            {
                next?.End(exchange.Services, null);
                exchange.Gate.Exit(ticket);
                return;
            }

            try
            {
                await WriteFollower(next.Bytes!, ticket).ConfigureAwait(false);
                next.End(exchange.Services, null);
            }
            catch (Exception error)
            {
                next.End(exchange.Services, error);
                if (next.IsUnseen)
                {
                    _ = exchange.TryReport(error, ticket);
                }
            }
        }
    }

    // Within the gate, which it leaves. In one piece: nothing of it may be left when the response ends.
    private ValueTask WriteFollower(byte[] bytes, long ticket)
    {
        try
        {
            exchange.Answer.CheckNotEnded();
            exchange.Answer.Start(coming: bytes.Length);
            exchange.Answer.AppendNow(bytes);
            return bytes.Length == 0 || exchange.Output.Length >= OutputBuffer.SendAt ? exchange.Sender.FlushNow() : default;
        }
        finally
        {
            exchange.Gate.Exit(ticket);
        }
    }

    /// <summary>
    /// The response ends. Behind nothing but a flush there is room for what was copied; the rest of a write or a file is the
    /// application's, who may be using the memory again.
    /// </summary>
    public void EndFollowers(Exception? error)
    {
        Queue<Follower> followers = exchange.Order.TakeAll();
        bool isCut = error is not null || exchange.Order.HasUnfinished || exchange.Answer.HasFileFailed;
        error ??= exchange.Answer.HasFileFailed ? Answer.FileFailed() : isCut ? new ObjectDisposedException("HTTP request", "The request has ended before this write had its turn: await each write.") : null;
        foreach (Follower next in followers)
        {
            error ??= AppendLast(next.Bytes);
            next.End(exchange.Services, error);
        }

        if (error is not null && !isCut)
        {
            exchange.FailInside(error);
        }
    }

    private Exception? AppendLast(byte[]? bytes)
    {
        if (bytes is null)
        {
            return new ObjectDisposedException("HTTP request", "The request has ended before this file had its turn: await each write.");
        }

        try
        {
            // The loop may be sending what was flushed: all that it finds must be whole.
            using (exchange.Sending.Hold())
            {
                exchange.Answer.AppendLast(bytes);
                exchange.Answer.CloseChunk();
            }

            return null;
        }
        catch (Exception error)
        {
            return error;
        }
    }
}
