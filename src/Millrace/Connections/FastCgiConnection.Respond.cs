// A FastCGI connection, the sending half: STDOUT records built in place in the output, CGI response heads, END_REQUEST,
// and the records that answer the front server itself. FastCGI 1.0 §3.3, §5.5; RFC 3875 §6.
//
//   STDOUT record under construction:  ChunkStart: [8 bytes head][content ...]  closed: length patched in
//
// No padding: it is optional (§3.3), and nginx does not pass on a head that was flushed alone when padding follows it.

using System.Buffers.Binary;
using System.Text;
using Microsoft.AspNetCore.WebUtilities;
using Microsoft.Extensions.Primitives;
using Microsoft.Net.Http.Headers;
using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connections;

internal sealed partial class FastCgiConnection<TKernel>
{
    /// <summary>Content of a full STDOUT record: all it may hold, in multiples of 8.</summary>
    private const int RecordContentMax = 65_528;

    private const int ControlMax = 16 * 1024;

    private bool _stdoutBegun;
    private bool _brokenOff;         // nothing may follow in this connection but the sign of that
    private bool _midRecord;         // part of a record has left, the rest waits
    private OutputBuffer? _control;  // answers to management records that wait for a record boundary, or for room in the socket
    private OutputBuffer? _behind;   // END_REQUEST for requests that came under the id in progress

    public override int ChunkTailMax => 0;

    // ---- STDOUT ----

    public override void OpenChunk(Exchange exchange, OutputBuffer output)
    {
        if (output.ChunkStart < 0)
        {
            _ = output.Reserve(RecordHeader.Size);
            output.ChunkStart = output.End;
            output.End += RecordHeader.Size;
        }
    }

    public override int ChunkRoom(OutputBuffer output) =>
        Math.Max(0, RecordContentMax - (output.End - output.ChunkStart - RecordHeader.Size));

    public override void CloseChunk(Exchange exchange, OutputBuffer output)
    {
        int start = output.ChunkStart;
        output.ChunkStart = -1;
        int content = output.End - start - RecordHeader.Size;
        if (content == 0)
        {
            output.End = start;     // an empty STDOUT would end the stream
            return;
        }

        if (content > RecordHeader.ContentLengthMax)
        {
            Split(output, start, content);
            return;
        }

        RecordHeader.Write(output.Bytes.AsSpan(start), RecordType.Stdout, _sequence.Id, content, 0);
    }

    // More was written at once than a record holds: it is taken out and put back in pieces.
    private void Split(OutputBuffer output, int start, int content)
    {
        byte[] copy = output.Bytes.AsSpan(start + RecordHeader.Size, content).ToArray();
        output.End = start;
        for (int at = 0; at < content;)
        {
            int count = Math.Min(RecordContentMax, content - at);
            RecordHeader.Write(output.Reserve(RecordHeader.Size), RecordType.Stdout, _sequence.Id, count, 0);
            output.End += RecordHeader.Size;
            output.Append(copy.AsSpan(at, count));
            at += count;
        }
    }

    // ---- the head, RFC 3875 §6 ----

    public override void WriteHead(Exchange exchange, OutputBuffer output, long length)
    {
        if (exchange.IsAborted || exchange.IsUnanswered)
        {
            return;
        }

        // First, because some front ends stop reading where the announced length of the response is reached.
        WriteErrorLine(exchange, output);
        _stdoutBegun = true;
        OpenChunk(exchange, output);
        if (exchange.StatusCode == 200 && exchange.ReasonPhrase is null)
        {
            output.Append("Status: 200 OK\r\n"u8);
        }
        else
        {
            WriteStatus(exchange, output);
        }

        foreach (ref readonly KeyValuePair<string, StringValues> field in exchange.ResponseHeaders.Entries)
        {
            if (!IsOmitted(field.Key))
            {
                exchange.ResponseHeaders.Write(field, output);
            }
        }

        if (exchange.StatusCode == 205)
        {
            length = 0;     // RFC 9110 §15.3.6: said, or the web server would send an empty body in chunks
        }

        if (length >= 0 && exchange.StatusCode is not (204 or 101))
        {
            output.AppendContentLength(length);
        }

        output.Append("\r\n"u8);
    }

    private static void WriteStatus(Exchange exchange, OutputBuffer output)
    {
        output.Append("Status: "u8);
        output.AppendNumber(exchange.StatusCode);
        string reason = exchange.ReasonPhrase ?? ReasonPhrases.GetReasonPhrase(exchange.StatusCode);
        if (reason.Length > 0 && FieldText.IsValue(reason))
        {
            output.Append(" "u8);
            output.AppendText(reason);
        }

        output.Append("\r\n"u8);
    }

    // Hop-by-hop fields concern this connection, which is not HTTP (RFC 9110 §7.6.1); Status and Content-Length are ours to write.
    private static bool IsOmitted(string name) => name.Length switch
    {
        6 => Is(name, "Status"),
        7 => Is(name, HeaderNames.Upgrade) || Is(name, HeaderNames.Trailer),
        10 => Is(name, HeaderNames.Connection) || Is(name, HeaderNames.KeepAlive),
        14 => Is(name, HeaderNames.ContentLength),
        16 => Is(name, HeaderNames.ProxyConnection),
        17 => Is(name, HeaderNames.TransferEncoding),
        _ => false,
    };

    private static bool Is(string name, string known) => ReferenceEquals(name, known) || name.Equals(known, StringComparison.OrdinalIgnoreCase);

    // ---- the end, §5.5 ----

    public override void WriteEnd(Exchange exchange, OutputBuffer output)
    {
        if (exchange.FileBytesLeft == 0)
        {
            WriteErrorLine(exchange, output);
        }

        if (exchange.IsCut)
        {
            // No end: see Connection.Break.cs. What shows the break over a Unix socket is a record: that of a file that is not all sent is filled up first.
            int missing = IsTcp ? 0 : exchange.FileBytesLeft;
            bool hasBegun = output.IsEmpty;
            output.Reserve(missing)[..missing].Clear();
            output.End += missing;
            output.FrameStart = hasBegun ? output.End : output.FrameStart;      // what fills it up begins no record
            _brokenOff = true;
            return;
        }

        Span<byte> end = output.Reserve(3 * RecordHeader.Size);
        int at = 0;
        if (_stdoutBegun)
        {
            RecordHeader.Write(end, RecordType.Stdout, _sequence.Id, 0, 0);
            at = RecordHeader.Size;
        }

        RecordHeader.Write(end[at..], RecordType.EndRequest, _sequence.Id, EndRequest.Size, 0);
        new EndRequest(exchange.AppStatus, ProtocolStatus.RequestComplete).Write(end[(at + RecordHeader.Size)..]);
        output.End += at + RecordHeader.Size + EndRequest.Size;
    }

    // Once, as a whole stream: what an exception tells the front server's log.
    private void WriteErrorLine(Exchange exchange, OutputBuffer output)
    {
        if (exchange.ErrorLine is not { } line || exchange.IsAborted)
        {
            return;
        }

        exchange.ErrorLine = null;
        int length = Math.Min(line.Length, 1024);
        Span<byte> record = output.Reserve((2 * RecordHeader.Size) + length);
        RecordHeader.Write(record, RecordType.Stderr, _sequence.Id, length, 0);
        _ = Encoding.ASCII.GetBytes(line.AsSpan(0, length), record[RecordHeader.Size..]);
        RecordHeader.Write(record[(RecordHeader.Size + length)..], RecordType.Stderr, _sequence.Id, 0, 0);
        output.End += (2 * RecordHeader.Size) + length;
    }

    // Half an answer must not pass for a whole one. A mere end of the connection does for some front servers: nginx takes it as the
    // end of a response without a length, and waits on one with. A reset does for none of those that look at errors at all. Where
    // there is none, the head of a record of a version that does not exist is an error to the same ones. One byte of it would do for
    // all but HAProxy, which waits for the other seven.
    protected override ReadOnlySpan<byte> BrokenOff => "\0\0\0\0\0\0\0\0"u8;

    // The same head, at once. Behind the rest of a record of which the peer has a part: nginx takes an end within a record for the end of the response.
    protected override bool WriteLast(Exchange? exchange, OutputBuffer output, OutputBuffer last)
    {
        if (_control is { Start: > 0 } control)
        {
            last.Append(control.Bytes.AsSpan(control.Start, control.Length));
        }

        DropControl();
        int end = (int)Math.Max(output.ResponseStart, FrameEnd(output));
        int taken = Math.Min(end, output.End);
        last.Append(output.Bytes.AsSpan(output.Start, taken - output.Start));
        int missing = output.IsEmpty ? exchange?.FileBytesLeft ?? 0 : end - taken;
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
            last.Append(BrokenOff);
        }

        return isAll;
    }

    protected override int FrameEnd(OutputBuffer output)
    {
        while (output.FrameStart < output.Start)
        {
            ReadOnlySpan<byte> head = output.Bytes.AsSpan(output.FrameStart, RecordHeader.Size);
            output.FrameStart += RecordHeader.Size + BinaryPrimitives.ReadUInt16BigEndian(head[4..]) + head[6];
        }

        return output.FrameStart;
    }

    // ---- answers that no handler gives ----

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
        OutputBuffer output = driver.Output;
        _stdoutBegun = false;
        OpenChunk(null!, output);
        output.Append("Status: "u8);
        output.AppendNumber(status);
        output.Append(" "u8);
        output.AppendText(ReasonPhrases.GetReasonPhrase(status));
        output.Append("\r\nContent-Length: 0\r\n\r\n"u8);
        CloseChunk(null!, output);
        RecordHeader.Write(output.Reserve(RecordHeader.Size), RecordType.Stdout, id, 0, 0);
        output.End += RecordHeader.Size;
        SendEndRequest(driver, id, ProtocolStatus.RequestComplete);
        if (!_sequence.KeepsConnection)
        {
            CloseWhenSent();
        }
    }

    protected override void RefuseOverload(LoopDriver driver, Exchange exchange)
    {
        Exchange = exchange;
        EndUnrun(driver, ProtocolStatus.Overloaded);
    }

    private void SendEndRequest(LoopDriver driver, ushort id, ProtocolStatus status)
    {
        Span<byte> record = stackalloc byte[RecordHeader.Size + EndRequest.Size];
        RecordHeader.Write(record, RecordType.EndRequest, id, EndRequest.Size, 0);
        new EndRequest(0, status).Write(record[RecordHeader.Size..]);
        SendControl(driver, record, isOfItsId: id == _sequence.Id);
    }

    // While an exchange writes, a record of another kind may only go between two of its own, and the end of a request with its id
    // only behind its own end: at once when that has left before, or else when the loop has the connection again.
    private void SendControl(LoopDriver driver, ReadOnlySpan<byte> record, bool isOfItsId = false)
    {
        if (!_isTaken || (Stage == Stage.Queued && !isOfItsId))
        {
            driver.Output.Append(record);
            return;
        }

        using (Exchange!.Sending.Hold())
        {
            if (isOfItsId && !Exchange.IsEndSent)
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

            if (_control is { End: > ControlMax } || _behind is { End: > ControlMax })
            {
                Loop.Counters.Refused(Refusal.ControlFlood);
                Exchange.Cut();
                Exchange.Abort();
                BreakOff(Exchange, atOnce: true);
            }

            if (HasMoreToSend)
            {
                NoteInput();     // should the exchange have sent its last bytes, the loop sends these
            }
        }
    }

    public override void SendBesides(Exchange exchange)
    {
        if (_control is not null && !_midRecord && !exchange.IsSendingFile && SendControl() == SendResult.Again)
        {
            WantWritable(exchange);
        }
    }

    private SendResult SendControl()
    {
        if (_control is not { } control || IsBrokenOff || (_brokenOff && control.Start == 0))
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
        if (_control is null && _behind is not null && !_isTaken)
        {
            (_control, _behind) = (_behind, null);
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

    protected override bool HasMoreToSend => _control is not null || _behind is not null;

    // A record of which a part has left must be whole before another begins.
    private bool FinishControl() => _control is not { Start: > 0 } || SendControl() != SendResult.Again;

    public override SendResult SendOutput(Exchange? exchange, OutputBuffer output)
    {
        if (!FinishControl())
        {
            return SendResult.Again;
        }

        SendResult result = base.SendOutput(exchange, output);
        _midRecord = result == SendResult.Again && FrameEnd(output) > output.Start;
        return result == SendResult.Done && HasMoreToSend && exchange is not { IsSendingFile: true } ? SendBehind() : result;
    }

    public override SendResult SendAhead(OutputBuffer output) => FinishControl() ? base.SendAhead(output) : SendResult.Again;

    public override void SendUpTo(Exchange exchange, OutputBuffer output, int end)
    {
        if (FinishControl())
        {
            base.SendUpTo(exchange, output, end);
            _midRecord = FrameEnd(output) > output.Start;
        }
    }

    // ---- files ----

    public override int WriteFileChunkHead(Exchange exchange, OutputBuffer output, long count)
    {
        int part = (int)Math.Min(count, RecordContentMax);
        RecordHeader.Write(output.Reserve(RecordHeader.Size), RecordType.Stdout, _sequence.Id, part, 0);
        output.End += RecordHeader.Size;
        return part;
    }
}
