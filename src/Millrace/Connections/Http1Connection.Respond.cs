// The answers of an HTTP/1.1 connection: what it tells the framing of a response (Framing/Http1Framing.cs) and of its end, and the
// answers that no handler gives.

using Millrace.Exchanges;
using Millrace.Framing;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Protocols.Http1;

namespace Millrace.Connections;

internal sealed partial class Http1Connection<TKernel>
{
    private ServerLines Lines => ServerLines.At(Loop.NowMs, Options.AddServerHeader);

    // As KeepsOpen. On another thread than the loop's a body that ends just now may be taken for one that is open: then the response says that the connection ends, and it does.
    public override bool EndsBehind(Exchange exchange, out long nowMs)
    {
        nowMs = exchange.IsInline ? Loop.NowMs : Loop.Kernel.NowMs;
        return EndsSoon || !CanDrain(exchange);
    }

    protected override bool WriteLast(Exchange? exchange, OutputBuffer output, OutputBuffer last) => _frames.WriteLast(exchange, output, last);

    // ---- answers that no handler gives ----

    private void Refuse(LoopDriver driver, Http1Fault fault)
    {
        Loop.Counters.Refused(Refusal.Of(fault));
        SendRefusal(driver, Http1Faults.StatusOf(fault));
    }

    protected override void RefuseOverload(LoopDriver driver)
    {
        DropExchange(driver);
        SendRefusal(driver, 503);
    }

    // The last answer of this connection.
    private void SendRefusal(LoopDriver driver, int status)
    {
        DropPartial();
        Http1Framing.WriteRefusal(driver.Output, status, Lines);
        _sequence.Close();
        CloseWhenSent();
    }

    // The head did not come in time (RFC 9110 §15.5.9), or not the rest of a body that nobody wants and that is answered already.
    protected override void OnTimeoutMidRequest(long nowMs)
    {
        if (_sequence.IsBodyOpen && MayRestCome(nowMs))
        {
            return;
        }

        Loop.Counters.Refused(_sequence.IsBodyOpen ? Refusal.BodyTooSlow : Refusal.HeadTimeout);
        if (!_sequence.IsBodyOpen)
        {
            DropPartial();
            OutputBuffer output = Services.RentOutput();
            Http1Framing.WriteRefusal(output, 408, Lines);
            _ = SendBytes(output);      // a few bytes on an idle connection: the socket has room, or nobody listens
            Services.Return(output);
        }

        _sequence.Close();
        CloseWhenSent();
        FinishClosing();
    }

    // A request that will not be run.
    private void DropExchange(LoopDriver driver)
    {
        Exchange exchange = Exchange!;
        Exchange = null;
        if (exchange.Reset())
        {
            driver.Return(exchange);
        }
    }
}
