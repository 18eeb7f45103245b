// Who may touch the response of an exchange: one thread at a time, for the request that is being answered, and nobody once
// its handler has ended. Streams and writers that an application keeps, and threads that it leaves behind, find the gate
// closed; the server closes it before it writes the end of the response.
//
//   word = number of the request << 2 | state          Open --Enter--> Writing --Exit--> Open --CloseGate--> Closed
//
// Two atomic operations a write. A number is never used twice, so a ticket for a request that is over opens nothing.

using System.Diagnostics.CodeAnalysis;

namespace Millrace.Exchanges;

internal sealed partial class Exchange
{
    private const long Open = 0;
    private const long Writing = 1;
    private const long Closed = 2;
    private const long StateMask = 3;

    private long _gate = Closed;

    /// <summary>The thread of the driver on which the handler's synchronous part runs, while <see cref="IsInline"/>.</summary>
    public int InlineThread { get; set; }

    /// <summary>What <see cref="Enter"/> wants: says which request its bearer belongs to.</summary>
    public long Ticket => Volatile.Read(ref _gate) & ~StateMask;

    /// <summary>Begins to touch the response; <see cref="Exit"/> must follow.</summary>
    /// <exception cref="ObjectDisposedException">The request is over.</exception>
    /// <exception cref="InvalidOperationException">Its response is complete, or another thread is writing it.</exception>
    public void Enter(long ticket)
    {
        if (Interlocked.CompareExchange(ref _gate, ticket | Writing, ticket) != ticket)
        {
            ThrowNotOpen(ticket);
        }
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
            long was = Interlocked.CompareExchange(ref _gate, ticket | Writing, ticket);
            if (was != (ticket | Writing))
            {
                return was == ticket;
            }

            spin.SpinOnce();
        }
    }

    public void Exit(long ticket) => Volatile.Write(ref _gate, ticket | Open);

    /// <summary>Exits, and nobody enters again for this request.</summary>
    public void ExitForGood(long ticket) => Volatile.Write(ref _gate, ticket | Closed);

    /// <exception cref="ObjectDisposedException">The request is over.</exception>
    /// <exception cref="InvalidOperationException">Its response is complete.</exception>
    public void CheckOpen(long ticket)
    {
        long word = Volatile.Read(ref _gate);
        if ((word & ~StateMask) != ticket || (word & StateMask) == Closed)
        {
            ThrowNotOpen(ticket);
        }
    }

    /// <exception cref="ObjectDisposedException">The request is over.</exception>
    public void CheckCurrent(long ticket)
    {
        if (ticket != Ticket)
        {
            ThrowNotOpen(ticket);
        }
    }

    /// <summary>The handler has ended: waits for a thread that is writing just now, and lets no further one in.</summary>
    private void CloseGate()
    {
        long ticket = Ticket;
        var spin = default(SpinWait);
        while (Interlocked.CompareExchange(ref _gate, ticket | Closed, ticket) == (ticket | Writing))
        {
            spin.SpinOnce();
        }
    }

    private void OpenGate() => Volatile.Write(ref _gate, Ticket | Open);

    // The request is over: its number is not the exchange's any more.
    private void NextTicket() => Volatile.Write(ref _gate, (Ticket + StateMask + 1) | Closed);

    [DoesNotReturn]
    private void ThrowNotOpen(long ticket)
    {
        long word = Volatile.Read(ref _gate);
        if ((word & ~StateMask) != ticket)
        {
            throw new ObjectDisposedException("response body", "The request has ended; its response cannot be written any more.");
        }

        throw new InvalidOperationException((word & StateMask) == Closed
            ? "Writing is not allowed after the response was completed."
            : "The response body is being written by another thread; await each write before the next.");
    }
}

/// <summary>
/// The ticket of an object that serves one request after the other as long as each ends in its driver's turn. While a
/// handler is in its synchronous part, only its own thread is known to act for its request: a call from another may come
/// from code that a former request left behind. It waits until the handler has ended or has left its turn, which takes a
/// few milliseconds at most, and is refused in the first case.
/// </summary>
internal struct ReusedTicket
{
    private const long None = -1;
    private const int WaitMsMax = 1_000;

    private long _ticket;

    /// <summary>Whether a thread other than the driver's has used it: then the object serves no further request.</summary>
    public bool WasUsedElsewhere { get; private set; }

    public void Take(Exchange exchange) => Volatile.Write(ref _ticket, exchange.Ticket);

    public void GiveBack() => Volatile.Write(ref _ticket, None);

    /// <summary>The ticket to enter with.</summary>
    /// <exception cref="ObjectDisposedException">The request is over.</exception>
    public long For(Exchange exchange)
    {
        // Read first: a ticket that is taken afterwards is another request's.
        long ticket = Volatile.Read(ref _ticket);
        if (exchange.IsInline && exchange.InlineThread != Environment.CurrentManagedThreadId)
        {
            WaitUntilLeft(exchange, ticket);
        }

        return ticket;
    }

    private void WaitUntilLeft(Exchange exchange, long ticket)
    {
        WasUsedElsewhere = true;
        var spin = default(SpinWait);
        long giveUpAt = Environment.TickCount64 + WaitMsMax;
        while (exchange.IsInline && Volatile.Read(ref _ticket) == ticket)
        {
            if (Environment.TickCount64 > giveUpAt)
            {
                throw new InvalidOperationException("The response cannot be written by another thread while its handler blocks the event loop; await instead of blocking.");
            }

            spin.SpinOnce();
        }

        if (ticket == None || Volatile.Read(ref _ticket) != ticket)
        {
            throw new ObjectDisposedException("response body", "The request has ended; its response cannot be written any more.");
        }
    }
}
