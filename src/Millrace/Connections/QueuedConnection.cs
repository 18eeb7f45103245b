// A request that waits for its turn (MaxConcurrentRequests): how long, and what its peer may say meanwhile. The loop owns the
// connection all the time. How it gets out of the queue to run is in Connection.Run.cs.

using System.Diagnostics;
using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connections;

internal abstract class QueuedConnection<TKernel> : ClosingConnection<TKernel>
    where TKernel : struct, IKernel
{
    // So much of its body may a request bring along into the queue where the protocol has to look for an abort behind it.
    private const int WaitingBodyMax = 64 * 1024;

    protected QueuedConnection(EventLoop<TKernel> loop, int descriptor, bool isTcp, ResponseFraming framing)
        : base(loop, descriptor, isTcp, framing)
    {
    }

    /// <summary>The request in progress cannot be run now: too many are running already.</summary>
    protected abstract void RefuseOverload(LoopDriver driver);

    /// <summary>What was answered is sent, and what came meanwhile is looked at.</summary>
    private protected abstract bool AfterTurn(LoopDriver driver);

    /// <summary>Whether the peer may give up a request that waits, in bytes that would be read later. Where this is never so, the two below are never called.</summary>
    protected virtual bool ReadsWhileWaiting => false;

    /// <summary>Bytes that arrive while the request waits. True: its peer has given it up.</summary>
    protected virtual bool ProcessWhileWaiting(LoopDriver driver, byte[] buffer, int start, int end) => throw new UnreachableException();

    /// <summary>Ends the request in progress, which its peer has given up before it was run.</summary>
    protected virtual void EndGivenUp(LoopDriver driver) => throw new UnreachableException();

    /// <summary>Whether the request may be run now. Otherwise it waits, or has been refused.</summary>
    private protected bool PassGate(LoopDriver driver, Exchange exchange, RequestGate gate)
    {
        if (IsUncounted)
        {
            return true;
        }

        switch (gate.Enter(this))
        {
            case GateAnswer.Enter:
                _countedByGate = true;
                return true;
            case GateAnswer.Wait:
                GoTo(Stage.Queued);
                Loop.Counters.Queued++;
                SendAheadOf(driver, exchange);
                exchange.TakeBuffers(driver);
                _held.LeaveInput();
                EnsureWatched();
                WatchAhead(exchange);
                SetDeadline(Options.RequestQueueTimeout);
                if (_peerEnd != PeerEnd.Open || ReadsWhileWaiting)
                {
                    PostSelf(_peerEnd != PeerEnd.Open ? PostReason.LeftQueue : PostReason.Continue);     // the peer's end, or more, may have come along with its request
                }

                return false;
            default:
                Loop.Counters.Refused(Observe.Refusal.TooManyRequests);
                RefuseOverload(driver);
                return false;
        }
    }

    // Answers to earlier requests need not wait for this one's; what the socket does not take leaves as the peer reads.
    private void SendAheadOf(LoopDriver driver, Exchange exchange)
    {
        if (!driver.Output.IsEmpty)
        {
            _ = SendOutput(null, driver.Output);
            exchange.Sender.DeferOutput();
        }
    }

    // Whoever waits too long, or has probably gone, makes room for others. A peer that has only finished sending cannot be told from
    // one that has closed, and learns why it is not served.
    private protected bool LeaveQueue(LoopDriver driver, string? refusal)
    {
        if (!Services.Gate!.Forget(this))
        {
            return true;    // its turn has come just now
        }

        GoTo(Stage.Receiving);
        if (Exchange!.TakeUnsent() is { } ahead)
        {
            Move(ahead, driver.Output);     // answers to earlier requests
        }

        if (refusal is not null)
        {
            Loop.Counters.Refused(refusal);
            RefuseOverload(driver);
        }
        else
        {
            EndGivenUp(driver);
        }

        OnExchangeEnded(keepsOpen: !IsClosing);
        BeginIdling();      // where it is closing the close sets a deadline of its own
        return AfterTurn(driver);
    }

    // What came along with the request is held; what comes now is in the socket.
    private protected bool LookWhileWaiting(LoopDriver driver)
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

    /// <summary>The request that waits is not run, and nothing follows it: what has been answered leaves as far as the socket takes it.</summary>
    private protected void CloseInQueue(LoopDriver driver)
    {
        Debug.Assert(Stage == Stage.Queued);
        SendWhileWaiting(driver);
        Close(reset: false);
    }

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
    private protected void SendAheadWhileWaiting()
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
