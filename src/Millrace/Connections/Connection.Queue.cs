// A request that waits for its turn (MaxConcurrentRequests): how long, and what its peer may say meanwhile. The loop owns the
// connection all the time. How it gets into the queue and out of it to run is in Connection.Run.cs.

using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connections;

internal abstract partial class Connection<TKernel>
{
    // So much of its body may a request bring along into the queue where the protocol has to look for an abort behind it.
    private const int WaitingBodyMax = 64 * 1024;

    /// <summary>Whether the peer may give up a request that waits, in bytes that would be read later.</summary>
    protected virtual bool ReadsWhileWaiting => false;

    /// <summary>Bytes that arrive while the request waits. True: its peer has given it up.</summary>
    protected virtual bool ProcessWhileWaiting(LoopDriver driver, byte[] buffer, int start, int end) => false;

    /// <summary>Ends a request that its peer has given up before it was run.</summary>
    protected virtual void EndGivenUp(LoopDriver driver, Exchange exchange) => RefuseOverload(driver, exchange);

    // Whoever waits too long, or has probably gone, makes room for others. A peer that has only finished sending cannot be told from
    // one that has closed, and learns why it is not served.
    private bool LeaveQueue(LoopDriver driver, string? refusal)
    {
        if (!Services.Gate!.Forget(this))
        {
            return true;    // its turn has come just now
        }

        GoTo(Stage.Receiving);
        Exchange exchange = Exchange!;
        Exchange = null;
        if (exchange.TakeUnsent() is { } ahead)
        {
            Move(ahead, driver.Output);     // answers to earlier requests
        }

        if (refusal is not null)
        {
            Loop.Counters.Refused(refusal);
            RefuseOverload(driver, exchange);
        }
        else
        {
            EndGivenUp(driver, exchange);
        }

        OnExchangeEnded(keepsOpen: !IsClosing);
        SetIdleDeadline();
        return AfterTurn(driver);
    }

    // What came along with the request is held; what comes now is in the socket.
    private bool LookWhileWaiting(LoopDriver driver)
    {
        for (int reads = 0; MayLookWhileWaiting;)
        {
            bool givenUp;
            if (_held.TryTake(out byte[] held, out int from, out int to))
            {
                givenUp = ProcessWhileWaiting(driver, held, from, to);
                BufferPool.Return(held);
            }
            else if (reads++ == ReadsPerTurn)
            {
                PostSelf(PostReason.Continue);
                return true;
            }
            else
            {
                int count = Loop.Kernel.Receive(Descriptor, driver.Input);
                if (count <= 0)
                {
                    _readable = false;
                    if (count == KernelResult.Broken)
                    {
                        Close(reset: false);
                    }

                    return true;        // an end of what the peer sends brings an event of its own
                }

                Loop.Counters.BytesReceived += count;
                _readable = true;
                givenUp = ProcessWhileWaiting(driver, driver.Input, 0, count);
            }

            SendWhileWaiting(driver);
            if (IsClosed || givenUp)
            {
                return IsClosed || LeaveQueue(driver, refusal: null);
            }
        }

        return true;
    }

    // Bytes that have not left go before all others of the request: nothing more is answered until it is run.
    private bool MayLookWhileWaiting => Stage == Stage.Queued && ReadsWhileWaiting
        && Exchange is { Output.IsEmpty: true, Body: { IsPaused: false, Received: < WaitingBodyMax } };

    private void SendWhileWaiting(LoopDriver driver)
    {
        OutputBuffer output = driver.Output;
        if (IsClosed || output.IsEmpty)
        {
            output.Clear();
            return;
        }

        switch (SendOutput(null, output))
        {
            case SendResult.Broken:
                Close(reset: false);
                break;
            case SendResult.Again:
                _ = Framing.FrameEnd(output);
                Exchange!.Output.AppendRest(output);
                Exchange.Sender.DeferOutput();
                WatchAhead(Exchange);
                break;
        }

        output.Clear();
    }

    // Answers to earlier requests that the socket has not taken whole.
    private void WatchAhead(Exchange exchange)
    {
        if (!exchange.Output.IsEmpty)
        {
            WatchWriting();
        }
    }

    // The socket takes more of them, or nobody waits for that.
    private void SendAheadWhileWaiting()
    {
        Exchange exchange = Exchange!;
        SendResult sent = exchange.Output.IsEmpty ? SendResult.Done : SendOutput(null, exchange.Output);
        exchange.Sender.DeferOutput();
        switch (sent)
        {
            case SendResult.Broken:
                Close(reset: false);
                break;
            case SendResult.Again:
                WatchWriting();
                break;
            default:
                UnwatchWriting();
                PostSelf(PostReason.Continue);      // what has come was not looked at before
                break;
        }
    }
}
