// How a connection's bytes come in: events, reading, holding. The loop's side only. Its end is in ClosingConnection.cs.

using System.Diagnostics;
using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connections;

internal abstract partial class Connection<TKernel>
{
    /// <summary>Of those that come one behind the other; then the loop's other connections have their turn.</summary>
    protected const int RequestsPerTurn = 128;

    private bool _yields;                // held bytes wait for the other connections of the loop: PostReason.Continue is on its way

    // Behind bytes that fill no buffer: as while it is lent, and where its end has been noted here (_receivingEnded), of which no further event tells.
    private bool MayMoreLieThere => MayMoreLieBehind || _receivingEnded;

    /// <summary>Nothing has to be waited for before the next bytes are read.</summary>
    private bool MayReadOn => (Stage is Stage.Receiving or Stage.Lingering) && !IsHolding;

    // ---- what a protocol does with bytes ----

    /// <summary>Bytes in the order they came. False: the loop was taken over. What must wait is held with <see cref="Hold"/>.</summary>
    protected abstract bool Process(LoopDriver driver, byte[] buffer, int start, int end);

    // ---- events ----

    public sealed override bool OnAccepted(LoopDriver driver, MovedConnection? moved)
    {
        _lastActiveMs = Loop.NowMs;
        BeginTimeOfFirst(moved?.IdleUntilMs ?? 0);
        Knowledge = moved?.Knowledge ?? 0;

        // The first request is usually there already; a connection that is answered and closed in this turn is never watched.
        if (!Receive(driver))
        {
            return false;
        }

        if (!IsClosed)
        {
            EnsureWatched();
        }

        return true;
    }

    // How long its first head may take here. Whoever has had it before says how much of its time it has had: no more than there is, whatever it says.
    private void BeginTimeOfFirst(long idleUntilMs)
    {
        TimeSpan most = idleUntilMs == 0 || Options.HeadTimeout > Options.IdleTimeout ? Options.HeadTimeout : Options.IdleTimeout;
        long nowMs = Loop.Kernel.NowMs;
        long latestMs = nowMs + (long)most.TotalMilliseconds;
        SetDeadline(idleUntilMs == 0 ? latestMs : Math.Clamp(idleUntilMs, nowMs, latestMs));
    }

    public sealed override bool OnEvent(LoopDriver driver, Readiness ready)
    {
        if (_receivingEnded)
        {
            ready &= ~Readiness.PeerFinished;       // one that has gone shows as HangUp
        }

        if ((ready & Readiness.Urgent) != 0)
        {
            _hasUrgent = true;
        }

        if (_peerEnd == PeerEnd.Open && (ready & (Readiness.PeerFinished | Readiness.HangUp | Readiness.Error)) != 0)
        {
            NotePeerEnd(PeerEnd.Noted);
        }

        if (!_owner.IsLoops)
        {
            if (_owner.TryPin())
            {
                return OnEventWhileLent(driver, ready);
            }

            if (!_owner.IsLoops)
            {
                _readable = true;    // given back and posted: everything is looked at then
                return true;
            }
        }

        Settle();

        // Nobody is left to answer; what came before the end is read otherwise. In the queue it is not read in any case: the request leaves it without having been run (docs/failures.md).
        if ((ready & (Readiness.Error | Readiness.HangUp)) != 0 && ((ready & Readiness.Read) == 0 || Stage == Stage.Queued))
        {
            Close(reset: false);
            return true;
        }

        if (Stage == Stage.Queued && (ready & Readiness.Write) != 0)
        {
            SendAheadWhileWaiting();
        }
        else if (Stage != Stage.Sending && (ready & Readiness.Write) != 0)
        {
            UnwatchWriting();
        }

        if (Stage == Stage.Sending && (ready & (Readiness.Write | Readiness.HangUp | Readiness.Error)) != 0)
        {
            _readable |= (ready & ~Readiness.Write) != 0;    // the sending may make way for a request that blocks, and who takes over looks there
            if (!SendPending(driver))
            {
                return false;
            }
        }

        if (IsClosed || (ready & ~Readiness.Write) == 0)
        {
            return true;
        }

        switch (Stage)
        {
            case Stage.Away:
                return OnEvent(driver, ready & ~Readiness.Write);    // the sending made way for a request that goes on
            case Stage.Queued when _peerEnd != PeerEnd.Open:
                _readable = true;
                PostSelf(PostReason.LeftQueue);
                return true;
            case Stage.Queued:
                _readable = true;
                return LookWhileWaiting(driver);
            default:
                // While output or held bytes wait nothing is read: whoever goes on behind them looks.
                if (!MayReadOn)
                {
                    _readable = true;
                    return true;
                }

                return Receive(driver);
        }
    }

    // ---- reading ----

    protected sealed override bool Receive(LoopDriver driver)
    {
        Debug.Assert(IsSettled);
        if (Loop.MovesConnections && TryGiveAway())
        {
            return true;
        }

        for (int reads = 1; ; reads++)
        {
            byte[] input = driver.Input;
            int count = Loop.Kernel.Receive(Descriptor, input);
            if (count > 0)
            {
                Loop.Counters.BytesReceived += count;
                _lastActiveMs = Loop.NowMs;
                _readable = count == input.Length || MayMoreLieThere;    // an edge that may have been consumed by this read
                if (!ProcessAll(driver, input, 0, count))
                {
                    return false;
                }

                if (Stage is Stage.Closed or Stage.Away)
                {
                    return true;
                }

                if (!MayReadOn)
                {
                    _readable = true;
                    return true;
                }

                if (count < input.Length && !MayMoreLieThere)
                {
                    return true;     // a short read: the next bytes bring an edge of their own
                }

                if (reads == ReadsPerTurn)
                {
                    _readable = true;
                    PostSelf(PostReason.Continue);
                    return true;
                }
            }
            else if (count == 0)
            {
                OnPeerFinished();
                return true;
            }
            else
            {
                if (count == KernelResult.Broken)
                {
                    Close(reset: false);
                }

                return true;
            }
        }
    }

    // The peer will send nothing more. It may still read.
    private void OnPeerFinished()
    {
        NotePeerEnd(PeerEnd.Seen);
        if (IsBreaking)
        {
            CloseIfGone();      // it may still read, and has not been told
            return;
        }

        if (IsMidRequest && !IsClosing && !_receivingEnded)
        {
            Loop.Counters.Refused(Observe.Refusal.EndedMidRequest);
        }

        Close(reset: false);
    }

    /// <summary>Processes bytes, then sends what that produced, then goes on with what was held meanwhile.</summary>
    private bool ProcessAll(LoopDriver driver, byte[] buffer, int start, int end)
    {
        if (!Discards(driver, buffer, ref start, end) && !Process(driver, buffer, start, end))
        {
            return false;
        }

        for (int requests = 1; ; requests++)
        {
            if (IsClosed)
            {
                driver.Output.Clear();   // the next connection's answers are built there
                return true;
            }

            if (Stage == Stage.Away)
            {
                return true;
            }

            SendDriverOutput(driver);
            if (Stage is not (Stage.Receiving or Stage.Lingering) || _yields || !IsHolding)
            {
                return true;
            }

            if (requests == RequestsPerTurn)
            {
                _yields = true;
                PostSelf(PostReason.Continue);
                return true;
            }

            _ = _held.TryTake(out byte[] held, out int from, out int to);
            bool mine = Discards(driver, held, ref from, to) || Process(driver, held, from, to);
            BufferPool.Return(held);
            if (!mine)
            {
                return false;
            }
        }
    }

    /// <inheritdoc cref="HeldInput.Keep"/>
    protected void Hold(ReadOnlySpan<byte> bytes) => _held.Keep(bytes);

    /// <inheritdoc cref="HeldInput.KeepInPlace"/>
    protected void HoldInPlace(byte[] input, int start, int end) => _held.KeepInPlace(input, start, end);

    /// <summary>Keeps bytes for which it is not this connection's turn any more: others go first.</summary>
    protected void Yield(ReadOnlySpan<byte> bytes)
    {
        Hold(bytes);
        _yields = true;
        PostSelf(PostReason.Continue);
    }

    /// <summary>Goes on with what had to wait: held bytes first, then the socket.</summary>
    private bool Continue(LoopDriver driver)
    {
        Debug.Assert(IsSettled || IsClosed);
        if (Stage is Stage.Closed or Stage.Sending)
        {
            return true;
        }

        if (Stage == Stage.Queued)
        {
            return LookWhileWaiting(driver);
        }

        _yields = false;
        if (_held.TryTake(out byte[] held, out int from, out int to))
        {
            bool mine = ProcessAll(driver, held, from, to);
            BufferPool.Return(held);
            if (!mine)
            {
                return false;
            }
        }
        else if (Stage == Stage.Lingering && MayGoOn && !ProcessAll(driver, [], 0, 0))
        {
            return false;
        }

        if (!MayReadOn)
        {
            return true;
        }

        if (_readable || _peerEnd == PeerEnd.Seen || _receivingEnded)
        {
            _readable = false;
            return Receive(driver);
        }

        return true;
    }

    private bool SendPending(LoopDriver driver)
    {
        Debug.Assert(IsSettled);
        OutputBuffer output = _pending!;
        switch (SendOutput(null, output))
        {
            case SendResult.Again:
                if (!_progress.IsStuck)
                {
                    BeginWaitingForPeer();
                }

                WatchWriting();
                return true;
            case SendResult.Broken:
                Close(reset: false);
                return true;
        }

        _pending = null;
        GoTo(Stage.Receiving);
        Services.Return(output);
        if (IsClosing)
        {
            FinishClosing();
            _readable = true;       // lingering: the edge of what has come meanwhile is gone
            return Continue(driver);
        }

        _lastActiveMs = Loop.NowMs;     // now that the peer has its answer, its next request may be on its way
        BeginIdling();
        return Continue(driver);
    }
}
