// Sending, for whoever owns the output of a connection at the moment: its loop, or the thread its exchange is on. See
// Connection.cs for the word that says who that is.

using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connections;

internal abstract partial class Connection<TKernel>
{
    public override SendResult SendOutput(Exchange? exchange, OutputBuffer output)
    {
        if (exchange is not null && _isBrokenOff)
        {
            output.Clear();
            return SendResult.Broken;
        }

        while (output.Length > 0)
        {
            int sent = Loop.Kernel.Send(Descriptor, output.Bytes.AsSpan(output.Start, output.Length), more: false);
            if (sent < 0)
            {
                if (sent == KernelResult.Again)
                {
                    return SendResult.Again;
                }

                exchange?.Life.Abort();
                output.Clear();
                return SendResult.Broken;
            }

            CountSent(exchange, sent);
            output.Start += sent;
        }

        output.Compact();
        return SendResult.Done;
    }

    /// <summary>Sends a buffer of the connection's own.</summary>
    protected SendResult SendBytes(OutputBuffer output)
    {
        while (output.Length > 0)
        {
            int sent = Loop.Kernel.Send(Descriptor, output.Bytes.AsSpan(output.Start, output.Length), more: false);
            if (sent < 0)
            {
                return sent == KernelResult.Again ? SendResult.Again : SendResult.Broken;
            }

            CountShared(sent);
            output.Start += sent;
        }

        return SendResult.Done;
    }

    public override SendResult SendAhead(OutputBuffer output)
    {
        if (_isBrokenOff)
        {
            return SendResult.Broken;
        }

        while (output.Length > 0)
        {
            int sent = Loop.Kernel.Send(Descriptor, output.Bytes.AsSpan(output.Start, output.Length), more: true);
            if (sent < 0)
            {
                return sent == KernelResult.Again ? SendResult.Again : SendResult.Broken;
            }

            CountShared(sent);
            output.Start += sent;
        }

        output.Compact();
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

            CountShared(sent);
            count -= sent;
        }

        return SendResult.Done;
    }

    public override void SendUpTo(Exchange exchange, OutputBuffer output, int end)
    {
        while (output.Start < end && !_isBrokenOff)
        {
            int sent = Loop.Kernel.Send(Descriptor, output.Bytes.AsSpan(output.Start, end - output.Start), more: false);
            if (sent < 0)
            {
                if (sent == KernelResult.Broken)
                {
                    exchange.Life.Abort();
                    output.Start = end;     // nobody gets them
                }

                return;
            }

            CountSent(exchange, sent);
            output.Start += sent;
        }
    }

    // ---- a peer that reads slowly ----

    private SendProgress _progress;      // since the socket took no more
    private bool _isStuck;               // ... nor has taken a byte since
    private PeerRates? _ownRates;        // of the request answered last, whose output the loop may still have

    private long SendTimeoutMs => (long)Options.SendTimeout.TotalMilliseconds;

    /// <summary>How fast the peer must be while the loop owns the connection.</summary>
    protected PeerRates Rates => _ownRates ?? (IsFastCgi ? Services.FastCgiRates : Services.HttpRates);

    /// <summary>The loop's output waits for the peer to read.</summary>
    private void BeginWaitingForPeer(long firstLookMs = SendProgress.LookMs)
    {
        long nowMs = Loop.Kernel.NowMs;      // the turn's time may be a blocking handler old
        BeginProgress(nowMs);
        SetDeadline(Math.Min(nowMs + firstLookMs, nowMs + SendTimeoutMs));
    }

    private void BeginProgress(long nowMs)
    {
        _progress.Begin(nowMs, Loop.Kernel.Unsent(Descriptor));
        _isStuck = true;
    }

    /// <summary>The name of the limit that the peer has gone beyond, or null.</summary>
    private string? LookAtPeer(long nowMs, MinRate? rate) =>
        _progress.Look(nowMs, Loop.Kernel.Unsent(Descriptor), SendTimeoutMs, rate) switch
        {
            PeerPace.Silent => Observe.Refusal.SendTimeout,
            PeerPace.TooSlow => Observe.Refusal.ResponseTooSlow,
            _ => null,
        };

    private void CountSent(Exchange? exchange, int sent)
    {
        if (exchange is null)
        {
            Loop.Counters.BytesSent += sent;
            _isStuck = false;
        }
        else
        {
            CountShared(sent);
        }
    }

    private void CountShared(int sent)
    {
        Interlocked.Add(ref Services.OffLoop.BytesSent, sent);
        _isStuck = false;
    }

    public sealed override void WantWritable(Exchange exchange)
    {
        long nowMs = Loop.Kernel.NowMs;
        if (!_isStuck)
        {
            BeginProgress(nowMs);   // otherwise more waits than before, and its peer has done nothing for it
        }

        _owner.WantWritable();        // before the deadline is looked at: the loop looks the other way round
        LookBy(_progress.NextLookMs(nowMs, SendTimeoutMs));
        WatchWriting();
    }

    // Whoever owns the output: the loop looks at the exchange then, if it has no reason to do so before.
    private void LookBy(long due)
    {
        if (due < DeadlineMs)
        {
            DeadlineMs = due;
            if (due < WheelDueMs)
            {
                PostSelf(PostReason.Deadline);
            }
        }
    }
}
