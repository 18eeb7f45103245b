// A FastCGI connection, the sending half: the records that answer the front server itself, and END_REQUEST for requests that are not run, go
// between the records of the response in progress, or behind its end. FastCGI 1.0 §3.3, §4, §5.5.

using Millrace.Exchanges;
using Millrace.Framing;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Platform;

namespace Millrace.Connections;

internal abstract class FastCgiSendingConnection<TKernel> : Connection<TKernel>
    where TKernel : struct, IKernel
{
    private const int ControlMax = 16 * 1024;

    private protected readonly FastCgiFraming _frames;
    private protected bool _isDispatched; // the request in progress has been dispatched: it runs, or waits for its turn (Stage.Queued). Where a connection is closed this is all that tells: its stage is Closed by then
    private bool _midRecord;         // part of a record has left, the rest waits
    private OutputBuffer? _control;  // answers to management records that wait for a record boundary, or for room in the socket
    private OutputBuffer? _behind;   // END_REQUEST for requests that came under the id in progress
    private OutputBuffer? _late;     // either, asked for while the kernel read a file for whoever sends: the loop's, and goes behind both

    protected FastCgiSendingConnection(EventLoop<TKernel> loop, int descriptor, bool isTcp, FastCgiFraming frames)
        : base(loop, descriptor, isTcp, frames) => _frames = frames;

    /// <summary>The request in progress has been given to its handler, and the loop has not taken note of its end yet.</summary>
    private protected bool IsRunning => _isDispatched && Stage != Stage.Queued;

    // The sign of the break (FastCgiFraming.BrokenOff), at once. Behind the rest of a record of which the peer has a part: nginx takes an end within a record for the end of the response.
    protected sealed override bool WriteLast(Exchange? exchange, OutputBuffer output, OutputBuffer last)
    {
        if (_control is { Start: > 0 } control)
        {
            last.Append(control.Bytes.AsSpan(control.Start, control.Length));
        }

        DropControl();
        int end = (int)Math.Max(output.ResponseStart, Framing.FrameEnd(output));
        int taken = Math.Min(end, output.End);
        last.Append(output.Bytes.AsSpan(output.Start, taken - output.Start));
        int missing = output.IsEmpty ? exchange?.File.BytesLeft ?? 0 : end - taken;
        if (missing > 0 && IsTcp)
        {
            last.Clear();       // a reset shows it as well
            return false;
        }

        if (missing > 0)
        {
            WriteFileRest(exchange!, last, missing);
        }

        bool isAll = exchange is null && taken == output.End;
        if (!isAll)
        {
            last.Append(Framing.BrokenOff);
        }

        return isAll;
    }

    // While an exchange writes, a record of another kind may only go between two of its own, and the end of a request with its id
    // only behind its own end: at once when that has left before, or else when the loop has the connection again.
    private protected void QueueControl(LoopDriver driver, ReadOnlySpan<byte> record, bool isOfItsId = false)
    {
        if (!_isDispatched || (Stage == Stage.Queued && !isOfItsId))
        {
            driver.Output.Append(record);
            return;
        }

        if (!Exchange!.Sending.TryHold(out SteadyLock.Holder held))
        {
            _late ??= Services.RentOutput();
            _late.Append(record);
            RefuseFlood(_late);
            NoteInput();
            return;
        }

        using (held)
        {
            if (isOfItsId && !Exchange.Sender.IsEndSent)
            {
                _behind ??= Services.RentOutput();
                _behind.Append(record);
            }
            else
            {
                _control ??= Services.RentOutput();
                _control.Append(record);
                SendBesides(Exchange);
            }

            RefuseFlood(_control);
            RefuseFlood(_behind);
            if (HasMoreToSend)
            {
                NoteInput();     // should the exchange have sent its last bytes, the loop sends these
            }
        }
    }

    private void RefuseFlood(OutputBuffer? records)
    {
        if (records is { End: > ControlMax })
        {
            Loop.Counters.Refused(Refusal.ControlFlood);
            BreakOffNow(Exchange!);
        }
    }

    public sealed override void SendBesides(Exchange exchange)
    {
        bool isBehind = _progress.IsStuck;      // what waits for the peer waits on, whatever it has taken of this
        if (_control is not null && !_midRecord && !exchange.File.IsUnderWay && (SendControl() == SendResult.Again || isBehind))
        {
            WantWritable(exchange);
        }
    }

    private SendResult SendControl()
    {
        if (_control is not { } control || IsBrokenOff || (_frames.IsBroken && control.Start == 0))
        {
            return SendResult.Done;     // nothing goes out behind a broken record
        }

        SendResult result = SendBytes(control);
        if (result != SendResult.Again)
        {
            control.Clear();
            Services.Return(control);
            _control = null;
        }

        return result;
    }

    // All of the output has left.
    private SendResult SendBehind()
    {
        SendResult result = SendControl();
        while (_control is null && !_isDispatched && (_behind ?? _late) is not null)
        {
            (_control, _behind, _late) = (_behind ?? _late, null, _behind is null ? null : _late);
            result = SendControl();
        }

        return result;
    }

    private void DropControl()
    {
        if (_control is { } control)
        {
            control.Clear();
            Services.Return(control);
            _control = null;
        }

        if (_behind is { } behind)
        {
            behind.Clear();
            Services.Return(behind);
            _behind = null;
        }
    }

    protected sealed override bool HasMoreToSend => _control is not null || _behind is not null || _late is not null;

    // A record of which a part has left must be whole before another begins.
    private bool FinishControl() => _control is not { Start: > 0 } || SendControl() != SendResult.Again;

    public sealed override SendResult SendOutput(Exchange? exchange, OutputBuffer output)
    {
        if (!FinishControl())
        {
            return SendResult.Again;
        }

        SendResult result = base.SendOutput(exchange, output);
        _midRecord = result == SendResult.Again && Framing.FrameEnd(output) > output.Start;
        return result == SendResult.Done && HasMoreToSend && exchange is not { File.IsUnderWay: true } ? SendBehind() : result;
    }

    public sealed override SendResult SendAhead(OutputBuffer output) => FinishControl() ? base.SendAhead(output) : SendResult.Again;

    public sealed override void SendUpTo(Exchange exchange, OutputBuffer output, int end)
    {
        if (FinishControl())
        {
            base.SendUpTo(exchange, output, end);
            _midRecord = Framing.FrameEnd(output) > output.Start;
        }
    }
}
