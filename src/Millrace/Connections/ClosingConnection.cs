// How a connection ends, which is its loop's to see to: closing without a reset over its last answer. Time limits and the drain, also of a connection that an exchange
// owns, are in ClosingConnection.Time.cs, a response that is not whole is in ClosingConnection.Break.cs, and a connection that goes to another process in ClosingConnection.Move.cs. How the answers that the loop sends leave is here too: what the socket
// does not take is kept, and nothing more is read before it has left.

using System.Diagnostics;
using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connections;

internal abstract partial class ClosingConnection<TKernel> : LentConnection<TKernel>
    where TKernel : struct, IKernel
{
    private const long LingerMs = 2_000;

    private protected OutputBuffer? _pending;       // Sending: what the socket did not take
    private Ending _ending;
    private long _discarded;

    protected ClosingConnection(EventLoop<TKernel> loop, int descriptor, bool isTcp, ResponseFraming framing)
        : base(loop, descriptor, isTcp, framing)
    {
    }

    // ---- what is asked of the classes derived from it ----

    /// <summary>Reads and processes until there is nothing more, or something must wait.</summary>
    protected abstract bool Receive(LoopDriver driver);

    /// <summary>Whether anything has come of a request that is not answered, or of a record for nobody. Over FastCGI a request that has arrived counts until it has ended; over HTTP it counts while bytes of it are missing, also of one that has been answered.</summary>
    protected abstract bool IsMidRequest { get; }

    /// <summary>The last request has been answered, and the rest of it may still come. (Over FastCGI the record that has begun may be the next one's.)</summary>
    protected abstract bool IsRestComing { get; }

    /// <summary>The exchange is over: what of the protocol's state belonged to it.</summary>
    protected abstract void OnExchangeEnded(bool keepsOpen);

    /// <summary>The time for the head, or for what follows a refused one, is over.</summary>
    protected abstract void OnTimeoutMidRequest(long nowMs);

    /// <summary>A request has been answered, and is not all there, or the next one has begun to arrive: the time for what is missing begins.</summary>
    protected virtual void BeginTimeMidRequest() => SetDeadline(Options.HeadTimeout);

    /// <summary>
    /// The loop owns the connection: an exchange that gave it back by itself is taken note of. Whatever the loop does with a connection of its own begins with it,
    /// but for TakeBack, which is this for one that was posted, EndByFault, after which nobody asks any more, and what comes of a queued request's wait, which no exchange can have given back.
    /// </summary>
    private protected void Settle()
    {
        Debug.Assert(_owner.IsLoops);
        _owner.BecomeLoops();
        if (Stage == Stage.Away)
        {
            GoTo(Stage.Receiving);
            Exchange = null;
            OnExchangeEnded(keepsOpen: true);
            _lastActiveMs = Loop.NowMs;
        }
    }

    /// <summary>The loop owns the connection, and nothing is left to take note of: holds wherever it reads, sends or closes for itself.</summary>
    private protected bool IsSettled => _owner.IsLoops && Stage != Stage.Away;

    // ---- closing ----

    public sealed override void EndByFault()
    {
        if (_owner.IsLoops)
        {
            Close(reset: true);
            return;
        }

        // Closed when its exchange gives it back: its handler must come to an end, whatever the fault has left undone.
        DeadlineMs = Loop.NowMs + 1_000;    // one that failed must not be due again at once
        if (_owner.TryPin())
        {
            Exchange exchange = Exchange!;
            exchange.MarkBroken();
            exchange.LosePeer();
            exchange.Body.Break(new IOException("The server failed while the request was in progress."));
            bool caught = exchange.Body.Readers.TryTake(out Action<object?> action, out object? state);     // where the fault came between a piece of body and the call of its reader
            _owner.Unpin();
            if (caught)
            {
                Services.RunUserCode(action, state);
            }
        }

        Cut();
    }

    /// <summary>Closes once everything written has been sent. The peer's unread bytes are read first, so that no reset overtakes the answer.</summary>
    protected void CloseWhenSent() => GoTo(Ending.WhenSent);

    private void GoTo(Ending next)
    {
        Debug.Assert(next.MayFollow(_ending, IsBreaking), $"from {_ending} to {next}");
        _ending = next;
    }

    /// <summary>The last answer of this connection has been written.</summary>
    protected bool IsClosing => _ending == Ending.WhenSent;

    /// <summary>Whether bytes may still arrive that would turn a close into a reset.</summary>
    protected abstract bool MayHaveMoreInput { get; }

    private protected void FinishClosing()
    {
        if (ResetsOnClose)
        {
            Close(reset: true);
        }
        else if (IsBreaking)
        {
            BeginBreaking();
        }
        else if (Stage != Stage.Lingering)
        {
            LingerOrClose();
        }
    }

    private void LingerOrClose()
    {
        if (_peerEnd == PeerEnd.Seen || !(MayHaveMoreInput || IsHolding))
        {
            Close(reset: false);
            return;
        }

        BeginLingering(keepsHeld: false);
        Loop.Kernel.Shutdown(Descriptor, both: false);
        BeginWaitingForPeer(SendProgress.FirstLookMs);      // the time begins when the peer is seen to have its last answer, mostly at once
    }

    private void BeginLingering(bool keepsHeld)
    {
        GoTo(Stage.Lingering);
        ResetDiscarded();       // what was read of earlier bodies does not count against this one's answer
        if (!keepsHeld)
        {
            _held.Drop();
        }

        EnsureWatched();
    }

    private protected void Discard(int count)
    {
        if (!CountDiscarded(count))
        {
            Loop.Counters.Refused(Observe.Refusal.DiscardLimit);
            if (IsBreaking)
            {
                ShowBreakNow();
            }

            Close(reset: false);
        }
    }

    /// <summary>The loop owns the connection; this is its end.</summary>
    protected void Close(bool reset)
    {
        if (IsClosed)
        {
            return;
        }

        bool wasQueued = Stage == Stage.Queued;
        GoTo(Stage.Closed);
        DeadlineMs = long.MaxValue;
        try
        {
            _held.Drop();
            if (wasQueued)
            {
                _ = Services.Gate!.Forget(this);    // its place in the queue is for others
            }

            if (_pending is { } pending)
            {
                _pending = null;
                Services.Return(pending);
            }

            OnClosed(wasQueued);
        }
        finally
        {
            LeaveGate();        // nothing to leave unless a fault came before the end of its request
            Loop.Remove(this, reset && IsTcp);
            ToldOfEnd?.Complete();
        }
    }

    /// <summary>The protocol's own buffers go back, and an exchange that has not run.</summary>
    protected abstract void OnClosed(bool wasQueued);

    // ---- sending what the loop owns ----

    /// <summary>Sends what is in the driver's output; what the socket does not take is kept, and reading pauses until it has left.</summary>
    private protected void SendDriverOutput(LoopDriver driver)
    {
        OutputBuffer output = driver.Output;
        Debug.Assert(output.IsEmpty || Stage != Stage.Sending);
        if (!output.IsEmpty || (Exchange is null && HasMoreToSend && Stage != Stage.Sending))     // a request that has sent its own end leaves what was to follow that
        {
            switch (SendOutput(null, output))
            {
                case SendResult.Broken:
                    output.Clear();
                    Close(reset: false);
                    return;
                case SendResult.Again:
                    _pending = driver.GiveOutputAway();
                    GoTo(Stage.Sending);
                    BeginWaitingForPeer();
                    EnsureWatched();
                    WatchWriting();
                    return;
                default:
                    output.Clear();
                    break;
            }
        }

        if (IsClosing && Stage != Stage.Sending)
        {
            FinishClosing();
        }
    }

    // ---- bytes that nobody wants ----

    /// <summary>Counts bytes that nobody wants; false when there have been too many.</summary>
    protected bool CountDiscarded(int count)
    {
        _discarded += count;
        return _discarded <= Options.MaxDiscardBytes;
    }

    protected void ResetDiscarded() => _discarded = 0;

    /// <summary>Bytes counted since the request.</summary>
    protected long Discarded => _discarded;
}
