// How a connection's bytes come in: events, reading, time limits, closing. The loop's side only.

using Millrace.Exchanges;
using Millrace.Loops;

namespace Millrace.Connections;

internal abstract partial class Connection<TKernel> : Connection
    where TKernel : struct, IKernel
{
    private const long LingerMs = 2_000;

    private OutputBuffer? _pending;      // loop-owned output the socket did not take
    private byte[]? _held;               // received bytes that cannot be looked at yet
    private int _heldStart;
    private int _heldEnd;
    private bool _heldInPlace;           // they lie in the driver's input still: copied only if the request outlives its turn
    private int _watch;                  // Watched and Writing
    private bool _lingering;
    private bool _away;                  // the exchange outlived its turn; the loop has not taken note of its end yet
    private bool _closeWhenSent;
    private bool _readable;              // an edge came while nobody read
    private bool _peerFinished;
    private bool _finNoted;              // an event said that the peer has finished: read until the end shows
    private long _discarded;
    private long _lastActiveMs;

    protected Connection(EventLoop<TKernel> loop, int descriptor, bool isTcp)
        : base(descriptor)
    {
        Loop = loop;
        IsTcp = isTcp;
    }

    protected EventLoop<TKernel> Loop { get; }

    protected LoopServices Services => Loop.Services;

    protected MillraceOptions Options => Loop.Services.Options;

    protected bool IsTcp { get; }

    protected bool IsHolding => _held is not null;

    protected bool IsSending => _pending is not null;

    /// <summary>The exchange of the request in progress has outlived its turn.</summary>
    protected bool IsAway => _away;

    /// <summary>The response in progress was broken off: a peer that tells its end by the end of the connection must see a reset.</summary>
    protected bool ResetsOnClose { get; set; }

    /// <summary>The exchange of the request in progress; the loop's field.</summary>
    protected Exchange? Exchange { get; set; }

    // ---- what a protocol does with bytes ----

    /// <summary>Bytes in the order they came. False: the loop was taken over. What must wait is held with <see cref="Hold"/>.</summary>
    protected abstract bool Process(LoopDriver driver, byte[] buffer, int start, int end);

    /// <summary>Whether bytes are read while an exchange runs.</summary>
    protected abstract bool ReadsWhileExchanging { get; }

    /// <summary>Whether a request is in the middle of arriving.</summary>
    protected abstract bool IsMidRequest { get; }

    /// <summary>The exchange is over: what of the protocol's state belonged to it.</summary>
    protected abstract void OnExchangeEnded(bool keepsOpen);

    /// <summary>The time for the head, or for what follows a refused one, is over.</summary>
    protected abstract void OnHeadTimeout();

    // ---- events ----

    public sealed override bool OnAccepted(LoopDriver driver)
    {
        _lastActiveMs = Loop.NowMs;
        SetDeadline(Loop.NowMs + (long)Options.HeadTimeout.TotalMilliseconds);

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

    private const int Watched = 1;
    private const int Writing = 2;

    protected void EnsureWatched()
    {
        if ((Volatile.Read(ref _watch) & Watched) == 0)
        {
            Interlocked.Or(ref _watch, Watched);
            Register();
        }
    }

    public sealed override void Register()
    {
        bool writing = (Volatile.Read(ref _watch) & Writing) != 0;
        if (!IsClosed && Loop.Watch(this, writing) && !writing && (Volatile.Read(ref _watch) & Writing) != 0)
        {
            Loop.Rewatch(this, writing: true);   // asked for while it was being registered
        }
    }

    /// <summary>Any thread, while it owns what is to be sent.</summary>
    private void WatchWriting()
    {
        if ((Interlocked.Or(ref _watch, Writing) & Watched) != 0)
        {
            Loop.Rewatch(this, writing: true);
        }
    }

    // A writable edge that nobody waits for: the wait is over.
    private void UnwatchWriting()
    {
        if ((Interlocked.And(ref _watch, ~Writing) & Writing) != 0)
        {
            Loop.Rewatch(this, writing: false);
        }
    }

    public sealed override bool OnEvent(LoopDriver driver, Readiness ready)
    {
        _finNoted |= (ready & (Readiness.PeerFinished | Readiness.HangUp | Readiness.Error)) != 0;
        if (!IsLoops())
        {
            if (TryTouch())
            {
                return OnEventWhileExchanging(driver, ready);
            }

            if (!IsLoops())
            {
                _readable = true;    // given back and posted: everything is looked at then
                return true;
            }
        }

        Settle();
        if ((ready & (Readiness.Error | Readiness.HangUp)) != 0 && ((ready & Readiness.Read) == 0 || IsWaitingForGate))
        {
            Close(reset: false);
            return true;
        }

        if (_pending is null && (ready & Readiness.Write) != 0)
        {
            UnwatchWriting();
        }

        if (_pending is not null && (ready & (Readiness.Write | Readiness.HangUp | Readiness.Error)) != 0)
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

        if (_away)
        {
            return OnEvent(driver, ready & ~Readiness.Write);    // the sending made way for a request that goes on
        }

        if (_pending is not null || IsHolding || IsWaitingForGate)
        {
            _readable = true;
            return true;
        }

        return Receive(driver);
    }

    /// <summary>True when the word says that the loop owns the connection; bits that were only noted do not matter then.</summary>
    private bool IsLoops() => (Volatile.Read(ref Word) & Exchanging) == 0;

    /// <summary>The loop owns the connection: an exchange that gave it back by itself is taken note of.</summary>
    private void Settle()
    {
        Word = 0;
        if (_away)
        {
            _away = false;
            Exchange = null;
            OnExchangeEnded(keepsOpen: true);
            _lastActiveMs = Loop.NowMs;
        }
    }

    // ---- reading ----

    /// <summary>Reads and processes until there is nothing more, or something must wait.</summary>
    private protected bool Receive(LoopDriver driver)
    {
        while (true)
        {
            byte[] input = driver.Input;
            int count = Loop.Kernel.Receive(Descriptor, input);
            if (count > 0)
            {
                Loop.Counters.BytesReceived += count;
                _lastActiveMs = Loop.NowMs;
                _readable = count == input.Length || _finNoted;    // an edge that may have been consumed by this read
                if (!ProcessAll(driver, input, 0, count))
                {
                    return false;
                }

                if (IsClosed || _away)
                {
                    return true;
                }

                if (_pending is not null || IsHolding || IsWaitingForGate)
                {
                    _readable = true;
                    return true;
                }

                if (count < input.Length && !_finNoted)
                {
                    return true;     // a short read: the next bytes bring an edge of their own
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
        _peerFinished = true;
        if (_pending is not null)
        {
            CloseWhenSent();
            return;
        }

        if (IsMidRequest && !IsWaitingForGate && !IsClosing)
        {
            Loop.Counters.Refused(Observe.Refusal.EndedMidRequest);
        }

        Close(reset: false);
    }

    /// <summary>Processes bytes, then sends what that produced, then goes on with what was held meanwhile.</summary>
    private bool ProcessAll(LoopDriver driver, byte[] buffer, int start, int end)
    {
        if (_lingering)
        {
            Discard(end - start);
            return true;
        }

        if (!Process(driver, buffer, start, end))
        {
            return false;
        }

        while (true)
        {
            if (IsClosed)
            {
                driver.Output.Clear();   // the next connection's answers are built there
                return true;
            }

            if (_away)
            {
                return true;
            }

            SendDriverOutput(driver);
            if (_held is null || IsClosed || _pending is not null || _lingering || IsWaitingForGate)
            {
                return true;
            }

            (byte[] held, int from, int to) = (_held, _heldStart, _heldEnd);
            _held = null;
            bool mine = Process(driver, held, from, to);
            ReturnHeld(held, mine);
            if (!mine)
            {
                return false;
            }
        }
    }

    // A request whose head lies in these bytes may have outlived its turn: it reads them still, and nobody else may have them.
    private void ReturnHeld(byte[] held, bool mine)
    {
        if (mine && !_away && !IsWaitingForGate)
        {
            BufferPool.Return(held);
        }
    }

    /// <summary>Keeps bytes that cannot be processed before a request has ended or the peer has read its answers.</summary>
    protected void Hold(ReadOnlySpan<byte> bytes)
    {
        if (bytes.Length == 0)
        {
            return;
        }

        byte[] held = BufferPool.Rent(bytes.Length);
        bytes.CopyTo(held);
        _held = held;
        _heldStart = 0;
        _heldEnd = bytes.Length;
    }

    /// <summary>Keeps bytes behind a request that is about to run, where they are: in the driver's input.</summary>
    protected void HoldInPlace(byte[] input, int start, int end)
    {
        if (start < end)
        {
            _held = input;
            _heldStart = start;
            _heldEnd = end;
            _heldInPlace = true;
        }
    }

    /// <summary>Holds nothing any more: the request has ended in its turn, and whoever held the bytes behind it goes on with them.</summary>
    protected void Unhold()
    {
        if (_held is { } held)
        {
            _held = null;
            if (!_heldInPlace)
            {
                BufferPool.Return(held);
            }
        }

        _heldInPlace = false;
    }

    /// <summary>The driver's input goes with the exchange: what is held in it gets a buffer of its own.</summary>
    private void KeepHeld()
    {
        if (_heldInPlace)
        {
            ReadOnlySpan<byte> bytes = _held.AsSpan(_heldStart, _heldEnd - _heldStart);
            Hold(bytes);
            _heldInPlace = false;
        }
    }

    /// <summary>Counts bytes that nobody wants; false when there have been too many.</summary>
    protected bool CountDiscarded(int count)
    {
        _discarded += count;
        return _discarded <= Options.MaxDiscardBytes;
    }

    protected void ResetDiscarded() => _discarded = 0;

    // ---- sending what the loop owns ----

    /// <summary>Sends what is in the driver's output; what the socket does not take is kept, and reading pauses until it has left.</summary>
    private protected void SendDriverOutput(LoopDriver driver)
    {
        OutputBuffer output = driver.Output;
        if (!output.IsEmpty)
        {
            switch (SendOutput(null, output))
            {
                case SendResult.Broken:
                    output.Clear();
                    Close(reset: false);
                    return;
                case SendResult.Again:
                    _pending = driver.GiveOutputAway();
                    SetDeadline(Loop.NowMs + (long)Options.SendTimeout.TotalMilliseconds);
                    EnsureWatched();
                    WatchWriting();
                    return;
                default:
                    output.Clear();
                    break;
            }
        }

        if (_closeWhenSent && _pending is null)
        {
            FinishClosing();
        }
    }

    private bool SendPending(LoopDriver driver)
    {
        OutputBuffer output = _pending!;
        int before = output.Length;
        switch (SendOutput(null, output))
        {
            case SendResult.Again:
                if (output.Length < before)
                {
                    SetDeadline(Loop.NowMs + (long)Options.SendTimeout.TotalMilliseconds);
                }

                WatchWriting();
                return true;
            case SendResult.Broken:
                Close(reset: false);
                return true;
        }

        _pending = null;
        Services.Return(output);
        if (_closeWhenSent)
        {
            FinishClosing();
            return IsClosed || Receive(driver);     // lingering: the edge of what has come meanwhile is gone
        }

        SetIdleDeadline();
        return Continue(driver);
    }

    /// <summary>Goes on with what had to wait: held bytes first, then the socket.</summary>
    private bool Continue(LoopDriver driver)
    {
        if (IsClosed || _pending is not null || IsWaitingForGate)
        {
            return true;
        }

        if (_held is { } held)
        {
            (int from, int to) = (_heldStart, _heldEnd);
            _held = null;
            bool mine = ProcessAll(driver, held, from, to);
            ReturnHeld(held, mine);
            if (!mine)
            {
                return false;
            }

            if (IsClosed || _away || _pending is not null || IsHolding || IsWaitingForGate)
            {
                return true;
            }
        }

        if (_readable || _peerFinished)
        {
            _readable = false;
            return Receive(driver);
        }

        return true;
    }

    // ---- time ----

    protected void SetDeadline(long deadlineMs)
    {
        DeadlineMs = deadlineMs;
        if (deadlineMs < WheelDueMs)
        {
            Loop.Arm(this);
        }
    }

    protected void SetIdleDeadline() => SetDeadline(Loop.NowMs + (long)Options.IdleTimeout.TotalMilliseconds);

    public sealed override void OnDeadline(long nowMs)
    {
        if (IsClosed || nowMs < DeadlineMs)
        {
            return;
        }

        if (!IsLoops())
        {
            if (TryTouch())
            {
                DeadlineMs = CheckExchange(nowMs);
                Release();
            }
            else
            {
                DeadlineMs = nowMs + 1_000;
            }

            return;
        }

        Settle();
        if (nowMs < DeadlineMs)
        {
            return;
        }

        if (_pending is not null)
        {
            Loop.Counters.Refused(Observe.Refusal.SendTimeout);
            Close(reset: true);
        }
        else if (_lingering)
        {
            Close(reset: false);
        }
        else if (IsMidRequest)
        {
            OnHeadTimeout();
        }
        else
        {
            Close(reset: false);
        }
    }

    public sealed override void OnDrain(long nowMs, long begunMs, bool cut)
    {
        if (IsClosed)
        {
            return;
        }

        if (IsLoops())
        {
            Settle();
        }

        if (cut)
        {
            if (IsLoops())
            {
                Exchange?.CutInDrain(Loop.Counters);    // it has a whole head, and waits for its turn or for its body
                Close(reset: true);
            }
            else if (TryTouch())
            {
                Exchange?.CutInDrain(Loop.Counters);
                Release();
                Cut();
            }

            return;
        }

        // A front server may be sending its next request at this very moment, and turns to the connections that are left when
        // others close behind their answers: only one that has been quiet in the drain is closed without an answer.
        if (IsLoops() && _pending is null && !_lingering && !IsMidRequest && !IsWaitingForGate && nowMs - Math.Max(_lastActiveMs, begunMs) >= DrainQuietMs)
        {
            CloseWhenSent();
            FinishClosing();    // what of the last request is still on its way must not become a reset over its answer
        }
    }

    private const long DrainQuietMs = 250;

    // ---- closing ----

    public sealed override void EndByFault()
    {
        if (IsLoops())
        {
            Close(reset: true);
        }
        else
        {
            Cut();      // closed when its exchange gives it back
        }
    }

    public sealed override void Cut()
    {
        if (IsTcp && CutsByReset)
        {
            Loop.Kernel.Reset(Descriptor);
        }
        else
        {
            Loop.Kernel.Shutdown(Descriptor, both: true);
        }
    }

    /// <summary>Whether a peer could take an end in the middle of a response for the response's end: then it must see a reset.</summary>
    protected virtual bool CutsByReset => false;

    /// <summary>Closes once everything written has been sent. The peer's unread bytes are read first, so that no reset overtakes the answer.</summary>
    protected void CloseWhenSent() => _closeWhenSent = true;

    /// <summary>The last answer of this connection has been written.</summary>
    protected bool IsClosing => _closeWhenSent;

    /// <summary>Whether bytes may still arrive that would turn a close into a reset.</summary>
    protected abstract bool MayHaveMoreInput { get; }

    private protected void FinishClosing()
    {
        if (ResetsOnClose)
        {
            Close(reset: true);
            return;
        }

        if (_peerFinished || !(MayHaveMoreInput || IsHolding))
        {
            Close(reset: false);
            return;
        }

        if (!_lingering)
        {
            _lingering = true;
            ResetDiscarded();       // what was read of earlier bodies does not count against this one's answer
            Unhold();
            Loop.Kernel.Shutdown(Descriptor, both: false);
            EnsureWatched();
            SetDeadline(Loop.Kernel.NowMs + LingerMs);    // the turn's time may be a blocking handler old
        }
    }

    private void Discard(int count)
    {
        if (!CountDiscarded(count))
        {
            Loop.Counters.Refused(Observe.Refusal.DiscardLimit);
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

        IsClosed = true;
        DeadlineMs = long.MaxValue;
        Unhold();

        if (_pending is { } pending)
        {
            Services.Return(pending);
            _pending = null;
        }

        OnClosed();
        Loop.Remove(this, reset && IsTcp);
    }

    /// <summary>The protocol's own buffers go back.</summary>
    protected abstract void OnClosed();
}
