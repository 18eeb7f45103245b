// The answers of a FastCGI connection that no handler gives: what it adds to those of its requests (Framing/FastCgiFraming.cs). FastCGI 1.0 §3.3, §4, §5.5.

using Millrace.Loops;
using Millrace.Observe;
using Millrace.Platform;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connections;

internal sealed partial class FastCgiConnection<TKernel>
{
    // The head cannot be served: an ordinary response with a status, and whatever else of the request comes is skipped.
    private void Refuse(LoopDriver driver, CgiFault fault)
    {
        Loop.Counters.Refused(Refusal.Of(fault));
        if (fault == CgiFault.PathDisagrees)
        {
            Services.Log.PathDisagrees();
        }

        int status = fault.StatusCode();
        DropRequest(driver);
        ushort id = _sequence.Id;
        _frames.Begin(id);
        _frames.WriteRefusal(driver.Output, status);
        SendEndRequest(driver, id, ProtocolStatus.RequestComplete);
        if (!_sequence.KeepsConnection)
        {
            CloseWhenSent();
        }
    }

    protected override void RefuseOverload(LoopDriver driver) => EndUnrun(driver, ProtocolStatus.Overloaded);

    private void SendEndRequest(LoopDriver driver, ushort id, ProtocolStatus status)
    {
        Span<byte> record = stackalloc byte[RecordHeader.Size + EndRequest.Size];
        RecordHeader.Write(record, RecordType.EndRequest, id, EndRequest.Size, 0);
        new EndRequest(0, status).Write(record[RecordHeader.Size..]);
        QueueControl(driver, record, isOfItsId: id == _sequence.Id);
    }
}
