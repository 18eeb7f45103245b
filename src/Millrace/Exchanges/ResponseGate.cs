// Who may touch the response of an exchange: one thread at a time, for the request that is being answered, and nobody once
// its handler has ended. Streams and writers that an application keeps, and threads that it leaves behind, find the gate
// closed; the server closes it before it writes the end of the response.
//
//   word = ticket | state          Open --Enter--> Writing --Exit--> Open --Close--> Closed
//
// Two atomic operations a write. Writes of several threads follow one another (those that find one under way which waits for
// the peer: WriteOrder.cs). A ticket is never used twice, so that of a request that is over opens nothing. Who may look
// at the exchange without writing its response is in Uses.cs.

using System.Diagnostics;
using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal struct ResponseGate(SendLock sending)
{
    private const long Opened = 0;
    private const long Writing = 1;
    private const long Closed = 2;
    private const long StateMask = 3;
    private const long EnterMs = 10_000;

    private long _word = Closed;

    /// <summary>What <see cref="Enter"/> and <see cref="RequestInProgress.Use"/> want: says which request its bearer belongs to.</summary>
    public readonly long Ticket => Volatile.Read(in _word) & ~StateMask;

    /// <summary>Begins to touch the response; another thread that does so is waited for. <see cref="Exit"/> must follow.</summary>
    /// <exception cref="ObjectDisposedException">The request is over.</exception>
    /// <exception cref="InvalidOperationException">Its response is complete, or is being written by whoever calls this.</exception>
    public void Enter(long ticket)
    {
        if (Interlocked.CompareExchange(ref _word, ticket | Writing, ticket) != ticket)
        {
            EnterAfterAnother(ticket);
        }
    }

    // The other copies bytes and asks the socket to take them, no more. One that takes for ever is the caller itself: a logger
    // that writes to the response whose failure it is told of.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private void EnterAfterAnother(long ticket)
    {
        if (!TryEnterSoon(ticket))
        {
            ThrowNotOpen(ticket);
        }
    }

    /// <summary>The same for a flush: false where the response is complete, which leaves nothing to flush.</summary>
    public bool EnterUnlessComplete(long ticket) =>
        Interlocked.CompareExchange(ref _word, ticket | Writing, ticket) == ticket || EnterAfterAnotherUnlessComplete(ticket);

    // It may have been completed since anybody looked: by the thread that was waited for, or by what runs when the response begins.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private bool EnterAfterAnotherUnlessComplete(long ticket)
    {
        bool isEntered = TryEnterSoon(ticket);
        if (!isEntered && !IsComplete(ticket))
        {
            ThrowNotOpen(ticket);
        }

        return isEntered;
    }

    /// <summary>The same for an operation that goes on after it has waited: another thread's write is waited for.</summary>
    public void EnterAgain(long ticket)
    {
        if (!TryEnterAgain(ticket))
        {
            ThrowNotOpen(ticket);
        }
    }

    /// <summary>False when the response is complete or the request over.</summary>
    public bool TryEnterAgain(long ticket)
    {
        var spin = default(SpinWait);
        while (true)
        {
            long was = Interlocked.CompareExchange(ref _word, ticket | Writing, ticket);
            if (was != (ticket | Writing))
            {
                return was == ticket;
            }

            WaitForWriter(ref spin);
        }
    }

    /// <summary>For what an application may call from anywhere. False as well when another has been within for ten seconds: that is whoever calls this.</summary>
    public bool TryEnterSoon(long ticket)
    {
        long until = Environment.TickCount64 + EnterMs;
        var spin = default(SpinWait);
        while (Interlocked.CompareExchange(ref _word, ticket | Writing, ticket) is long was && was != ticket)
        {
            if (was != (ticket | Writing) || Environment.TickCount64 > until)
            {
                return false;
            }

            until = sending.IsInFile ? Environment.TickCount64 + EnterMs : until;
            WaitForWriter(ref spin);
        }

        return true;
    }

    // Who is within the gate leaves it at once, unless the kernel reads a file for him.
    private readonly void WaitForWriter(ref SpinWait spin)
    {
        if (sending.IsInFile)
        {
            sending.Hold().Dispose();
        }

        Steady.Spin(ref spin);
    }

    /// <summary>False as well while anybody else writes.</summary>
    public bool TryEnterAtOnce(long ticket) => Interlocked.CompareExchange(ref _word, ticket | Writing, ticket) == ticket;

    public void Exit(long ticket)
    {
        Debug.Assert(_word == (ticket | Writing));
        Volatile.Write(ref _word, ticket | Opened);
    }

    /// <summary>Exits, and nobody enters again for this request.</summary>
    public void ExitForGood(long ticket)
    {
        Debug.Assert(_word == (ticket | Writing));
        Volatile.Write(ref _word, ticket | Closed);
    }

    /// <summary>Whether the response is complete: nothing can be written any more, and nothing is left to flush.</summary>
    /// <exception cref="ObjectDisposedException">The request is over.</exception>
    public readonly bool IsComplete(long ticket)
    {
        long word = Volatile.Read(in _word);
        if ((word & ~StateMask) != ticket)
        {
            Exchange.ThrowEnded();
        }

        return (word & StateMask) == Closed;
    }

    /// <exception cref="ObjectDisposedException">The request is over.</exception>
    /// <exception cref="InvalidOperationException">Its response is complete.</exception>
    public readonly void CheckOpen(long ticket)
    {
        long word = Volatile.Read(in _word);
        if ((word & ~StateMask) != ticket || (word & StateMask) == Closed)
        {
            ThrowNotOpen(ticket);
        }
    }

    /// <summary>The handler has ended: waits for a thread that is writing just now, and lets no further one in.</summary>
    public void Close()
    {
        long ticket = Ticket;
        if (Volatile.Read(ref _word) == (ticket | Closed))
        {
            return;     // for good: nothing opens it before the next request
        }

        var spin = default(SpinWait);
        while (Interlocked.CompareExchange(ref _word, ticket | Closed, ticket) == (ticket | Writing))
        {
            WaitForWriter(ref spin);
        }
    }

    /// <summary>The next request begins.</summary>
    public void Open()
    {
        Debug.Assert((_word & StateMask) == Closed);
        Volatile.Write(ref _word, Ticket | Opened);
    }

    /// <summary>The request is over. The ticket of the next opens nothing before it has begun.</summary>
    public void Renew(long ticket)
    {
        Debug.Assert((_word & StateMask) == Closed && ticket > Ticket);
        Volatile.Write(ref _word, ticket | Closed);
    }

    [DoesNotReturn]
    private readonly void ThrowNotOpen(long ticket)
    {
        long word = Volatile.Read(in _word);
        if ((word & ~StateMask) != ticket)
        {
            Exchange.ThrowEnded();
        }

        throw new InvalidOperationException((word & StateMask) == Closed
            ? "Writing is not allowed after the response was completed."
            : "The response body is being written by the same thread, within this write.");
    }
}
