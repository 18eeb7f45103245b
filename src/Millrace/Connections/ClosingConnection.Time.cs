// Time limits of a connection, whoever owns it, and the drain.

using System.Diagnostics;
using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connections;

internal abstract partial class ClosingConnection<TKernel>
{
    private const long DrainQuietMs = 250;

    private long _lastLookMs;            // the deadline while its socket is about to be looked at for the last time
    private long _overdueMs;             // ... and the one before it

    // A next request may have begun behind the one that has ended: its head is waited for. Or the end of that one's body.
    protected void BeginIdling()
    {
        if (IsMidRequest)
        {
            BeginTimeMidRequest();
        }
        else
        {
            SetDeadline(Options.IdleTimeout);
            if (_ending == Ending.Leaving)
            {
                PostLastLook(Loop.NowMs);
            }
        }
    }

    public sealed override void OnDeadline(long nowMs)
    {
        long overdue = Volatile.Read(ref DeadlineMs);
        if (IsClosed || nowMs < overdue)
        {
            return;
        }

        if (!_owner.IsLoops)
        {
            if (_owner.TryPin())
            {
                // An exchange that begins to wait for the socket meanwhile lowers it, one that ends sets that of an idle connection just before
                // it gives it back: neither may be overwritten, nor what was set since the look above.
                long since = Interlocked.Exchange(ref DeadlineMs, long.MaxValue);
                long due = CheckExchange(nowMs);
                if (since > nowMs)
                {
                    due = Math.Min(due, since);
                }

                long its = Interlocked.CompareExchange(ref DeadlineMs, due, long.MaxValue);
                if (its != long.MaxValue && due < its)
                {
                    DeadlineMs = due;
                }

                _owner.Unpin();
            }
            else
            {
                // The exchange has ended just now: what it has set for an idle connection stays.
                _ = Interlocked.CompareExchange(ref DeadlineMs, nowMs + 1_000, overdue);
            }

            return;
        }

        Settle();
        if (nowMs < DeadlineMs)
        {
            return;
        }

        if (Stage != Stage.Sending && IsBreaking)
        {
            LookWhetherTaken(nowMs);
        }
        else if (Stage is Stage.Sending or Stage.Lingering)
        {
            WaitOnForPeer(nowMs);
        }
        else if (Stage == Stage.Queued)
        {
            DeadlineMs = long.MaxValue;
            PostSelf(PostReason.QueueTimeout);
        }
        else if (IsMidRequest && !AwaitsLastLook)
        {
            OnTimeoutMidRequest(nowMs);
        }
        else if (!KeepsForRest(nowMs))
        {
            PostLastLook(nowMs);
        }
    }

    // A request may have come whose edge has not been seen.
    private void PostLastLook(long nowMs)
    {
        Debug.Assert(IsSettled && Stage == Stage.Receiving, $"a last look in {Stage}");
        _overdueMs = IdleDeadlineMs;
        _lastLookMs = nowMs + 1;
        SetDeadline(_lastLookMs);
        PostSelf(PostReason.LastLook);
    }

    /// <summary>When the connection, which the loop owns and nothing is on its way on, will have been idle for too long, or has been.</summary>
    protected long IdleDeadlineMs => AwaitsLastLook ? _overdueMs : DeadlineMs;

    // Whatever comes before the look sets another deadline, and no limit is so short that it could set the same.
    private bool AwaitsLastLook => DeadlineMs == _lastLookMs;

    // The connection has been idle for too long, or leaves in a drain. What lies in its socket came in time; closing over it would be a reset.
    private protected bool LookAndClose(LoopDriver driver)
    {
        Debug.Assert(IsSettled);
        if (!IsIdleStill)
        {
            return true;    // a request has come meanwhile
        }

        if (!Receive(driver))
        {
            return false;
        }

        if (!IsIdleStill)
        {
            return true;
        }

        if (Loop.IsDraining && MayHaveMoreInput && IsTcp)
        {
            CloseWhenSent();
            FinishClosing();    // what of the last request is still on its way must not become a reset over its answer
            return true;
        }

        if (!IsTcp && !_receivingEnded)
        {
            EndReceiving();     // what came between the look and this can still be read, and is the last that can come
            return Receive(driver);
        }

        Close(reset: false);
        return true;
    }

    private bool IsIdleStill => Stage == Stage.Receiving && AwaitsLastLook && IsBetweenRequests && !IsHolding;

    // Of what the peer cannot send any more over a Unix socket it knows, and it has its answer.
    private bool IsBetweenRequests => !IsMidRequest || (IsRestComing && !IsTcp);

    /// <summary>The connection is about to end: what is answered says so, and no deadline is put off for a rest. (In a drain a next request is served all the same that comes before the last look.)</summary>
    protected bool EndsSoon => _receivingEnded || Loop.IsDraining;

    /// <param name="mayFollow">A next request is on its way, or may be. Over a Unix socket the connection leaves when it has been quiet, as one that is idle.</param>
    private protected void LeaveIfDraining(bool mayFollow)
    {
        if (!Loop.IsDraining || !IsBetweenRequests)
        {
            return;
        }

        if ((mayFollow || IsRestComing) && !IsTcp && !_receivingEnded)
        {
            _lastActiveMs = Loop.NowMs;
            return;
        }

        if (IsMidRequest)
        {
            return;
        }

        if (_ending == Ending.None)
        {
            GoTo(Ending.Leaving);
        }

        EndReceiving();
    }

    /// <summary>The rest of the last request has come: only from now on is its connection idle, and the next request may be on its way.</summary>
    protected void OnRestEnded()
    {
        if (!IsClosing)
        {
            if (!IsTcp)
            {
                LeaveIfDraining(mayFollow: false);
            }

            BeginIdling();
        }
    }

    // A last answer that is still being read outlasts the time that is meant for bytes on their way here.
    private void WaitOnForPeer(long nowMs)
    {
        string? refusal = LookAtPeer(nowMs, Rates.Response);
        if (Stage != Stage.Sending && _progress.IsAllTaken)
        {
            if (nowMs < _progress.TakenAtMs + LingerMs)
            {
                SetDeadline(_progress.TakenAtMs + LingerMs);
            }
            else
            {
                Close(reset: false);
            }
        }
        else if (refusal is null)
        {
            SetDeadline(_progress.NextLookMs(nowMs, SendTimeoutMs));
        }
        else
        {
            Loop.Counters.Refused(refusal);
            if (Stage == Stage.Sending)
            {
                CloseAtOnce();
            }

            Close(reset: false);
        }
    }

    public sealed override void OnDrain(long nowMs, long begunMs, bool cut)
    {
        ToldOfEnd?.Request();
        if (Loop.MovesConnections)
        {
            Offer();
            if (!cut)
            {
                return;
            }
        }

        if (IsClosed)
        {
            return;
        }

        bool isLoops = _owner.IsLoops;
        if (isLoops)
        {
            Settle();
        }

        if (cut)
        {
            if (isLoops)
            {
                bool isBusy = (IsMidRequest && Stage != Stage.Lingering) || Stage == Stage.Queued;     // a whole answer may lie unread at a peer that is lingered for
                Exchange?.NoteDrainOver(Loop.Counters);    // it has a whole head, and waits for its turn
                if (IsBreaking || Stage == Stage.Sending)
                {
                    CloseAtOnce();
                }

                Close(reset: isBusy);
            }
            else if (_owner.TryPin())
            {
                CutInDrain(Exchange!);
                _owner.Unpin();     // where it could not be broken off, the next round does
            }

            return;
        }

        // A front server may be sending its next request at this very moment, and turns to the connections that are left when
        // others close behind their answers: of those that were idle when it began, only one that has been quiet in the drain is closed without an answer.
        if (isLoops && Stage == Stage.Receiving && IsBetweenRequests && !IsHolding && nowMs - Math.Max(_lastActiveMs, begunMs) >= DrainQuietMs)
        {
            PostLastLook(nowMs);
        }
    }

    // The loop, which keeps the exchange from ending. What the application does behind its response has outlived the drain, the response has not.
    private void CutInDrain(Exchange exchange)
    {
        if (!exchange.Sending.TryHold(out SteadyLock.Holder held))
        {
            exchange.NoteDrainOver(Loop.Counters);
            return;
        }

        using (held)
        {
            if (exchange.Sender.IsEndSent)
            {
                EndBehindAnswer();
                return;
            }

            exchange.NoteDrainOver(Loop.Counters);
            BreakOff(exchange, atOnce: true);
        }
    }
}
