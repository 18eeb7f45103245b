// How a connection ends at once, in the middle of a response: the peer does not read or reads too slowly, the drain time is over, the
// application aborts. Nobody takes what there is of the response for a whole one, and answers to earlier requests go before the end.
//
//   over TCP           a reset, when the peer has the answers to earlier requests; FastCGI shows what it shows over a Unix socket if there is room
//   a Unix socket      the rest of the record, or chunk head, that the peer has a part of, then the sign of the break, then the end
//
// A Unix socket that is full takes no byte of a send, so a response ends between two records or chunks more often than within one; and
// nginx takes an end within a record, H2O one within the head of a chunk, for the end of the response. What each web server makes of which
// end is in docs/decisions/0018. Who owns the connection does what is here: its exchange, within its send lock, or the loop.

using System.Diagnostics;
using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connections;

/// <summary>What tells the peer that the response is not whole.</summary>
internal enum BreakSign : byte
{
    /// <summary>There is nothing to tell.</summary>
    None,

    /// <summary>The end of the connection: the framing shows that bytes are missing. Or nothing can.</summary>
    End,

    /// <summary>Bytes after which the end of the connection is no end of a response.</summary>
    Bytes,

    /// <summary>A reset instead of an end. TCP only.</summary>
    Reset,
}

internal abstract partial class SendingConnection<TKernel>
{
    /// <summary>At least so long the peer has time for what it was sent, before the sign. The deadline wheel makes up to 148 of it.</summary>
    private protected const long BreakPauseMs = 20;

    private protected BreakSign _sign;      // to be shown before the connection ends
    private protected OutputBuffer? _last;            // what still leaves of a connection that is broken off; null: all of it has left
    private protected volatile bool _isBrokenOff;     // the exchange sends nothing any more
    private protected bool _isCut;                    // nothing goes in either direction
    private protected bool _followsAnswers;           // its peer's system may not have earlier answers
    private bool _awaitsPeer;               // it has been given time
    private protected long _mayBeLost;                // bytes of the response that is broken off: the peer need not have them before a reset

    /// <summary>
    /// Gathers what still leaves of <paramref name="output"/>: answers to earlier requests, or what makes the break visible behind what the peer
    /// has of the response in progress. Over TCP the protocol may leave that to a reset.
    /// </summary>
    /// <param name="exchange">The one whose response it is; null when its exchange has ended: the response is all there.</param>
    /// <param name="output">What has not been sent.</param>
    /// <param name="last">Where to put it.</param>
    /// <returns>Whether that is all there is, and the sign of the break can follow.</returns>
    protected abstract bool WriteLast(Exchange? exchange, OutputBuffer output, OutputBuffer last);

    /// <summary>The connection ends behind the response in progress, which is not whole. Whoever ends the exchange.</summary>
    protected void BreakWhenTaken(BreakSign sign)
    {
        Debug.Assert(sign != BreakSign.Reset || IsTcp);
        _sign = sign;
    }

    private protected bool IsBreaking => _sign != BreakSign.None;

    public sealed override void BreakOff(Exchange exchange, bool atOnce)
    {
        if (!_isBrokenOff)
        {
            if ((exchange.OutputIfAny ?? _rest) is not { } output)
            {
                return;     // all of its response is in the socket
            }

            long own = output.Start - output.ResponseStart;     // bytes of it that have left; of earlier answers, where that is negative
            _last = Services.RentOutput();
            _ = WriteLast(exchange, output, _last);
            _mayBeLost = Math.Max(0, own) + Math.Max(0, _last.Length + Math.Min(0, own));
            _followsAnswers = IsTcp && (own < 0 || Loop.Kernel.Unsent(Descriptor) > own);
            _isBrokenOff = true;
        }

        GoOnBreakingOff(exchange, atOnce);
    }

    public sealed override bool ContinueBreakingOff(Exchange exchange)
    {
        if (_isBrokenOff)
        {
            GoOnBreakingOff(exchange, atOnce: false);
        }

        return _isBrokenOff;
    }

    private void GoOnBreakingOff(Exchange exchange, bool atOnce)
    {
        if (_isCut)
        {
            return;
        }

        int before = _last?.Length ?? 0;
        bool showsReset = IsTcp && !(IsFastCgi && before > 0);
        bool hasLeft = SendLast() != SendResult.Again;
        if (!atOnce && (!hasLeft || (IsTcp && ((showsReset && before > 0) || Loop.Kernel.Unsent(Descriptor) > _mayBeLost))))
        {
            AwaitPeer(isWaiting: (_last?.Length ?? 0) == before && _awaitsPeer);
        }
        else
        {
            _isCut = true;
            ShutSocket(reset: IsTcp && (showsReset || !hasLeft));
        }
    }

    private void AwaitPeer(bool isWaiting)
    {
        long nowMs = Loop.Kernel.NowMs;
        if (!isWaiting)
        {
            BeginProgress(nowMs);
            _awaitsPeer = true;
        }

        _owner.WantWritable();
        LookBy(nowMs + BreakPauseMs);
        if (_last is not null)
        {
            WatchWriting();
        }
    }

    private protected SendResult SendLast()
    {
        if (_last is not { } last)
        {
            return SendResult.Done;
        }

        SendResult result = SendBytes(last);
        if (result == SendResult.Again && !IsTcp)
        {
            Loop.Kernel.MakeRoom(Descriptor);
            result = SendBytes(last);
        }

        if (result != SendResult.Again)
        {
            last.Clear();
            Services.Return(last);
            _last = null;
        }

        return result;
    }

    /// <summary>Nothing of the exchange in progress is sent any more.</summary>
    protected bool IsBrokenOff => _isBrokenOff;

    /// <summary>What of a file its record has announced and not got. Where the file has become shorter, something else: what it belongs to is broken off behind it.</summary>
    protected void WriteFileRest(Exchange exchange, OutputBuffer last, int count)
    {
        Span<byte> rest = last.Reserve(count)[..count];
        last.End += count;
        bool held = false;
        try
        {
            exchange.File.Handle?.DangerousAddRef(ref held);
            int read = 1;
            for (long at = exchange.File.Offset; held && read > 0 && rest.Length > 0; at += read)
            {
                read = Loop.Kernel.ReadFile((int)exchange.File.Handle!.DangerousGetHandle(), at, rest);
                rest = rest[Math.Max(0, read)..];
            }
        }
        catch (ObjectDisposedException)
        {
            // Its handler has closed it under the server's hands.
        }
        finally
        {
            if (held)
            {
                exchange.File.Handle!.DangerousRelease();
            }
        }

        rest.Clear();
    }

    /// <summary>The peer, or the server, has no use for the response in progress any more. The loop, which keeps the exchange from ending.</summary>
    protected void BreakOffNow(Exchange exchange)
    {
        if (!exchange.Sending.TryHold(out SteadyLock.Holder held))
        {
            exchange.MarkBroken();
            exchange.LosePeer();
            ShutSocket(reset: IsTcp);      // whoever sends the file finds that, and breaks off
            return;
        }

        using (held)
        {
            exchange.LosePeer();
            if (exchange.Sender.IsEndSent)
            {
                EndBehindAnswer();
                return;
            }

            exchange.MarkBroken();
            BreakOff(exchange, atOnce: true);
        }
    }

    protected void Cut()
    {
        _isCut = true;
        ShutSocket(reset: IsTcp);
    }

    /// <summary>All of the response is in the socket, and nothing follows it: the peer gets it, and then the end.</summary>
    private protected void EndBehindAnswer() => ShutSocket(reset: false);

    private void ShutSocket(bool reset)
    {
        if (reset)
        {
            Loop.Kernel.Reset(Descriptor);
        }
        else
        {
            Loop.Kernel.Shutdown(Descriptor, both: true);
        }
    }
}
