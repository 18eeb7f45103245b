// How a request is run and its connection comes back: inline on the loop, on a worker, or asynchronously, and what the
// loop does for an exchange meanwhile. See Connection.cs for the word that says who owns what.

using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.Http;
using Millrace.Exchanges;
using Millrace.Loops;

namespace Millrace.Connections;

internal abstract partial class Connection<TKernel>
{
    private const int NotedInput = 32;   // bytes or an end that the loop has seen and not processed

    private OutputBuffer? _rest;         // what a detached exchange could not send
    private bool _restKeepsOpen;
    private bool _countedByGate;
    private long _bodySinceMs;
    private long _bodyLastMs;
    private long _pausedSinceMs;
    private long _writeBlockedSinceMs;

    /// <summary>A whole head has been read, but the limit of concurrent requests is reached.</summary>
    protected bool IsWaitingForGate { get; private set; }

    /// <summary>Whether the connection serves further requests after this one.</summary>
    protected abstract bool KeepsOpen(Exchange exchange);

    /// <summary>Bytes that arrive while an exchange runs; touching is held.</summary>
    protected abstract void ProcessWhileExchanging(LoopDriver driver, byte[] buffer, int start, int end);

    /// <summary>Whether the peer has reason to send the body: not before it has been asked for, where it waits for that.</summary>
    protected virtual bool IsBodyExpected => true;

    /// <summary>The request cannot be run now: too many are running already.</summary>
    protected abstract void RefuseOverload(LoopDriver driver, Exchange exchange);

    // ---- running ----

    /// <summary>Runs the handler. False: the loop was taken over; touch nothing. True: look at <see cref="Connection.IsClosed"/> and at who owns the connection.</summary>
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

    private bool PassGate(LoopDriver driver, Exchange exchange, RequestGate gate)
    {
        switch (gate.Enter(this))
        {
            case GateAnswer.Enter:
                _countedByGate = true;
                return true;
            case GateAnswer.Wait:
                IsWaitingForGate = true;
                Loop.Counters.Queued++;
                SendAheadOf(driver, exchange);
                exchange.TakeBuffers(driver);
                KeepHeld();
                EnsureWatched();
                SetDeadline(long.MaxValue);
                return false;
            default:
                Loop.Counters.Refused(Observe.Refusal.TooManyRequests);
                Exchange = null;
                RefuseOverload(driver, exchange);
                return false;
        }
    }

    private bool Run(LoopDriver driver, Exchange exchange)
    {
        Loop.Counters.Requests++;
        BeginDeadlines(exchange);
        if (!Loop.Dispatch.RunsInline(Loop.NowMs))
        {
            return SendToWorker(driver, exchange);
        }

        Volatile.Write(ref Word, Exchanging);
        exchange.InlineThread = Environment.CurrentManagedThreadId;
        exchange.IsInline = true;
        long mark = Loop.Enter(this);
        Task? task = RunHandler(exchange);
        bool mine = Loop.Leave(mark);
        driver.RestoreContext();
        if (task is null || task.IsCompleted)
        {
            if (mine)
            {
                Word = 0;
                FinishInline(driver, exchange);
                return true;
            }

            exchange.TakeBuffers(driver);
            FinishDetached(exchange);
            return false;
        }

        // The handler goes on elsewhere, perhaps already: its buffers stay with it, and what it flushed is sent.
        exchange.TakeBuffers(driver);
        StopDeferring(exchange);
        if (mine)
        {
            _away = true;
            KeepHeld();
            Loop.Counters.WentAsync++;
            EnsureWatched();
        }

        task.GetAwaiter().UnsafeOnCompleted(exchange.OnRunCompleted);
        return mine && LookAfter(driver);
    }

    // Handlers do not throw; should one of ours do so all the same, the loop must still be left.
    private Task? RunHandler(Exchange exchange)
    {
        try
        {
            return Services.Handler.Run(exchange);
        }
        catch (Exception error)
        {
            exchange.Break(error);
            return null;
        }
    }

    private static void StopDeferring(Exchange exchange)
    {
        exchange.IsInline = false;
        Interlocked.MemoryBarrier();
        exchange.SendDeferred();
    }

    private bool SendToWorker(LoopDriver driver, Exchange exchange)
    {
        Loop.Counters.Workers++;
        SendAheadOf(driver, exchange);
        exchange.TakeBuffers(driver);
        KeepHeld();
        EnsureWatched();
        _away = true;
        Volatile.Write(ref Word, Exchanging);
        Services.Standby.Run(this);
        return LookAfter(driver);
    }

    // Answers to earlier requests need not wait for this one's; what stays leaves with it.
    private void SendAheadOf(LoopDriver driver, Exchange exchange)
    {
        if (!driver.Output.IsEmpty)
        {
            _ = SendOutput(null, driver.Output);
            exchange.DeferOutput();
        }
    }

    // The edge of what came along with a request has been consumed: it is looked at now or never.
    private bool LookAfter(LoopDriver driver) => (!IsHolding && !_readable) || !TryTouch() || FeedHeld(driver);

    public sealed override void RunOnWorker(LoopDriver driver)
    {
        Exchange exchange = Exchange!;
        Task? task = RunHandler(exchange);
        driver.RestoreContext();
        if (task is null || task.IsCompleted)
        {
            FinishDetached(exchange);
        }
        else
        {
            task.GetAwaiter().UnsafeOnCompleted(exchange.OnRunCompleted);
        }
    }

    // ---- coming back ----

    // The connection never left the loop: no lock, no allocation, no queue. The response is sent by whoever called Process.
    private void FinishInline(LoopDriver driver, Exchange exchange)
    {
        exchange.EnsureEnded();
        exchange.Seal();
        bool keepsOpen = KeepsOpen(exchange) && !exchange.IsCut && !Loop.IsDraining;
        LeaveGate();
        Exchange = null;
        Loop.Counters.CountStatus(exchange.StatusCode);
        if (exchange.DetachOutput() is { } own)
        {
            // It waited for its turn with buffers of its own: the response leaves through the driver's all the same.
            driver.Output.Append(own.Bytes.AsSpan(own.Start, own.Length));
            Services.Return(own);
        }

        if (exchange.Reset())
        {
            driver.Return(exchange);
        }

        OnExchangeEnded(keepsOpen);
        if (keepsOpen)
        {
            SetIdleDeadline();
        }
        else
        {
            CloseWhenSent();
        }
    }

    // Nothing may escape from here: the caller is a thread of the application's, or a driver without a loop.
    public sealed override void FinishDetached(Exchange exchange)
    {
        try
        {
            SendRest(exchange);
        }
        catch (Exception error)
        {
            Services.Log.InternalError(error);
            _rest = null;
            _restKeepsOpen = false;
            Interlocked.Or(ref Word, GivenBack);
            PostSelf(PostedGivenBack);
        }
    }

    private void SendRest(Exchange exchange)
    {
        exchange.IsInline = false;
        exchange.EnsureEnded();
        exchange.Seal();
        OutputBuffer? rest;
        bool keepsOpen = KeepsOpen(exchange) && !exchange.IsCut && !Loop.IsDraining;
        lock (exchange.SendLock)
        {
            if (SendOutput(exchange, exchange.Output) == SendResult.Broken)
            {
                exchange.Output.Clear();
                keepsOpen = false;
            }

            rest = exchange.DetachOutput();
        }

        LeaveGate();
        Services.Detached.CountStatusShared(exchange.StatusCode);
        if (rest is null && keepsOpen && !_readable && !IsHolding && exchange.Body.State == BodyState.Complete && TryGiveBack(exchange))
        {
            Recycle(exchange);
            return;
        }

        _rest = rest;
        _restKeepsOpen = keepsOpen;
        Interlocked.Or(ref Word, GivenBack);
        PostSelf(PostedGivenBack);
    }

    private void Recycle(Exchange exchange)
    {
        try
        {
            if (exchange.Reset())
            {
                Services.Return(exchange);
            }
        }
        catch (Exception error)
        {
            Services.Log.InternalError(error);      // the connection is the loop's again
        }
    }

    // One compare-exchange, if the loop has noted nothing and the wheel will look in time. Afterwards the connection may not be touched.
    private bool TryGiveBack(Exchange exchange)
    {
        if (exchange.IsFlushPending || Options.IdleTimeout.TotalMilliseconds < DeadlineWheel.HorizonMs)
        {
            return false;
        }

        DeadlineMs = Loop.Kernel.NowMs + (long)Options.IdleTimeout.TotalMilliseconds;
        int word = Volatile.Read(ref Word);
        return word == Exchanging && Interlocked.CompareExchange(ref Word, 0, word) == word;
    }

    private void LeaveGate()
    {
        if (_countedByGate)
        {
            _countedByGate = false;
            Services.Gate!.Leave();
        }
    }

    // ---- posted work ----

    protected void PostSelf(int reason)
    {
        if (Interlocked.Or(ref Posted, reason) == 0)
        {
            Loop.Post(this);
        }
    }

    public sealed override void PostResumeReading() => PostSelf(PostedResume);

    public sealed override void AdmitFromGate() => PostSelf(PostedAdmitted);

    public override void OnBodyWanted(Exchange exchange)
    {
    }

    public sealed override bool OnPosted(LoopDriver driver)
    {
        int reasons = Interlocked.Exchange(ref Posted, 0);
        if (IsClosed)
        {
            if ((reasons & PostedAdmitted) != 0)
            {
                Services.Gate!.Leave();
            }

            return true;
        }

        if ((reasons & PostedGivenBack) != 0)
        {
            return TakeBack(driver);
        }

        if ((reasons & PostedAdmitted) != 0)
        {
            IsWaitingForGate = false;
            _countedByGate = true;
            return Run(driver, Exchange!) && (_away || AfterTurn(driver));
        }

        if ((reasons & PostedDeadline) != 0)
        {
            Loop.Arm(this);
        }

        if ((reasons & PostedResume) != 0 && !IsLoops() && TryTouch())
        {
            Exchange!.Body.OnDrained();
            if (_pausedSinceMs != 0)
            {
                _bodySinceMs += Loop.NowMs - _pausedSinceMs;
                _bodyLastMs = Loop.NowMs;
                _pausedSinceMs = 0;
            }

            _readable = true;
            return FeedHeld(driver);
        }

        return true;
    }

    // An exchange that could not give the connection back by itself: the loop ends it.
    private bool TakeBack(LoopDriver driver)
    {
        Exchange exchange = Exchange!;
        Exchange = null;
        _away = false;
        Volatile.Write(ref Word, 0);
        _pending = _rest;
        _rest = null;
        bool keepsOpen = _restKeepsOpen && !Loop.IsDraining;
        if (exchange.Reset())
        {
            driver.Return(exchange);
        }

        OnExchangeEnded(keepsOpen);
        if (!keepsOpen)
        {
            CloseWhenSent();
        }

        if (_pending is not null)
        {
            SetDeadline(Loop.NowMs + (long)Options.SendTimeout.TotalMilliseconds);
            EnsureWatched();
            return SendPending(driver);
        }

        SetIdleDeadline();
        return AfterTurn(driver);
    }

    private bool AfterTurn(LoopDriver driver)
    {
        SendDriverOutput(driver);
        _readable = true;    // an edge may have come and gone while the exchange had the connection
        return IsClosed || _lingering ? IsClosed || Receive(driver) : Continue(driver);
    }

    // ---- what the loop does for a running exchange ----

    /// <summary>Keeps the exchange from ending under the loop's hands. False when it is not running, or has ended already.</summary>
    protected bool TryTouch()
    {
        while (true)
        {
            int word = Volatile.Read(ref Word);
            if ((word & Exchanging) == 0 || (word & GivenBack) != 0)
            {
                return false;
            }

            if (Interlocked.CompareExchange(ref Word, word | Touching, word) == word)
            {
                return true;
            }
        }
    }

    protected void Release() => Interlocked.And(ref Word, ~Touching);

    private void Note() => Interlocked.Or(ref Word, NotedInput);

    public sealed override bool OnHandedOver(LoopDriver driver)
    {
        _away = true;
        KeepHeld();
        EnsureWatched();    // the handler may have ended and given the connection back meanwhile: its next bytes are to be seen all the same
        if (!IsLoops() && TryTouch())
        {
            StopDeferring(Exchange!);
            return FeedHeld(driver);
        }

        return true;
    }

    // Touching is held. Bytes that came with a request whose handler goes on, or that its read left in the socket: the rest
    // of its body, an abort, or a request for this side.
    private bool FeedHeld(LoopDriver driver)
    {
        Exchange exchange = Exchange!;
        exchange.Body.Readers.BeginCatch();
        if (ReadsWhileExchanging && _held is { } held)
        {
            (int from, int to) = (_heldStart, _heldEnd);
            _held = null;
            ProcessWhileExchanging(driver, held, from, to);
            _ = exchange.Body.Flush(exchange.OnBodyDrained);
            BufferPool.Return(held);
        }

        return ReadUnlessHolding(driver, exchange, wanted: _readable, resumeFlush: false);
    }

    // Touching is held on entry and released here, before any user code runs.
    private bool ReadUnlessHolding(LoopDriver driver, Exchange exchange, bool wanted, bool resumeFlush)
    {
        if (!ReadsWhileExchanging || exchange.Body.IsPaused || IsHolding)
        {
            _readable |= wanted || IsHolding;
            if (_readable)
            {
                Note();
            }

            if (_finNoted && !exchange.IsUpgraded)
            {
                exchange.CancelHandler();   // the end came along with the request: no further event tells of it
            }
        }
        else if (wanted)
        {
            _readable = false;
            ReadAndFeed(driver, exchange);
        }

        bool caught = exchange.Body.Readers.TryTake(out Action<object?> action, out object? state);
        Release();
        return RunResumed(driver, exchange, caught ? action : null, state, resumeFlush);
    }

    private bool OnEventWhileExchanging(LoopDriver driver, Readiness ready)
    {
        Exchange exchange = Exchange!;
        bool resumeFlush = false;
        if ((ready & (Readiness.Write | Readiness.HangUp | Readiness.Error)) != 0)
        {
            if ((Interlocked.And(ref Word, ~WantsWritable) & WantsWritable) != 0)
            {
                resumeFlush = exchange.ContinueSending();
            }
            else
            {
                UnwatchWriting();
                if ((Volatile.Read(ref Word) & WantsWritable) != 0)
                {
                    WatchWriting();     // wanted just now
                }
            }
        }

        if ((ready & (Readiness.HangUp | Readiness.Error)) != 0)
        {
            exchange.Abort();
        }
        else if ((ready & Readiness.PeerFinished) != 0 && !exchange.IsUpgraded)
        {
            exchange.CancelHandler();
        }

        if ((ready & ~Readiness.Write) == 0)
        {
            Release();
            return RunResumed(driver, exchange, null, null, resumeFlush);
        }

        return ReadForExchange(driver, resumeFlush);
    }

    private bool ReadForExchange(LoopDriver driver, bool resumeFlush)
    {
        Exchange exchange = Exchange!;
        exchange.Body.Readers.BeginCatch();
        return ReadUnlessHolding(driver, exchange, wanted: true, resumeFlush);
    }

    private void ReadAndFeed(LoopDriver driver, Exchange exchange)
    {
        while (true)
        {
            byte[] input = driver.Input;
            int count = Loop.Kernel.Receive(Descriptor, input);
            if (count <= 0)
            {
                if (count != KernelResult.Again)
                {
                    OnPeerGone(exchange, finished: count == 0);
                }

                return;
            }

            Loop.Counters.BytesReceived += count;
            _bodyLastMs = _lastActiveMs = Loop.NowMs;
            ProcessWhileExchanging(driver, input, 0, count);
            bool room = exchange.Body.Flush(exchange.OnBodyDrained);
            if (!room || IsHolding || !ReadsWhileExchanging)
            {
                if (!room && _pausedSinceMs == 0)
                {
                    _pausedSinceMs = Loop.NowMs;
                }

                _readable |= count == input.Length || !room || IsHolding;
                if (_readable)
                {
                    Note();
                }

                return;
            }

            if (count < input.Length && !_finNoted)
            {
                return;
            }
        }
    }

    private void OnPeerGone(Exchange exchange, bool finished)
    {
        _peerFinished = true;
        Note();
        if (finished && exchange.IsUpgraded)
        {
            exchange.Body.Complete();
            return;
        }

        exchange.Body.Break(new ConnectionResetException("The peer closed the connection before the end of the request body."));
        if (finished)
        {
            exchange.CancelHandler();
        }
        else
        {
            exchange.Abort();
        }
    }

    /// <summary>Runs what waited for bytes or for room, as user code is always run on a loop: under the monitor's eyes.</summary>
    private bool RunResumed(LoopDriver driver, Exchange exchange, Action<object?>? action, object? state, bool resumeFlush)
    {
        if (action is null && !resumeFlush)
        {
            return true;
        }

        if (Loop.Dispatch.UsesWorkers)
        {
            if (action is not null)
            {
                Services.RunUserCode(action, state);
            }

            if (resumeFlush)
            {
                Services.RunUserCode(static x => ((Exchange)x!).ResumeFlush(), exchange);
            }

            return true;
        }

        long mark = Loop.Enter(null);
        try
        {
            if (resumeFlush)
            {
                exchange.ResumeFlush();
            }

            action?.Invoke(state);
        }
        catch (Exception error)
        {
            Services.Log.ContinuationFailed(error);
        }

        bool mine = Loop.Leave(mark);
        driver.RestoreContext();
        return mine;
    }

    // ---- time limits of an exchange ----

    private void BeginDeadlines(Exchange exchange)
    {
        _writeBlockedSinceMs = _pausedSinceMs = 0;
        long deadline = long.MaxValue;
        if (Options.RequestTimeout > TimeSpan.Zero)
        {
            deadline = Loop.NowMs + (long)Options.RequestTimeout.TotalMilliseconds;
        }

        if (exchange.Body.State == BodyState.Open)
        {
            _bodySinceMs = _bodyLastMs = Loop.NowMs;
            deadline = Math.Min(deadline, Loop.NowMs + 1_000);
        }

        DeadlineMs = deadline;
        if (deadline < WheelDueMs)
        {
            Loop.Arm(this);
        }
    }

    // Under touching. Answers when to look again.
    private long CheckExchange(long nowMs)
    {
        Exchange exchange = Exchange!;
        long next = long.MaxValue;
        if (Options.RequestTimeout > TimeSpan.Zero)
        {
            long due = exchange.StartedMs + (long)Options.RequestTimeout.TotalMilliseconds;
            if (nowMs >= due)
            {
                exchange.HasTimedOut = !exchange.IsCancelled;
                if (exchange.CancelHandler())
                {
                    Loop.Counters.Refused(Observe.Refusal.RequestTimeout);
                }
            }
            else
            {
                next = due;
            }
        }

        if (exchange.Body.State == BodyState.Open && !exchange.IsUpgraded)
        {
            next = Math.Min(next, nowMs + 1_000);
            if (!IsBodyExpected)
            {
                _bodySinceMs = _bodyLastMs = nowMs;
            }
            else if (!exchange.Body.IsPaused && IsBodyTooSlow(exchange, nowMs))
            {
                Loop.Counters.Refused(Observe.Refusal.BodyTooSlow);
                exchange.Body.Break(new BadHttpRequestException("The request body arrived too slowly.", StatusCodes.Status408RequestTimeout));
            }
        }

        if ((Volatile.Read(ref Word) & WantsWritable) != 0 && _writeBlockedSinceMs != 0)
        {
            long due = _writeBlockedSinceMs + (long)Options.SendTimeout.TotalMilliseconds;
            next = Math.Min(next, Math.Max(due, nowMs + 100));
            if (nowMs >= due)
            {
                Loop.Counters.Refused(Observe.Refusal.SendTimeout);
                exchange.Cut();
                exchange.Abort();
                Cut();
            }
        }

        return next;
    }

    private bool IsBodyTooSlow(Exchange exchange, long nowMs)
    {
        if (nowMs - _bodyLastMs > Options.BodyTimeout.TotalMilliseconds)
        {
            return true;
        }

        long elapsed = nowMs - _bodySinceMs;
        return Options.MinBodyBytesPerSecond > 0
            && elapsed > Options.MinBodyRateGrace.TotalMilliseconds
            && exchange.Body.Received * 1000 < Options.MinBodyBytesPerSecond * elapsed;
    }
}
