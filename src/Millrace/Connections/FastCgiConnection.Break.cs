// What follows a response. The next one; and behind one that failed, before anything shows that it did, a web server that has given it up by
// then, and goes on with the connection: HAProxy gives it to its next client when one goes away, and expects it to be there.
//
// MayGoOn is true of such a connection from the end of the exchange on, while the rest of the response is still being sent as well; bytes are looked at for it when all is sent and the connection lingers,
// with no sign shown. The request stays in progress for the sequence (Stdin or Whole), though its exchange has ended. It ends by GoesOn (Idle, or Params of the next request), or by the sign, and the connection
// with it. In a drain there is only the sign.

using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connections;

internal sealed partial class FastCgiConnection<TKernel>
{
    // Not in a drain: the connection is about to end.
    protected override bool MayGoOn =>
        IsBreaking && !IsBrokenOff && _signSent == 0 && _endsAtRecord && !Loop.IsDraining
        && HasHead && _sequence.KeepsConnection && !_sequence.ClosesBehind && !_sequence.IsLost;

    protected override void OnExchangeEnded(bool keepsOpen)
    {
        _isDispatched = false;
        if (!keepsOpen && MayGoOn)
        {
            return;         // it is not over before its peer has been told
        }

        EndInSequence(keepsOpen);
        if (_sequence.ClosesBehind)
        {
            CloseWhenSent();
        }
    }

    protected override bool GoesOn(LoopDriver driver, byte[] buffer, ref int start, int end)
    {
        if (!MayGoOn)
        {
            return false;
        }

        if (!_isGivenUp && !(_sequence.HasNext ? _sequence.HasNextInstead : ReadsGivingUp(buffer, ref start, end)))
        {
            return false;
        }

        GoOn();
        _query.Drop();      // the rest of one in pieces has been passed over
        _frames.WriteGivenUp(driver.Output);
        EndInSequence(keepsOpen: true);
        BeginIdling();
        return true;
    }

    private void EndInSequence(bool keepsOpen)
    {
        if (_sequence.End(keepsOpen))
        {
            BeginParams();
        }
        else if (_sequence.IsRestComing)
        {
            BeginRest();
        }
    }

    // Abort, or the next request of a web server that knows the connection to carry one at a time. Anything else does not count any more.
    private bool ReadsGivingUp(byte[] buffer, ref int start, int end)
    {
        for (int at = start; ;)
        {
            // Its end has not been told, and its exchange, which Progress asks, is gone.
            SequenceEvent its = _sequence.Read(buffer.AsSpan(at, end - at), ResponseProgress.Awaited, out int consumed, out _);
            at += consumed;
            switch (its)
            {
                case SequenceEvent.NeedMore or SequenceEvent.NextBegun:
                case SequenceEvent.Faulty or SequenceEvent.BeginFaulty or SequenceEvent.BegunTwice:     // there is nothing to go on with
                    return false;
                case SequenceEvent.Aborted or SequenceEvent.NextBegunInstead:
                    Loop.Counters.Aborts++;
                    start = at;
                    return true;
            }
        }
    }

    // The answer is whole, and the next request has begun: what is lacking of this one's body does not come any more.
    private void LeaveBody()
    {
        if (Exchange is { Body.State: BodyState.Open } exchange)
        {
            exchange.Body.Break(new IOException("The front server began its next request before the end of the request body (FastCGI 1.0 §5.3)."));
        }
    }
}
