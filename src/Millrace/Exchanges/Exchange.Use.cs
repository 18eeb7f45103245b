// Who may look at an exchange, and change what is not its response's bytes (those have a gate: Exchange.Gate.cs): whoever
// bears the ticket of the request that it serves, on any thread. An exchange serves one request after the other; everything
// that an application can hold carries the ticket of its own request and begins a use before it touches the exchange.
//
//   word = ticket | number of uses in progress          the end of a request waits for them and takes the next ticket
//
// A use is a matter of copying a few bytes: it never waits, and never runs code of the application. The thread that runs the
// handler's synchronous part need not be counted: it is the one that ends the request, or hands it on when it has returned.

using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;

namespace Millrace.Exchanges;

internal sealed partial class Exchange
{
    private const long TicketStep = 1 << 16;    // room for as many uses at the same time, and for the state of the gate

    // A thread is known by its stack: an address compared is a third of what the number of a thread costs to find, dozens of
    // times a request. What lies so far below where the handler began is the same thread's stack, which is many times larger;
    // a handler that is deeper down still is taken for another thread, which is slower and nothing else.
    private const nuint StackReach = 64 * 1024;
    private const nuint CallersFrame = 256;

    private long _uses;
    private nuint _handlerStack;     // 0: nobody is in a synchronous part

    /// <summary>The calling thread is about to run the handler's synchronous part.</summary>
    public unsafe void EnterHandler()
    {
        byte here;
        _handlerStack = (nuint)(&here) + CallersFrame;
    }

    /// <summary>The handler has returned to the calling thread: from here on it is a thread like any other.</summary>
    public void LeaveHandler() => _handlerStack = 0;

    /// <summary>Whether the calling thread runs the handler's synchronous part, of whichever request the exchange serves.</summary>
    public unsafe bool IsHandlerThread
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        get
        {
            byte here;
            return _handlerStack - (nuint)(&here) < StackReach;      // wraps around where the stack is another, or none
        }
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

        return TryCount(ticket, out use);
    }

    private bool TryCount(long ticket, out ExchangeUse use)
    {
        use = new ExchangeUse(this);
        long word = Volatile.Read(ref _uses);
        while ((word & ~(TicketStep - 1)) == ticket)
        {
            long was = Interlocked.CompareExchange(ref _uses, word + 1, word);
            if (was == word)
            {
                return true;
            }

            word = was;
        }

        return false;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private ExchangeUse UseElsewhere(long ticket)
    {
        if (!TryCount(ticket, out ExchangeUse use))
        {
            ThrowEnded();
        }

        return use;
    }

    // Some are in progress just now, on other threads than that of the handler's synchronous part.
    private bool HasUses => (Volatile.Read(ref _uses) & (TicketStep - 1)) != 0;

    internal void EndUse() => Interlocked.Decrement(ref _uses);

    // Waits for uses in progress, and there will be no other for this request. Answers the ticket of the next.
    private long EndUses()
    {
        long ticket = Ticket;
        var spin = default(SpinWait);
        while (Interlocked.CompareExchange(ref _uses, ticket + TicketStep, ticket) != ticket)
        {
            spin.SpinOnce(sleep1Threshold: -1);    // never a wait that could be interrupted
        }

        return ticket + TicketStep;
    }

    [DoesNotReturn]
    internal static void ThrowEnded() =>
        throw new ObjectDisposedException("HTTP request", "The request has ended. What belonged to it cannot be used any more: copy what is needed longer, and await what is begun.");
}

/// <summary>A use of an exchange in progress.</summary>
internal readonly ref struct ExchangeUse(Exchange? counted)
{
    public void Dispose() => counted?.EndUse();
}
