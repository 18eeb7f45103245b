// How a connection ends behind a response that failed after its first byte: nobody takes half a response for a whole one, and
// no byte that was sent is lost. The loop's side only. What each web server makes of which end is in docs/decisions/0018.
//
// A peer that meets the sign of the break together with the bytes before it may throw those away (Chromium, nginx), or, before it
// has begun to pass them on, take them for whole (lighttpd). So there is a moment before the sign, and as many more as the peer needs to take everything.

using System.Diagnostics;
using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Connections;

internal abstract partial class ClosingConnection<TKernel>
{
    private protected int _signSent;

    /// <summary>The connection is reset at once, with whatever has not reached the peer: the application has asked for that, or the peer has gone already. (A reset as the sign of a broken response comes
    /// behind what has been sent.)</summary>
    protected bool ResetsOnClose { get; set; }

    // All of the response is in the socket.
    private void BeginBreaking()
    {
        if (Stage != Stage.Lingering)
        {
            BeginLingering(keepsHeld: MayGoOn);
            BeginWaitingForPeer(BreakPauseMs);
        }
    }

    // ---- a peer that waits no longer for the response that failed ----

    /// <summary>The response that failed can be followed by another one, if its peer does not wait for it any more. As long as nothing shows that it failed.</summary>
    protected virtual bool MayGoOn => false;

    /// <summary>Looks at bytes that came behind a response that failed, or at what was known before.</summary>
    /// <returns>Whether the peer waits no longer, and has been told of the end: the bytes from <paramref name="start"/> on are to be processed. Otherwise they are for nobody.</returns>
    protected virtual bool GoesOn(LoopDriver driver, byte[] buffer, ref int start, int end) => false;

    /// <summary>Bytes behind the last answer of this connection are for nobody.</summary>
    private protected bool Discards(LoopDriver driver, byte[] buffer, ref int start, int end)
    {
        if (Stage != Stage.Lingering || GoesOn(driver, buffer, ref start, end))
        {
            return false;
        }

        Discard(end - start);
        return true;
    }

    /// <summary>Nothing is shown, and the connection does not end.</summary>
    protected void GoOn()
    {
        Debug.Assert(IsBreaking && _signSent == 0);
        GoTo(Ending.None);      // first: only while it is breaking is there a way back
        _sign = BreakSign.None;
        ResetDiscarded();
        GoTo(Stage.Receiving);
    }

    private void LookWhetherTaken(long nowMs)
    {
        string? refusal = LookAtPeer(nowMs, Rates.Response);
        if (_progress.IsTakenBut(_mayBeLost))
        {
            ShowBreak();
        }
        else if (refusal is null)
        {
            SetDeadline(nowMs + BreakPauseMs);
        }
        else
        {
            Loop.Counters.Refused(refusal);
            ShowBreakNow(reset: IsTcp);
        }
    }

    // A peer that has ended its own side and then resets the connection goes without an error that a read would tell of.
    private protected void CloseIfGone()
    {
        if (Loop.Kernel.Send(Descriptor, [], more: false) == KernelResult.Broken)
        {
            Close(reset: false);
        }
    }

    private void ShowBreak()
    {
        if (_sign == BreakSign.Reset)
        {
            Close(reset: true);
            return;
        }

        ReadOnlySpan<byte> sign = _sign == BreakSign.Bytes ? Framing.BrokenOff : [];
        bool hasRoom = IsTcp;
        while (_signSent < sign.Length)
        {
            int sent = Loop.Kernel.Send(Descriptor, sign[_signSent..], more: false);
            if (sent == KernelResult.Again && !hasRoom)
            {
                Loop.Kernel.MakeRoom(Descriptor);
                hasRoom = true;
                continue;
            }

            if (sent == KernelResult.Again)
            {
                SetDeadline(Loop.Kernel.NowMs + BreakPauseMs);
                return;
            }

            if (sent < 0)
            {
                Close(reset: false);
                return;
            }

            Loop.Counters.BytesSent += sent;
            _signSent += sent;
        }

        _sign = BreakSign.None;
        LingerOrClose();
    }

    // There is no time left, for this peer or for the server.
    private void ShowBreakNow(bool reset = false)
    {
        if (!reset)
        {
            ShowBreak();
        }

        Close(reset: IsBreaking);
    }

    // The exchange has ended: the loop goes on with what there is to send, and to wait for.
    private protected OutputBuffer? TakeLast()
    {
        ResetsOnClose = _isCut && !IsFastCgi;
        BreakWhenTaken(_isCut || !IsTcp || (IsFastCgi && _last is not null && !_followsAnswers) ? BreakSign.None : BreakSign.Reset);
        OutputBuffer? last = _last;
        _last = null;
        return last;
    }

    /// <summary>What is left to send in one buffer goes behind what is in another.</summary>
    private protected void Move(OutputBuffer from, OutputBuffer to)
    {
        _ = Framing.FrameEnd(from);
        to.AppendRest(from);
        Services.Return(from);
    }

    /// <summary>The loop owns the connection: there is no time left, for this peer or for the server.</summary>
    private void CloseAtOnce()
    {
        if (_pending is not { } pending)
        {
            ShowBreakNow();
            return;
        }

        if (!IsTcp)
        {
            if (_isBrokenOff)
            {
                (_last, _pending) = (pending, null);
            }
            else
            {
                _last = Services.RentOutput();
                if (WriteLast(null, pending, _last) && _sign == BreakSign.Bytes)
                {
                    _last.Append(Framing.BrokenOff);
                }
            }

            _ = SendLast();
        }

        Close(reset: true);
    }
}
