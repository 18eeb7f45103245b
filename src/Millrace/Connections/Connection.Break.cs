// How a connection ends behind a response that failed after its first byte: nobody takes half a response for a whole one, and
// no byte that was sent is lost. The loop's side only. What each web server makes of which end is in docs/decisions/0018.
//
// A peer that meets the sign of the break together with the bytes before it may throw those away (Chromium, nginx), or, before it
// has begun to pass them on, take them for whole (lighttpd). So the sign comes a moment after the peer has taken everything.

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

internal abstract partial class Connection<TKernel>
{
    /// <summary>At least so long the peer has time for what it was sent, before the sign. The deadline wheel makes up to 148 of it.</summary>
    private const long BreakPauseMs = 20;

    private BreakSign _sign;             // to be shown before the connection ends
    private int _signSent;

    /// <summary>The connection ends behind the response in progress, which is not whole. Whoever ends the exchange.</summary>
    protected void BreakWhenTaken(BreakSign sign) => _sign = sign;

    private bool IsBreaking => _sign != BreakSign.None;

    // All of the response is in the socket.
    private void BeginBreaking()
    {
        if (Stage != Stage.Lingering)
        {
            BeginLingering();
            BeginWaitingForPeer(BreakPauseMs);
        }
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
    private void CloseIfGone()
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
        EndSending();
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
}
