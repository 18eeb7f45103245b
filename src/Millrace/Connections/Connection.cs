// One connection over the kernel it runs on: what its loop does while the connection is its own. What protocol it speaks is in the classes
// derived from it; how it is received and run is in Connection.Receive.cs and .Run.cs.
//
//   SendingConnection   whoever owns its output, on any thread: sending, breaking off, giving back
//   LentConnection      its loop, while an exchange owns it
//   ClosingConnection   its loop: the end, the drain and time limits, whose halves for a connection that is lent tell its exchange, and cut the socket at most
//   QueuedConnection    ... and its request waits for its turn
//   Connection          ... and what comes in, and is run
//
// A connection belongs to its loop or to its exchange, never to both. Ownership is one bit of the word (Ownership.cs):
//
//        Lent (set by the loop before the handler)
//   loop ----------------------------------------------> exchange
//        <---- handler ended in its turn (plain store)
//        <---- given back by one compare-exchange, when nothing is noted in the word, nothing is left to send or read, and it goes on (FinishAway)
//        <---- posted to the loop (Returning), when something is
//
// Reading stays with the loop all the time. While it looks at a connection that its exchange owns it pins it, and
// an exchange that ends just then takes the posted way. A descriptor is closed by the loop alone, and only when no
// exchange owns the connection: a number closed under a writing thread would be given to a stranger.
//
// Connection.pml checks this exhaustively. Its states: PROCESS (loop's, until Lent is set), HANDLER, LEAVE_ENDED, LEAVE_GOING_ON and FINISH
// (exchange's), FEED_AND_UNPIN to UNPIN, READ_AND_FEED and EVENT_WHILE_LENT (pinned), TAKE_BACK (Returning, and posted), EVENT, POSTED, DEADLINE (the loop's turn).

using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connections;

internal abstract partial class Connection<TKernel> : QueuedConnection<TKernel>
    where TKernel : struct, IKernel
{
    protected Connection(EventLoop<TKernel> loop, int descriptor, bool isTcp, ResponseFraming framing)
        : base(loop, descriptor, isTcp, framing)
    {
    }

    // The relay of the loop has taken the request, and ends it.
    private bool Relay(LoopDriver driver, Exchange exchange, LoopRelay relay)
    {
        Loop.Counters.WentAsync++;
        SendAway(driver, exchange);
        try
        {
            relay.Begin(exchange);
        }
        catch (Exception error)
        {
            exchange.Break(error);
            FinishAway(exchange);
        }

        return LookAfter(driver);
    }
}
