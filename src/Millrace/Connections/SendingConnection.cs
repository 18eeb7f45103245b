// The half of a connection that whoever owns its output uses, on any thread: its exchange, wherever its handler is, or its loop. It sends,
// waits for the peer to read, ends in the middle of a response (SendingConnection.BreakOff.cs), and comes back from an exchange that has
// outlived its turn (SendingConnection.Finish.cs). The loop's own half is ClosingConnection and Connection<TKernel>. See Ownership.cs for the word that says whose turn it is.

using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connections;

internal abstract partial class SendingConnection<TKernel> : Connection
    where TKernel : struct, IKernel
{
    private protected OwnershipWord _owner;
    private protected SendProgress _progress;       // since the socket took no more
    private protected PeerRates? _ownRates;         // of the request answered last, whose output the loop may still have
    private PostReasons _posted;
    private WatchWord _watch;

    protected SendingConnection(EventLoop<TKernel> loop, int descriptor, bool isTcp, ResponseFraming framing)
        : base(descriptor, framing)
    {
        Loop = loop;
        IsTcp = isTcp;
    }

    protected EventLoop<TKernel> Loop { get; }

    protected LoopServices Services => Loop.Services;

    protected MillraceOptions Options => Loop.Services.Options;

    public sealed override bool IsTcp { get; }

    public sealed override LoopSources Sources => Loop.Sources;

    protected abstract bool IsFastCgi { get; }

    // ---- what is noted for the loop ----

    /// <inheritdoc cref="OwnershipWord.NoteInput"/>
    private protected void NoteInput() => _owner.NoteInput();

    /// <inheritdoc cref="OwnershipWord.HasNotedInput"/>
    private protected bool HasNotedInput => _owner.HasNotedInput;

    protected void PostSelf(PostReason reason)
    {
        if (_posted.Add(reason))
        {
            Loop.Post(this);
        }
    }

    private protected PostReason TakePosted() => _posted.TakeAll();

    // Whoever owns the output: the loop looks at the exchange then, if it has no reason to do so before.
    private void LookBy(long due)
    {
        if (due < DeadlineMs)
        {
            DeadlineMs = due;
            Interlocked.MemoryBarrier();        // the loop takes it out of its slot and looks at the deadline: one of the two sees what the other has done
            if (due < WheelDueMs)
            {
                PostSelf(PostReason.Deadline);
            }
        }
    }

    /// <summary>The loop.</summary>
    protected void SetDeadline(long deadlineMs)
    {
        DeadlineMs = deadlineMs;
        if (deadlineMs < WheelDueMs)
        {
            Loop.Arm(this);
        }
    }

    /// <summary>From this moment on: the turn's time may be a blocking handler old.</summary>
    protected void SetDeadline(TimeSpan time) => SetDeadline(Loop.Kernel.NowMs + (long)time.TotalMilliseconds);

    // ---- what the event queue tells of ----

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
    private protected void WatchWriting()
    {
        if (_watch.BeginWriting())
        {
            Loop.Rewatch(this, writing: true);
        }
    }

    // A writable edge that nobody waits for: the wait is over.
    private protected void UnwatchWriting()
    {
        if (_watch.EndWriting())
        {
            Loop.Rewatch(this, writing: false);
        }
    }

    // ---- sending ----

    public override SendResult SendOutput(Exchange? exchange, OutputBuffer output)
    {
        if (exchange is not null && _isBrokenOff)
        {
            output.Clear();
            return SendResult.Broken;
        }

        EndReceivingBehindEnd(exchange, output);
        SendResult result = Send(output, int.MaxValue, more: false, isLoops: exchange is null);
        switch (result)
        {
            case SendResult.Done:
                output.Compact();
                break;
            case SendResult.Broken:
                exchange?.LosePeer();
                output.Clear();
                break;
        }

        return result;
    }

    /// <summary>Sends a buffer of the connection's own.</summary>
    protected SendResult SendBytes(OutputBuffer output) => Send(output, int.MaxValue, more: false, isLoops: false);

    public override SendResult SendAhead(OutputBuffer output)
    {
        SendResult result = _isBrokenOff ? SendResult.Broken : Send(output, int.MaxValue, more: true, isLoops: false);
        if (result == SendResult.Done)
        {
            output.Compact();
        }

        return result;
    }

    public override void SendUpTo(Exchange exchange, OutputBuffer output, int end)
    {
        EndReceivingBehindEnd(exchange, output);
        if (!_isBrokenOff && Send(output, end, more: false, isLoops: false) == SendResult.Broken)
        {
            exchange.LosePeer();
            output.Start = end;     // nobody gets them
        }
    }

    // What may be appended meanwhile is sent too, up to the end.
    private SendResult Send(OutputBuffer output, int end, bool more, bool isLoops)
    {
        for (int count; (count = Math.Min(end, output.End) - output.Start) > 0;)
        {
            int sent = Loop.Kernel.Send(Descriptor, output.Bytes.AsSpan(output.Start, count), more);
            if (sent < 0)
            {
                return sent == KernelResult.Again ? SendResult.Again : SendResult.Broken;
            }

            CountSent(isLoops, sent);
            output.Start += sent;
        }

        return SendResult.Done;
    }

    public sealed override SendResult SendFilePart(int file, ref long offset, ref int count)
    {
        while (count > 0)
        {
            if (_isBrokenOff)
            {
                return SendResult.Broken;
            }

            int sent = Loop.Kernel.SendFile(Descriptor, file, ref offset, count);
            if (sent <= 0)
            {
                return sent == KernelResult.Again ? SendResult.Again : sent == 0 ? SendResult.NoFile : SendResult.Broken;
            }

            CountSent(isLoops: false, sent);
            count -= sent;
        }

        return SendResult.Done;
    }

    private void CountSent(bool isLoops, int sent)
    {
        if (isLoops)
        {
            Loop.Counters.BytesSent += sent;
        }
        else
        {
            Interlocked.Add(ref Services.OffLoop.BytesSent, sent);
        }

        _progress.NoteSent();
    }

    public sealed override long NowMs => Loop.Kernel.NowMs;

    // ---- a peer that reads slowly ----

    private protected long SendTimeoutMs => (long)Options.SendTimeout.TotalMilliseconds;

    /// <summary>How fast the peer must be while the loop owns the connection.</summary>
    protected PeerRates Rates => _ownRates ?? (IsFastCgi ? Services.FastCgiRates : Services.HttpRates);

    /// <summary>True: the rest of the last request is still coming, and fast enough; the next one is behind it, and its deadline has been put off.</summary>
    private protected virtual bool KeepsForRest(long nowMs) => false;

    /// <summary>The loop's output waits for the peer to read.</summary>
    private protected void BeginWaitingForPeer(long firstLookMs = SendProgress.LookMs)
    {
        long nowMs = Loop.Kernel.NowMs;      // the turn's time may be a blocking handler old
        BeginProgress(nowMs);
        SetDeadline(Math.Min(nowMs + firstLookMs, nowMs + SendTimeoutMs));
    }

    private protected void BeginProgress(long nowMs)
    {
        _progress.Begin(nowMs, Loop.Kernel.Unsent(Descriptor));
    }

    /// <summary>The name of the limit that the peer has gone beyond, or null.</summary>
    private protected string? LookAtPeer(long nowMs, MinRate? rate) =>
        _progress.Look(nowMs, Loop.Kernel.NowMs, Loop.Kernel.Unsent(Descriptor), SendTimeoutMs, rate) switch
        {
            PeerPace.Silent => Observe.Refusal.SendTimeout,
            PeerPace.TooSlow => Observe.Refusal.ResponseTooSlow,
            _ => null,
        };

    public sealed override void WantWritable(Exchange exchange)
    {
        long nowMs = Loop.Kernel.NowMs;
        if (!_progress.IsStuck)
        {
            BeginProgress(nowMs);   // otherwise more waits than before, and its peer has done nothing for it
        }

        _owner.WantWritable();        // before the deadline is looked at: the loop looks the other way round
        LookBy(_progress.NextLookMs(nowMs, SendTimeoutMs));
        WatchWriting();
    }
}
