// How a request is run and its connection comes back: inline on the loop, on a worker, or asynchronously. What the loop does
// for an exchange meanwhile is in LentConnection.cs. See Ownership.cs for the word that says who owns what.

using System.Diagnostics;
using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connections;

internal abstract partial class Connection<TKernel>
{
    // ---- running ----

    /// <summary>Runs the handler. False: the loop was taken over; touch nothing. True: look at <see cref="Stage"/>.</summary>
    private protected bool Dispatch(LoopDriver driver, Exchange exchange)
    {
        Exchange = exchange;
        exchange.Body.Prepare();
        if (Services.Gate is { } gate && !PassGate(driver, exchange, gate))
        {
            return true;
        }

        return Run(driver, exchange);
    }

    private bool Run(LoopDriver driver, Exchange exchange)
    {
        Loop.Counters.Requests++;
        exchange.RunsSinceMs = Math.Max(Loop.NowMs, Loop.HandlerEndedMs);
        BeginDeadlines(exchange);
        if (Loop.Relay is { } relay && relay.TryTake(exchange))
        {
            return Relay(driver, exchange, relay);
        }

        if (Services.IsShortOfThreads || !Loop.Dispatch.RunsInline(Loop.NowMs))
        {
            return SendToWorker(driver, exchange);
        }

        GoTo(Stage.Inline);
        _owner.Lend();
        exchange.IsInline = true;
        bool isHeldInPlace = _held.IsInPlace;      // the driver that takes the loop over copies it, if there is one
        driver.ForgetInterruption();
        long mark = Loop.Enter(this);
        Task? task = RunHandler(driver, exchange);
        bool isOver = task is null || task.IsCompleted;
        if (SaysSlow)
        {
            Loop.HandlerEndedMs = Loop.Kernel.NowMs;
            if (isOver)
            {
                LogIfSlow(exchange, Loop.HandlerEndedMs);
            }
        }

        driver.RestoreContext();
        bool mine = Loop.Leave(mark);
        if (isOver)
        {
            if (mine)
            {
                _owner.BecomeLoops();
                GoTo(Stage.Receiving);
                FinishInline(driver, exchange);
                return true;
            }

            try
            {
                exchange.TakeBuffers(driver, isHeldInPlace);
            }
            catch (Exception error)
            {
                Fail(exchange, error);      // and not beyond here: whoever drives the loop now does so alone
            }

            FinishAway(exchange);
            return false;
        }

        // The handler goes on elsewhere, perhaps already: what it has in the driver's buffers goes with it, and what it flushed is sent.
        try
        {
            exchange.TakeBuffers(driver, isHeldInPlace && !mine);
            StopDeferring(exchange);
            if (mine)
            {
                GoTo(Stage.Away);
                _held.LeaveInput();
                Loop.Counters.WentAsync++;
                EnsureWatched();
            }
        }
        catch (Exception error)
        {
            if (mine)
            {
                if (Stage == Stage.Inline)
                {
                    GoTo(Stage.Away);
                }

                _held.Drop();       // it may lie in the driver's input still, which is about to be somebody else's
            }

            Fail(exchange, error);
        }

        // Whatever failed: the end of the handler finds the way back.
        ContinueWhenDone(task!, exchange.OnRunCompleted);
        return mine && LookAfter(driver);
    }

    // What the exchange needs to go on without the driver could not be had.
    private void Fail(Exchange exchange, Exception error)
    {
        exchange.MarkBroken();
        Cut();
        Services.Log.InternalError(error);
    }

    // Run does not throw, whatever an application's handler does; should it do so all the same, the loop must still be left.
    private Task? RunHandler(LoopDriver driver, Exchange exchange)
    {
        exchange.EnterHandler();
        try
        {
            return Services.Handler.Run(exchange);
        }
        catch (Exception error)
        {
            exchange.Break(error);
            return null;
        }
        finally
        {
            exchange.LeaveHandler();
            driver.EndShowing(exchange);
        }
    }

    private bool SendToWorker(LoopDriver driver, Exchange exchange)
    {
        Loop.Counters.Workers++;
        SendAway(driver, exchange);
        try
        {
            Services.Standby.Run(this);
        }
        catch (Exception error)
        {
            exchange.Break(error);
            FinishAway(exchange);       // no thread will come for it
        }

        return LookAfter(driver);
    }

    // What goes on without the loop before its handler has begun, or without any.
    private void SendAway(LoopDriver driver, Exchange exchange)
    {
        exchange.TakeBuffers(driver);
        _held.LeaveInput();
        EnsureWatched();
        GoTo(Stage.Away);
        _owner.Lend();
        if (!exchange.Output.IsEmpty)
        {
            exchange.Sender.SendDeferred();     // answers to earlier requests need not wait for this one's
        }
    }

    // The edge of what came along with a request has been consumed: it is looked at now or never. Nothing to look at; or the exchange has given the connection back, and the loop looks then; or the look itself,
    // which unpins, and whose answer is whether the loop is still this driver's.
    private bool LookAfter(LoopDriver driver) => (!IsHolding && !_readable) || !_owner.TryPin() || FeedAndUnpin(driver);

    public sealed override void RunOnWorker(LoopDriver driver)
    {
        Exchange exchange = Exchange!;
        exchange.RunsSinceMs = Loop.Kernel.NowMs;
        driver.ForgetInterruption();
        Task? task = RunHandler(driver, exchange);
        driver.RestoreContext();
        if (task is null || task.IsCompleted)
        {
            FinishAway(exchange);
        }
        else
        {
            ContinueWhenDone(task, exchange.OnRunCompleted);
        }
    }

    // On a task that has ended meanwhile it queues to the thread pool.
    private static void ContinueWhenDone(Task task, Action continuation) =>
        Steady.DoInTheEnd(static work => work.task.GetAwaiter().UnsafeOnCompleted(work.continuation), (task, continuation));

    // ---- coming back ----

    // The connection never left the loop: no lock, no allocation, no queue (but for the gate's, with MaxConcurrentRequests). The response is sent by whoever called Process, or admitted it (AfterTurn).
    private void FinishInline(LoopDriver driver, Exchange exchange)
    {
        exchange.EnsureEnded();
        exchange.Life.SealInline();
        NoteIfBroken(exchange);
        bool keepsOpen = !exchange.IsBroken && KeepsOpen(exchange) && !exchange.Life.IsUseless && (!Loop.IsDraining || ClosesInOrder(exchange));
        LeaveGate();
        CountEnd(exchange);
        _ownRates = exchange.OwnRates;
        Exchange = null;
        Loop.Counters.CountStatus(exchange.Answer.StatusCode);
        if (exchange.TakeUnsent() is { } own)
        {
            // It waited for its turn with buffers of its own: the response leaves through the driver's all the same.
            Move(own, driver.Output);
        }

        if (exchange.Reset())
        {
            driver.Return(exchange);
        }

        if (_isBrokenOff)
        {
            keepsOpen = false;
            driver.Output.Clear();
            if (TakeLast() is { } last)
            {
                Move(last, driver.Output);
            }
        }

        OnExchangeEnded(keepsOpen);
        if (keepsOpen)
        {
            LeaveIfDraining(mayFollow: false);
            BeginIdling();
        }
        else
        {
            CloseWhenSent();
        }
    }

    // ---- posted work ----

    public sealed override void PostResumeReading() => PostSelf(PostReason.ResumeReading);

    public sealed override void AdmitFromGate() => PostSelf(PostReason.Admitted);

    public sealed override bool OnPosted(LoopDriver driver)
    {
        PostReason reasons = TakePosted();
        if (IsClosed)
        {
            if ((reasons & PostReason.Admitted) != 0)
            {
                Services.Gate!.Leave();
            }

            return true;
        }

        // What is posted beside these two is dropped: both look at all there is themselves.
        if ((reasons & PostReason.TakeBack) != 0)
        {
            return TakeBack(driver);
        }

        if ((reasons & PostReason.Admitted) != 0)
        {
            GoTo(Stage.Receiving);
            _countedByGate = true;
            return Run(driver, Exchange!) && (Stage == Stage.Away || AfterTurn(driver));
        }

        bool hasLeft = (reasons & PostReason.LeftQueue) != 0;
        bool isTimeOver = (reasons & PostReason.QueueTimeout) != 0 && DeadlineMs == long.MaxValue;      // and not that of one that has been given up for the next
        if ((hasLeft || isTimeOver) && Stage == Stage.Queued)
        {
            return LeaveQueue(driver, hasLeft ? Observe.Refusal.LeftQueue : Observe.Refusal.QueueTimeout);
        }

        if ((reasons & PostReason.Deadline) != 0)
        {
            Loop.Arm(this);
        }

        if ((reasons & PostReason.Continue) != 0 && _owner.IsLoops)
        {
            Settle();
            return Continue(driver);
        }

        if ((reasons & PostReason.LastLook) != 0 && _owner.IsLoops)
        {
            Settle();
            return LookAndClose(driver);
        }

        if ((reasons & (PostReason.ResumeReading | PostReason.Continue)) != 0 && _owner.TryPin())
        {
            if ((reasons & PostReason.ResumeReading) != 0)
            {
                NoteBodyRoom();
            }

            return FeedAndUnpin(driver);
        }

        return true;
    }

    /// <summary>Where the next request begins cannot be known any more. It may have shown since the exchange has looked. (FastCGI ends the response in progress at once, and need not be asked.)</summary>
    protected virtual bool IsFramingLost => false;

    // An exchange that could not give the connection back by itself: the loop ends it.
    private bool TakeBack(LoopDriver driver)
    {
        Exchange exchange = Exchange!;
        bool hasNext = HasNextRequest;      // the word tells, and forgets it below
        Debug.Assert(_owner.IsReturning);
        Exchange = null;
        _owner.BecomeLoops();
        _pending = _rest ?? (HasMoreToSend ? Services.RentOutput() : null);     // an empty one: the rest is sent behind it
        _rest = null;
        if (_isBrokenOff)
        {
            if (_pending is { } useless)
            {
                Services.Return(useless);
            }

            _pending = TakeLast();
        }

        GoTo(_pending is null ? Stage.Receiving : Stage.Sending);

        bool keepsOpen = _keepsOpenBehindRest && !IsFramingLost && !exchange.Life.IsUseless && (!Loop.IsDraining || hasNext || ClosesInOrder(exchange)) && !_isBrokenOff;
        if (exchange.Reset())
        {
            driver.Return(exchange);
        }

        OnExchangeEnded(keepsOpen);
        if (!keepsOpen)
        {
            CloseWhenSent();
        }
        else
        {
            LeaveIfDraining(mayFollow: hasNext || _hasLeftBefore);
        }

        if (Stage == Stage.Sending)
        {
            if (_progress.IsStuck && !_isBrokenOff)
            {
                SetDeadline(_progress.NextLookMs(Loop.NowMs, SendTimeoutMs));       // the end of the handler is nothing that its peer has done
            }
            else
            {
                BeginWaitingForPeer();
            }

            EnsureWatched();
            return SendPending(driver);
        }

        BeginIdling();
        return AfterTurn(driver);
    }

    private protected sealed override bool AfterTurn(LoopDriver driver)
    {
        SendDriverOutput(driver);
        return Continue(driver);
    }
}
