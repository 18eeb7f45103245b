// How a connection's bytes come in, and leave while the loop owns them: events, reading, holding. The loop's side only. Its end
// is in Connection.End.cs.

using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connections;

internal abstract partial class Connection<TKernel>
{
    private const int ReadsPerTurn = 2;     // full ones: a peer that sends without end does not keep the loop to itself

    /// <summary>Of those that come one behind the other; then the loop's other connections have their turn.</summary>
    protected const int RequestsPerTurn = 128;

    private OwnershipWord _owner;
    private PostReasons _posted;
    private OutputBuffer? _pending;      // Sending: what the socket did not take
    private byte[]? _held;               // received bytes that cannot be looked at yet
    private int _heldStart;
    private int _heldEnd;
    private bool _heldInPlace;           // they lie in the driver's input still: copied only if the request outlives its turn
    private WatchWord _watch;
    private bool _readable;              // an edge came while nobody read
    private bool _yields;                // held bytes wait for the other connections of the loop
    private bool _peerFinished;
    private bool _finNoted;              // an event said that the peer has finished: read until the end shows
    private volatile bool _receivingEnded;      // by this side (EndReceiving): the end that shows is no sign of the peer's
    private long _discarded;
    private long _lastActiveMs;

    protected bool IsHolding => _held is not null;

    // The end of what the peer has sent shows behind bytes that fill no buffer, and brings no edge of its own.
    private bool IsEndNear => _finNoted || _receivingEnded;

    /// <summary>Nothing has to be waited for before the next bytes are read.</summary>
    private bool MayReadOn => Stage is Stage.Receiving or Stage.Lingering && !IsHolding;

    /// <summary>The connection is reset at once, with whatever has not reached the peer: the application has asked for that.</summary>
    protected bool ResetsOnClose { get; set; }

    /// <summary>The exchange of the request in progress; the loop's field.</summary>
    protected internal Exchange? Exchange { get; set; }

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
    protected abstract void OnTimeoutMidRequest(long nowMs);

    /// <summary>A request has been answered, and is not all there, or the next one has begun to arrive: the time for what is missing begins.</summary>
    protected virtual void BeginTimeMidRequest() => SetDeadline(Options.HeadTimeout);

    // ---- events ----

    public sealed override bool OnAccepted(LoopDriver driver)
    {
        _lastActiveMs = Loop.NowMs;
        SetDeadline(Options.HeadTimeout);

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

    protected void EnsureWatched()
    {
        if (_watch.Begin())
        {
            Register();
        }
    }

    public sealed override void Register()
    {
        bool writing = _watch.IsWriting;
        if (!IsClosed && Loop.Watch(this, writing) && !writing && _watch.IsWriting)
        {
            Loop.Rewatch(this, writing: true);   // asked for while it was being registered
        }
    }

    /// <summary>Any thread, while it owns what is to be sent.</summary>
    private void WatchWriting()
    {
        if (_watch.BeginWriting())
        {
            Loop.Rewatch(this, writing: true);
        }
    }

    // A writable edge that nobody waits for: the wait is over.
    private void UnwatchWriting()
    {
        if (_watch.EndWriting())
        {
            Loop.Rewatch(this, writing: false);
        }
    }

    public sealed override bool OnEvent(LoopDriver driver, Readiness ready)
    {
        if (_receivingEnded)
        {
            ready &= ~Readiness.PeerFinished;       // one that has gone shows as HangUp
        }

        _finNoted |= (ready & (Readiness.PeerFinished | Readiness.HangUp | Readiness.Error)) != 0;
        if (!_owner.IsLoops)
        {
            if (_owner.TryPin())
            {
                return OnEventWhileExchanging(driver, ready);
            }

            if (!_owner.IsLoops)
            {
                _readable = true;    // given back and posted: everything is looked at then
                return true;
            }
        }

        Settle();
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
            case Stage.Queued when _finNoted:
                _readable = true;
                PostSelf(PostReason.LeftQueue);
                return true;
            case Stage.Queued:
                _readable = true;
                return LookWhileWaiting(driver);
            default:
                if (MayReadOn)
                {
                    return Receive(driver);
                }

                _readable = true;
                return true;
        }
    }

    /// <summary>The loop owns the connection: an exchange that gave it back by itself is taken note of.</summary>
    private void Settle()
    {
        _owner.TakeBack();
        if (Stage == Stage.Away)
        {
            Enter(Stage.Receiving);
            Exchange = null;
            OnExchangeEnded(keepsOpen: true);
            _lastActiveMs = Loop.NowMs;
        }
    }

    // ---- reading ----

    /// <summary>Reads and processes until there is nothing more, or something must wait.</summary>
    private protected bool Receive(LoopDriver driver)
    {
        for (int reads = 1; ; reads++)
        {
            byte[] input = driver.Input;
            int count = Loop.Kernel.Receive(Descriptor, input);
            if (count > 0)
            {
                Loop.Counters.BytesReceived += count;
                _lastActiveMs = Loop.NowMs;
                _readable = count == input.Length || IsEndNear;    // an edge that may have been consumed by this read
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

                if (count < input.Length && !IsEndNear)
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
        _peerFinished = true;
        if (Stage == Stage.Sending)
        {
            CloseWhenSent();
            return;
        }

        if (IsBreaking)
        {
            CloseIfGone();      // it may still read, and has not been told
            return;
        }

        if (IsMidRequest && Stage != Stage.Queued && !IsClosing && !_receivingEnded)
        {
            Loop.Counters.Refused(Observe.Refusal.EndedMidRequest);
        }

        Close(reset: false);
    }

    /// <summary>Processes bytes, then sends what that produced, then goes on with what was held meanwhile.</summary>
    private bool ProcessAll(LoopDriver driver, byte[] buffer, int start, int end)
    {
        if (Stage == Stage.Lingering)
        {
            Discard(end - start);
            return true;
        }

        if (!Process(driver, buffer, start, end))
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
            if (_held is null || Stage != Stage.Receiving || _yields)
            {
                return true;
            }

            if (requests == RequestsPerTurn)
            {
                _yields = true;
                PostSelf(PostReason.Continue);
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
        if (mine && Stage is not (Stage.Away or Stage.Queued))
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

    /// <summary>Keeps bytes for which it is not this connection's turn any more: others go first.</summary>
    protected void Yield(ReadOnlySpan<byte> bytes)
    {
        Hold(bytes);
        _yields = true;
        PostSelf(PostReason.Continue);
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

    /// <summary>Bytes counted since the request.</summary>
    protected long Discarded => _discarded;

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
                    Enter(Stage.Sending);
                    BeginWaitingForPeer();
                    EnsureWatched();
                    WatchWriting();
                    return;
                default:
                    output.Clear();
                    break;
            }
        }

        if (_closeWhenSent && Stage != Stage.Sending)
        {
            FinishClosing();
        }
    }

    private bool SendPending(LoopDriver driver)
    {
        OutputBuffer output = _pending!;
        switch (SendOutput(null, output))
        {
            case SendResult.Again:
                if (!_isStuck)
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
        Enter(Stage.Receiving);
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
        if (Stage is Stage.Closed or Stage.Sending)
        {
            return true;
        }

        if (Stage == Stage.Queued)
        {
            return LookWhileWaiting(driver);
        }

        _yields = false;
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

            if (!MayReadOn)
            {
                return true;
            }
        }

        if (_readable || _peerFinished || _receivingEnded)
        {
            _readable = false;
            return Receive(driver);
        }

        return true;
    }
}
