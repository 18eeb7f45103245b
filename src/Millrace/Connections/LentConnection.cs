// What the loop does for a request that outlives its turn: it receives the body, sees the peer go, sends what the socket had
// no room for, and watches the time limits. It keeps the exchange from ending meanwhile (OwnershipWord.TryPin). What it does when
// the connection is its own is in ClosingConnection and Connection<TKernel>.

using System.Diagnostics;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.Http;
using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connections;

internal abstract class LentConnection<TKernel> : SendingConnection<TKernel>
    where TKernel : struct, IKernel
{
    private protected const int ReadsPerTurn = 2;     // full ones: a peer that sends without end does not keep the loop to itself

    private protected PeerEnd _peerEnd;
    private protected bool _hasUrgent;       // the peer has sent something urgent, at which a read stops
    private protected long _lastActiveMs;
    private BodyPace _bodyPace;

    protected LentConnection(EventLoop<TKernel> loop, int descriptor, bool isTcp, ResponseFraming framing)
        : base(loop, descriptor, isTcp, framing)
    {
    }

    /// <summary>What it is doing; the loop's.</summary>
    public Stage Stage { get; private set; }

    public sealed override bool IsClosed => Stage == Stage.Closed;

    protected void GoTo(Stage next)
    {
        Debug.Assert(next.MayFollow(Stage), $"from {Stage} to {next}");
        Stage = next;
    }

    private protected void NotePeerEnd(PeerEnd now)
    {
        Debug.Assert(now >= _peerEnd, "what is known of a peer's end stays known");
        _peerEnd = now;
        TellOfPeerEnd();
    }

    /// <summary>Behind bytes that fill no buffer the end of what the peer has sent may lie, or what follows something urgent: it brings no edge of its own.</summary>
    private protected bool MayMoreLieBehind => _peerEnd != PeerEnd.Open || _hasUrgent;

    /// <summary>The exchange of the request in progress; the loop's field. Away, and given back, it is out of date until the loop settles.</summary>
    protected internal Exchange? Exchange { get; set; }

    // ---- what a protocol does with bytes that come meanwhile ----

    /// <summary>Whether bytes are read while an exchange runs.</summary>
    protected abstract bool ReadsWhileLent { get; }

    /// <summary>Bytes that arrive while an exchange runs; pinned.</summary>
    protected abstract void ProcessWhileLent(LoopDriver driver, byte[] buffer, int start, int end);

    /// <summary>Whether the peer has reason to send the body: not before it has been asked for, where it waits for that.</summary>
    protected virtual bool IsBodyExpected => true;

    public sealed override bool OnHandedOver(LoopDriver driver)
    {
        GoTo(Stage.Away);
        try
        {
            _held.LeaveInput();
        }
        catch
        {
            _held.Drop();       // without memory for it: the input is the other driver's
            throw;
        }

        EnsureWatched();    // the handler may have ended and given the connection back meanwhile: its next bytes are to be seen all the same
        if (_owner.TryPin())
        {
            StopDeferring(Exchange!);
            return FeedAndUnpin(driver);
        }

        return true;
    }

    // Pinned on entry. Bytes that came with a request whose handler goes on, or that its read left in the socket: the rest
    // of its body, an abort, or a request for this side.
    private protected bool FeedAndUnpin(LoopDriver driver)
    {
        Exchange exchange = Exchange!;
        exchange.Body.Readers.BeginCatch();
        if (ReadsWhileLent && _held.TryTake(out byte[] held, out int from, out int to))
        {
            ProcessWhileLent(driver, held, from, to);
            NoteRoom(exchange.Body.Flush(exchange.OnBodyRoom));
            BufferPool.Return(held);
        }

        return ReadAndUnpin(driver, exchange, wanted: _readable, resumeFlush: false);
    }

    private void NoteRoom(bool room)
    {
        if (!room)
        {
            _bodyPace.Pause(Loop.Kernel.NowMs);
        }
    }

    private protected void NoteBodyRoom()
    {
        Exchange!.Body.OnRoom();
        _bodyPace.Resume(Loop.Kernel.NowMs);       // a word meant for the body before does no harm: a pause is also time in which the handler waits for nothing
    }

    // Pinned on entry and unpinned here, before any user code runs.
    private bool ReadAndUnpin(LoopDriver driver, Exchange exchange, bool wanted, bool resumeFlush)
    {
        if (!ReadsWhileLent || exchange.Body.IsPaused || IsHolding)
        {
            _readable |= wanted || IsHolding;
            if (_readable)
            {
                NoteInput();
            }
        }
        else if (wanted)
        {
            _readable = false;
            try
            {
                ReadAndFeed(driver, exchange);
            }
            catch when (resumeFlush)
            {
                exchange.Sender.ResumeFlushSoon();
                throw;
            }
        }

        if (_peerEnd != PeerEnd.Open)
        {
            exchange.Life.NoteLeft();    // nothing reads up to it (ReadsWhileLent), or it came along with the request: no further event tells of it
        }

        bool caught = exchange.Body.Readers.TryTake(out Action<object?> action, out object? state);
        _owner.Unpin();
        return RunResumed(driver, exchange, caught ? action : null, state, resumeFlush);
    }

    private protected bool OnEventWhileLent(LoopDriver driver, Readiness ready)
    {
        Exchange exchange = Exchange!;
        bool resumeFlush = false;
        if ((ready & (Readiness.Write | Readiness.HangUp | Readiness.Error)) != 0)
        {
            if (_owner.TakeWantsWritable())
            {
                exchange.BlockedMs += exchange.Sender.IsFlushPending ? Math.Max(0, Loop.NowMs - _progress.FullSinceMs) : 0;
                resumeFlush = exchange.Sender.ContinueSending();
            }
            else
            {
                UnwatchWriting();
                if (_owner.WantsWritable)
                {
                    WatchWriting();     // wanted just now
                }
            }
        }

        if ((ready & (Readiness.HangUp | Readiness.Error)) != 0)
        {
            exchange.LosePeer(byItself: true);
        }

        if ((ready & ~Readiness.Write) == 0)
        {
            _owner.Unpin();
            return RunResumed(driver, exchange, null, null, resumeFlush);
        }

        return ReadForExchange(driver, resumeFlush);
    }

    private bool ReadForExchange(LoopDriver driver, bool resumeFlush)
    {
        Exchange exchange = Exchange!;
        exchange.Body.Readers.BeginCatch();
        return ReadAndUnpin(driver, exchange, wanted: true, resumeFlush);
    }

    private void ReadAndFeed(LoopDriver driver, Exchange exchange)
    {
        for (int reads = 1; ; reads++)
        {
            byte[] input = driver.Input;
            int count = Loop.Kernel.Receive(Descriptor, input);
            if (count <= 0)
            {
                if (count != KernelResult.Again)
                {
                    OnPeerEndWhileLent(exchange, finished: count == 0);
                }

                return;
            }

            Loop.Counters.BytesReceived += count;
            _lastActiveMs = Loop.NowMs;
            _bodyPace.NoteBytes(Loop.Kernel.NowMs, exchange.Body.AwaitedSinceMs);
            ProcessWhileLent(driver, input, 0, count);
            bool room = exchange.Body.Flush(exchange.OnBodyRoom);
            if (!room || IsHolding || !ReadsWhileLent)
            {
                NoteRoom(room);

                _readable |= count == input.Length || MayMoreLieBehind || IsHolding;
                if (_readable)
                {
                    NoteInput();
                }

                return;
            }

            if (count < input.Length && !MayMoreLieBehind)
            {
                return;
            }

            if (reads == ReadsPerTurn)
            {
                _readable = true;
                NoteInput();
                PostSelf(PostReason.Continue);
                return;
            }
        }
    }

    private void OnPeerEndWhileLent(Exchange exchange, bool finished)
    {
        NoteInput();
        if (finished && _receivingEnded && exchange.Body.State != BodyState.Open)
        {
            return;     // the peer is there, and waits for its answer
        }

        NotePeerEnd(PeerEnd.Seen);
        if (finished && exchange.IsUpgraded)
        {
            exchange.Body.Complete();
            exchange.Life.Cancel();    // one that only writes, or waits, hears of it in no other way
        }
        else if (finished)
        {
            // It may have finished sending alone, and still listen.
            exchange.Body.Break(new BadHttpRequestException($"The peer finished sending before the end of the request body ({(IsFastCgi ? "FastCGI 1.0 §5.3" : "RFC 9112 §8")})."));
            exchange.Life.NoteLeft();
        }
        else
        {
            Exception error = exchange.IsBroken
                ? new ConnectionAbortedException("The connection was aborted by the application.")
                : new ConnectionResetException("The peer reset the connection before the end of the request body.");
            exchange.LosePeer(byItself: true);      // before whoever reads hears of it: it is no failure of his
            exchange.Body.Break(error);
        }
    }

    /// <summary>Runs what waited for bytes or for room, as user code is always run on a loop: under the monitor's eyes.</summary>
    private bool RunResumed(LoopDriver driver, Exchange exchange, Action<object?>? action, object? state, bool resumeFlush)
    {
        if (resumeFlush && !Loop.Sources.RunCode(driver, static x => ((Exchange)x!).Sender.ResumeFlush(), exchange))
        {
            if (action is not null)
            {
                Services.RunUserCode(action, state);
            }

            return false;
        }

        return action is null || Loop.Sources.RunCode(driver, action, state);
    }

    // ---- time limits of an exchange ----

    private protected void BeginDeadlines(Exchange exchange)
    {
        long deadline = TimeoutMs(exchange);
        if (exchange.Body.State == BodyState.Open)
        {
            long nowMs = Loop.Kernel.NowMs;     // the turn's time may be a blocking handler old, or that of a process that stood still
            _bodyPace.Begin(nowMs, exchange.Body.IsPaused);
            deadline = Math.Min(deadline, nowMs + SendProgress.LookMs);
        }

        SetDeadline(deadline);
    }

    // From the end of the head on: its wait for a place counts.
    private long TimeoutMs(Exchange exchange) =>
        Options.RequestTimeout > TimeSpan.Zero ? exchange.StartedMs + (long)Options.RequestTimeout.TotalMilliseconds : long.MaxValue;

    // Pinned. Answers when to look again.
    private protected long CheckExchange(long nowMs)
    {
        Exchange exchange = Exchange!;
        long next = TimeoutMs(exchange);
        if (nowMs >= next)
        {
            next = long.MaxValue;
            if (exchange.Life.Cancel(CancelCause.TimeLimit))
            {
                Loop.Counters.Refused(Observe.Refusal.RequestTimeout);
            }
        }

        if (exchange.Body.State == BodyState.Open && !exchange.IsUpgraded)
        {
            next = Math.Min(next, nowMs + SendProgress.LookMs);
            if (!IsBodyExpected)
            {
                _bodyPace.Restart(nowMs);
            }

            _bodyPace.Look(nowMs, exchange.Body.AwaitedSinceMs);
            if (!exchange.Body.IsPaused && _bodyPace.IsTooSlow(nowMs, exchange.Body.Received, Options.BodyTimeout, exchange.Rates.Body, inBlocks: IsFastCgi))
            {
                Loop.Counters.Refused(Observe.Refusal.BodyTooSlow);
                exchange.Body.Break(new BadHttpRequestException("The request body arrived too slowly.", StatusCodes.Status408RequestTimeout));    // its reader goes on elsewhere: nothing of it runs here
            }
        }

        if (_owner.WantsWritable || _isBrokenOff)
        {
            next = Math.Min(next, CheckPeer(exchange, nowMs));
        }

        return next;
    }

    private long CheckPeer(Exchange exchange, long nowMs)
    {
        // Whoever sends, and begins to wait again, is within the same lock.
        if (!exchange.Sending.TryHold(out SteadyLock.Holder held))
        {
            return nowMs + SendProgress.LookMs;
        }

        using (held)
        {
            // What had to wait may be in the socket by now, however little room there is behind it.
            if (_isCut || !(_progress.IsStuck || _isBrokenOff))
            {
                return long.MaxValue;
            }

            if (LookAtPeer(nowMs, exchange.Rates.Response) is { } refusal)
            {
                Loop.Counters.Refused(refusal);
                BreakOffNow(exchange);
                return nowMs + SendProgress.LookMs;
            }

            return ContinueBreakingOff(exchange) ? nowMs + BreakPauseMs : _progress.NextLookMs(nowMs, SendTimeoutMs);
        }
    }

    // ---- its turn is over ----

    private protected static void StopDeferring(Exchange exchange)
    {
        exchange.IsInline = false;
        Interlocked.MemoryBarrier();
        exchange.Sender.SendDeferred();
    }
}
