// A FastCGI request that waits for its turn: its front server may give it up, by ABORT_REQUEST (FastCGI 1.0 §5.4) or by the next
// request, and may ask what is none of the request's business. It may also have done so before the request is read.

using System.Diagnostics;
using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connections;

internal sealed partial class FastCgiConnection<TKernel>
{
    protected override bool ReadsWhileWaiting => !_sequence.HasNext;

    protected override bool ProcessWhileWaiting(LoopDriver driver, byte[] buffer, int start, int end)
    {
        Debug.Assert(_isDispatched && !IsRunning);
        Exchange exchange = Exchange!;
        while (start < end && !IsClosed && !_sequence.HasNext && !exchange.Life.IsGivenUp && Take(driver, buffer, ref start, end))
        {
        }

        if (IsClosed)
        {
            return false;
        }

        if (start < end)
        {
            Hold(buffer.AsSpan(start, end - start));
        }

        _ = exchange.Body.Flush(exchange.OnBodyRoom);
        return exchange.Life.IsGivenUp;
    }

    protected override void EndGivenUp(LoopDriver driver) => EndUnrun(driver, ProtocolStatus.RequestComplete);

    // Clients that leave at once leave a chain of requests behind, which are read when the handler of the first one has ended: of those in one read none but the last is run.
    private void TakeNextInstead(LoopDriver driver)
    {
        if (_isDispatched)
        {
            NoteInput();
            GiveUpDispatched("The front server has given the request up for another one.");
            return;
        }

        EndUnrun(driver, ProtocolStatus.RequestComplete);
        _ = _sequence.End(keepsOpen: true);
        BeginParams();
    }
}
