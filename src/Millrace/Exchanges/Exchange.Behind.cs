// Writes that come while another is still on its way: of applications that do not await each write, or write from several
// threads. As on other servers they follow one another, in the order in which they came, and whoever waits, waits for his own.
//
//   a write, a flush or a file must wait for the socket     what comes then is a follower, and so is what comes while there are followers
//   nothing is on its way any more                          followers are written, one after the other, on the thread pool
//   the response ends                                       what has been copied is still written, behind nothing but a flush
//
// What a follower was given is copied: its caller may use the memory again as soon as the call has returned, and has had no
// reason to wait for it until the peer was slow. The memory of a large write that is on its way is the caller's: a handler that
// ends before that leaves a response that is not whole. Where many bytes wait already the connection is broken off: an application
// that waits for nothing would otherwise fill the memory for a peer that reads nothing, or next to nothing.

using Millrace.Platform;

namespace Millrace.Exchanges;

internal sealed partial class Exchange
{
    /// <summary>Nothing follows where so many bytes wait already.</summary>
    public const int BehindMax = 16 * 1024 * 1024;

    private const int FollowerSize = 256;           // memory that each takes besides its bytes

    private readonly SteadyLock _turns = new();     // the last to be taken, never around anything that waits
    private Queue<Follower>? _followers;    // under the lock; added to within the gate
    private volatile bool _hasFollowers;    // written under both: some wait, or are being written
    private long _behind;                   // under the lock: what they take
    private bool _goesOn;                   // under the lock: somebody writes them

    /// <param name="bytes">What to write; none: a flush. Null: whoever waits takes the turn himself.</param>
    /// <param name="isUnseen">Nobody waits for it: its failure is the response's.</param>
    private sealed class Follower(byte[]? bytes, bool isUnseen) : TaskCompletionSource
    {
        public byte[]? Bytes => bytes;

        public bool IsUnseen => isUnseen;

        public long Size => FollowerSize + (bytes?.Length ?? 0);
    }

    /// <summary>Something that was written is still on its way, and what is written now must follow it. Within the gate.</summary>
    private bool IsBusy => _unfinished != 0 || _hasFollowers || Volatile.Read(ref _flushPending) != 0;

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
        bool isOneTooMany;
        using (_turns.Hold())
        {
            isOneTooMany = _behind >= BehindMax && !isOwed;
            if (!isOneTooMany)
            {
                (_followers ??= new()).Enqueue(follower);
                _behind += follower.Size;
                _hasFollowers = true;
            }
        }

        if (isOneTooMany)
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
            $"{BehindMax / (1024 * 1024)} MiB of the response wait for a peer that takes them too slowly, and the connection is broken off: await each write before the next.");
        if (!IsAborted)
        {
            Report(error);
            AbortByApplication(Ticket);
        }

        return Task.FromException(error);
    }

    // Something that others may have waited for has ended. On any thread, perhaps of a request that is over.
    private void LetFollow()
    {
        if (!_hasFollowers)
        {
            return;     // who comes just now looks by himself what is on its way
        }

        long ticket;
        using (_turns.Hold())
        {
            if (_goesOn || _followers is not { Count: > 0 } || Volatile.Read(ref _unfinished) != 0 || Volatile.Read(ref _flushPending) != 0)
            {
                return;
            }

            _goesOn = true;
            ticket = Ticket;    // they are of this request: the end of one takes them all away
        }

        Services.RunUserCode(static state => ((Turn)state!).Go(), new Turn(this, ticket));
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
            if (NextFollower() is not { Bytes: { } bytes } next)
            {
                Gate.Exit(ticket);
                return;
            }

            try
            {
                await WriteFollower(bytes, ticket).ConfigureAwait(false);
                EndFollower(next, null);
            }
            catch (Exception error)
            {
                EndFollower(next, error);
                if (next.IsUnseen)
                {
                    _ = TryReport(error, ticket);
                }
            }
        }
    }

    // Within the gate.
    private Follower? NextFollower()
    {
        using (_turns.Hold())
        {
            bool isLast = !_followers!.TryDequeue(out Follower? next);
            _behind -= next?.Size ?? 0;
            if (isLast || next!.Bytes is null)
            {
                _goesOn = false;
                _hasFollowers = _followers.Count > 0;
                if (next is not null)
                {
                    Interlocked.Increment(ref _unfinished);
                    EndFollower(next, null);
                }

                return null;
            }

            return next;
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
        Queue<Follower> followers;
        using (_turns.Hold())
        {
            followers = _followers!;
            _followers = null;
            _behind = 0;
            _hasFollowers = _goesOn = false;
        }

        bool isCut = error is not null || _unfinished != 0 || _fileFailed;
        error ??= _fileFailed ? FileFailed() : isCut ? new ObjectDisposedException("HTTP request", "The request has ended before this write had its turn: await each write.") : null;
        foreach (Follower next in followers)
        {
            error ??= AppendLast(next.Bytes);
            EndFollower(next, error);
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

    // Whoever waits for it is the application.
    private void EndFollower(Follower follower, Exception? error)
    {
        if (!follower.IsUnseen)
        {
            Services.RunUserCode(static state => ((Outcome)state!).Tell(), new Outcome(follower, error));
        }
    }

    private sealed class Outcome(Follower follower, Exception? error)
    {
        public void Tell()
        {
            if (error is null)
            {
                follower.SetResult();
            }
            else
            {
                follower.SetException(error);
            }
        }
    }
}
