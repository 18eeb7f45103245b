// How writes are written that come while another is still on its way. Who waits, and whose turn it is, is in WriteOrder.cs.

namespace Millrace.Exchanges;

internal sealed partial class Exchange
{
    private WriteOrder _order = new();

    // What is written now must follow what is on its way. Within the gate.
    private bool IsBusy => _order.IsBusy;

    /// <summary>Ends when all that has been begun has left, or failed, and at once where the response is complete.</summary>
    /// <exception cref="ObjectDisposedException">The request is over.</exception>
    public Task WhenIdle(long ticket)
    {
        if (!Gate.TryEnterAgain(ticket))
        {
            _ = Gate.IsComplete(ticket);
            return Task.CompletedTask;
        }

        try
        {
            return IsBusy ? Follow([], isOwed: true) : Task.CompletedTask;
        }
        finally
        {
            Gate.Exit(ticket);
        }
    }

    /// <summary>Ends when a write that had to wait, and what is flushed with it, has left.</summary>
    public async ValueTask FlushAfter(ValueTask written, long ticket)
    {
        await written.ConfigureAwait(false);
        if (Gate.IsComplete(ticket))
        {
            return;
        }

        ValueTask flushed;
        Gate.EnterAgain(ticket);
        try
        {
            flushed = IsBusy ? new ValueTask(Follow([], isOwed: true)) : FlushNow();
        }
        finally
        {
            Gate.Exit(ticket);
        }

        await flushed.ConfigureAwait(false);
    }

    private ValueTask WriteBehind(ReadOnlySpan<byte> bytes, out int taken)
    {
        taken = bytes.Length;
        return new ValueTask(Follow(bytes.ToArray()));
    }

    private void AppendBehind(ReadOnlySpan<byte> bytes)
    {
        if (bytes.Length > 0)
        {
            _ = Follow(bytes.ToArray(), isUnseen: true);
        }
    }

    // Within the gate. Owed: one at most for each write that is let in.
    private Task Follow(byte[]? bytes, bool isUnseen = false, bool isOwed = false)
    {
        var follower = new Follower(bytes, isUnseen);
        if (!_order.TryAdd(follower, isOwed))
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
        if (!Life.IsAborted)
        {
            Report(error);
            AbortByApplication(Ticket);
        }

        return Task.FromException(error);
    }

    // Something that others may have waited for has ended. On any thread, perhaps of a request that is over.
    private void LetFollow()
    {
        // Where there are none: who comes just now looks by himself what is on its way.
        if (_order.HasFollowers && _order.TryGoOn(in Gate, out long ticket))
        {
            Services.RunUserCode(static state => ((Turn)state!).Go(), new Turn(this, ticket));
        }
    }

    private sealed class Turn(Exchange exchange, long ticket)
    {
        public void Go() => _ = exchange.WriteFollowers(ticket);
    }

    // Ends when there are none left, when one takes the turn himself, or with the response.
    private async Task WriteFollowers(long ticket)
    {
        while (Gate.TryEnterAgain(ticket))
        {
            if (!_order.TryNext(out Follower? next))
            {
                next?.End(Services, null);
                Gate.Exit(ticket);
                return;
            }

            try
            {
                await WriteFollower(next.Bytes!, ticket).ConfigureAwait(false);
                next.End(Services, null);
            }
            catch (Exception error)
            {
                next.End(Services, error);
                if (next.IsUnseen)
                {
                    _ = TryReport(error, ticket);
                }
            }
        }
    }

    // Within the gate, which it leaves. In one piece: nothing of it may be left when the response ends.
    private ValueTask WriteFollower(byte[] bytes, long ticket)
    {
        try
        {
            CheckNotEnded();
            Start(coming: bytes.Length);
            AppendNow(bytes);
            return bytes.Length == 0 || Output.Length >= OutputBuffer.SendAt ? FlushNow() : default;
        }
        finally
        {
            Gate.Exit(ticket);
        }
    }

    // The response ends. Behind nothing but a flush there is room for what was copied; the rest of a write or a file is the
    // application's, who may be using the memory again.
    private void EndFollowers(Exception? error)
    {
        Queue<Follower> followers = _order.TakeAll();
        bool isCut = error is not null || _order.HasUnfinished || _fileFailed;
        error ??= _fileFailed ? FileFailed() : isCut ? new ObjectDisposedException("HTTP request", "The request has ended before this write had its turn: await each write.") : null;
        foreach (Follower next in followers)
        {
            error ??= AppendLast(next.Bytes);
            next.End(Services, error);
        }

        if (error is not null && !isCut)
        {
            FailInside(error);
            IsCut = true;
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
            using (_sending.Hold())
            {
                Count(bytes.Length);
                AppendCounted(bytes);
                if (Output.ChunkStart >= 0)
                {
                    Connection.Framing.CloseChunk(Output);
                }
            }

            return null;
        }
        catch (Exception error)
        {
            return error;
        }
    }
}
