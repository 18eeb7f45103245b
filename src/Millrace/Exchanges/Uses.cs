// Who may look at an exchange, and change what is not its response's bytes (those have a gate: ResponseGate.cs): whoever
// bears the ticket of the request that it serves, on any thread. An exchange serves one request after the other; everything
// that an application can hold carries the ticket of its own request and begins a use before it touches the exchange.
//
//   word = ticket | number of uses in progress          the end of a request takes the next ticket, and waits for those that are left
//
// A use is a matter of copying a few bytes: it never waits, and never runs code of the application. The thread that runs the
// handler's synchronous part need not be counted: it is the one that ends the request, or hands it on when it has returned.

using System.Runtime.CompilerServices;
using Millrace.Platform;

namespace Millrace.Exchanges;

internal struct UseWord
{
    private const long TicketStep = 1 << 16;    // room for as many uses at the same time, and for the state of the gate

    private long _word;

    /// <summary>Some are in progress just now, on other threads than that of the handler's synchronous part.</summary>
    public readonly bool Any => (Volatile.Read(in _word) & (TicketStep - 1)) != 0;

    /// <summary>False when the request of this ticket has ended. <see cref="End"/> must follow.</summary>
    public bool TryBegin(long ticket)
    {
        long word = Volatile.Read(ref _word);
        while ((word & ~(TicketStep - 1)) == ticket)
        {
            long was = Interlocked.CompareExchange(ref _word, word + 1, word);
            if (was == word)
            {
                return true;
            }

            word = was;
        }

        return false;
    }

    public void End() => Interlocked.Decrement(ref _word);

    /// <summary>No other use begins with this ticket, however many threads go on trying, and those in progress are waited for. Answers the next ticket, which nobody has yet.</summary>
    public long EndAll(long ticket)
    {
        long next = ticket + TicketStep;
        long left = Interlocked.Add(ref _word, TicketStep);
        for (var spin = default(SpinWait); left != next; left = Volatile.Read(ref _word))
        {
            Steady.Spin(ref spin);
        }

        return next;
    }
}

/// <summary>
/// Which thread is in the handler's synchronous part. A thread is known by its stack: an address compared is a third of what the number of a thread
/// costs to find, dozens of times a request. What lies so far below where the handler began is the same thread's stack, which is many times larger; a
/// handler that is deeper down still is taken for another thread, which is slower and nothing else.
/// </summary>
internal struct HandlerStack
{
    private const nuint Reach = 64 * 1024;
    private const nuint CallersFrame = 256;

    private nuint _top;     // 0: nobody is in a synchronous part

    /// <summary>The calling thread is in it.</summary>
    public readonly unsafe bool IsHere
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        get
        {
            byte here;
            return _top - (nuint)(&here) < Reach;      // wraps around where the stack is another, or none
        }
    }

    /// <summary>The calling thread is about to run it.</summary>
    public unsafe void Enter()
    {
        byte here;
        _top = (nuint)(&here) + CallersFrame;
    }

    /// <summary>The handler has returned to the calling thread: from here on it is a thread like any other.</summary>
    public void Leave() => _top = 0;
}

/// <summary>A use of an exchange in progress.</summary>
internal readonly ref struct ExchangeUse(RequestInProgress? counted)
{
    public void Dispose() => counted?.EndUse();
}
