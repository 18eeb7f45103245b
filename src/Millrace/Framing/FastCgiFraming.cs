// How a response looks in FastCGI: STDOUT records built in place in the output, CGI response heads, END_REQUEST, and the answers
// that no handler gives. FastCGI 1.0 §3.3, §5.5; RFC 3875 §6.
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
using Millrace.Protocols.FastCgi;

namespace Millrace.Framing;

/// <param name="isTcp">Whether a reset can show that a response is not whole.</param>
internal sealed class FastCgiFraming(bool isTcp) : ResponseFraming(chunkTailMax: 0)
{
    /// <summary>Content of a full STDOUT record: all it may hold, in multiples of 8.</summary>
    private const int RecordContentMax = 65_528;

    private ushort _id;
    private bool _stdoutBegun;

    /// <summary>The response is not whole: nothing may follow in this connection but the sign of that.</summary>
    public bool IsBroken { get; private set; }

    /// <summary>A request begins. Before its handler runs, or its refusal is written.</summary>
    public void Begin(ushort id)
    {
        _id = id;
        _stdoutBegun = false;
    }

    // ---- STDOUT ----

    public override void OpenChunk(OutputBuffer output)
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

    public override void CloseChunk(OutputBuffer output)
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

        RecordHeader.Write(output.Bytes.AsSpan(start), RecordType.Stdout, _id, content, 0);
    }

    // More was written at once than a record holds: it is taken out and put back in pieces.
    private void Split(OutputBuffer output, int start, int content)
    {
        byte[] copy = output.Bytes.AsSpan(start + RecordHeader.Size, content).ToArray();
        output.End = start;
        for (int at = 0; at < content;)
        {
            int count = Math.Min(RecordContentMax, content - at);
            RecordHeader.Write(output.Reserve(RecordHeader.Size), RecordType.Stdout, _id, count, 0);
            output.End += RecordHeader.Size;
            output.Append(copy.AsSpan(at, count));
            at += count;
        }
    }

    // ---- the head, RFC 3875 §6 ----

    public override void WriteHead(Exchange exchange, OutputBuffer output, long length)
    {
        if (exchange.Life.IsUnwanted || exchange.IsUnanswered)
        {
            return;
        }

        // First, because some front ends stop reading where the announced length of the response is reached.
        WriteErrorLine(exchange, output);
        _stdoutBegun = true;
        OpenChunk(output);
        ReadOnlySpan<KeyValuePair<string, StringValues>> fields = exchange.Answer.Headers.Entries;
        KeyValuePair<string, StringValues> location = LocationOf(fields);
        if (location.Key is not null)
        {
            // Ahead of Status: HAProxy takes a Location behind it for a status of its own, 302, whatever it was.
            exchange.Answer.Headers.Write(location, output);
        }

        if (exchange.Answer.StatusCode == 200 && exchange.Answer.ReasonPhrase is null)
        {
            output.Append("Status: 200 OK\r\n"u8);
        }
        else
        {
            WriteStatus(exchange, output);
        }

        for (int i = 0; i < fields.Length; i++)
        {
            KeyValuePair<string, StringValues> field = fields[i];      // a copy: what is judged is what is written, whatever another thread makes of the table
            if ((location.Key is null || !IsLocation(field.Key)) && !IsOmitted(field.Key))
            {
                exchange.Answer.Headers.Write(field, output);
            }
        }

        if (exchange.Answer.StatusCode == 205)
        {
            length = 0;     // RFC 9110 §15.3.6: said, or the web server would send an empty body in chunks
        }

        if (length >= 0 && exchange.Answer.StatusCode is not (204 or 101))
        {
            output.AppendContentLength(length);
        }

        output.Append("\r\n"u8);
    }

    // A copy, as of the others; without a key where there is none.
    private static KeyValuePair<string, StringValues> LocationOf(ReadOnlySpan<KeyValuePair<string, StringValues>> fields)
    {
        for (int i = 0; i < fields.Length; i++)
        {
            KeyValuePair<string, StringValues> field = fields[i];
            if (IsLocation(field.Key))
            {
                return field;
            }
        }

        return default;
    }

    private static bool IsLocation(string? name) => name is not null && name.Length == HeaderNames.Location.Length && Is(name, HeaderNames.Location);

    private static void WriteStatus(Exchange exchange, OutputBuffer output)
    {
        output.Append("Status: "u8);
        output.AppendNumber(exchange.Answer.StatusCode);
        string reason = exchange.Answer.ReasonPhrase ?? ReasonPhrases.GetReasonPhrase(exchange.Answer.StatusCode);
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
        7 when Is(name, HeaderNames.Upgrade) => true,
        _ => IsOfConnection(name),
    };

    // ---- the end, §5.5 ----

    public override void WriteEnd(Exchange exchange, OutputBuffer output)
    {
        if (exchange.File.BytesLeft == 0)
        {
            WriteErrorLine(exchange, output);
        }

        if (exchange.IsBroken)
        {
            // No end: see ClosingConnection.Break.cs. What shows the break over a Unix socket is a record: that of a file that is not all sent is filled up first.
            int missing = isTcp ? 0 : exchange.File.BytesLeft;
            bool hasBegun = output.IsEmpty;
            output.Reserve(missing)[..missing].Clear();
            output.End += missing;
            output.FrameStart = hasBegun ? output.End : output.FrameStart;      // what fills it up begins no record
            IsBroken = true;
            return;
        }

        WriteEndRecords(output, exchange.AppStatus);
    }

    /// <summary>The end of a response that failed, for a peer that waits no longer for it: another one may follow.</summary>
    public void WriteGivenUp(OutputBuffer output)
    {
        IsBroken = false;
        WriteEndRecords(output, appStatus: 1);
    }

    private void WriteEndRecords(OutputBuffer output, uint appStatus)
    {
        Span<byte> end = output.Reserve(3 * RecordHeader.Size);
        int at = 0;
        if (_stdoutBegun)
        {
            RecordHeader.Write(end, RecordType.Stdout, _id, 0, 0);
            at = RecordHeader.Size;
        }

        RecordHeader.Write(end[at..], RecordType.EndRequest, _id, EndRequest.Size, 0);
        new EndRequest(appStatus, ProtocolStatus.RequestComplete).Write(end[(at + RecordHeader.Size)..]);
        output.End += at + RecordHeader.Size + EndRequest.Size;
    }

    // Once, as a whole stream: what an exception tells the front server's log.
    private void WriteErrorLine(Exchange exchange, OutputBuffer output)
    {
        if (exchange.ErrorLine is not { } line || exchange.Life.IsUnwanted)
        {
            return;
        }

        exchange.ErrorLine = null;
        int length = Math.Min(line.Length, 1024);
        Span<byte> record = output.Reserve((2 * RecordHeader.Size) + length);
        RecordHeader.Write(record, RecordType.Stderr, _id, length, 0);
        _ = Encoding.ASCII.GetBytes(line.AsSpan(0, length), record[RecordHeader.Size..]);
        RecordHeader.Write(record[(RecordHeader.Size + length)..], RecordType.Stderr, _id, 0, 0);
        output.End += (2 * RecordHeader.Size) + length;
    }

    // ---- files ----

    public override int WriteFileChunkHead(OutputBuffer output, long count)
    {
        int part = (int)Math.Min(count, RecordContentMax);
        RecordHeader.Write(output.Reserve(RecordHeader.Size), RecordType.Stdout, _id, part, 0);
        output.End += RecordHeader.Size;
        return part;
    }

    // Half an answer must not pass for a whole one. A mere end of the connection does for some front servers: nginx takes it as the
    // end of a response without a length, and waits on one with. A reset does for none of those that look at errors at all. Where
    // there is none, the head of a record of a version that does not exist is an error to the same ones. One byte of it would do for
    // all but HAProxy, which waits for the other seven.
    public override ReadOnlySpan<byte> BrokenOff => "\0\0\0\0\0\0\0\0"u8;

    public override int FrameEnd(OutputBuffer output)
    {
        while (output.FrameStart < output.Start)
        {
            ReadOnlySpan<byte> head = output.Bytes.AsSpan(output.FrameStart, RecordHeader.Size);
            output.FrameStart += RecordHeader.Size + BinaryPrimitives.ReadUInt16BigEndian(head[4..]) + head[6];
        }

        return output.FrameStart;
    }

    // ---- answers that no handler gives ----

    /// <summary>An ordinary response with a status and no body. The end of the request follows.</summary>
    public void WriteRefusal(OutputBuffer output, int status)
    {
        OpenChunk(output);
        output.Append("Status: "u8);
        output.AppendNumber(status);
        output.Append(" "u8);
        output.AppendText(ReasonPhrases.GetReasonPhrase(status));
        output.Append("\r\nContent-Length: 0\r\n\r\n"u8);
        CloseChunk(output);
        RecordHeader.Write(output.Reserve(RecordHeader.Size), RecordType.Stdout, _id, 0, 0);
        output.End += RecordHeader.Size;
    }
}
