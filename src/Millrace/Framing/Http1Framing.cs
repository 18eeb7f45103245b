// How a response looks in HTTP/1.1: status line and fields (RFC 9112 §4, RFC 9110 §6.6, §7.6.1), the framing of the body
// (RFC 9112 §6.3, §7.1), and the answers that no handler gives. Built in place in the output.
//
//   chunk under construction:  ChunkStart: [4 digits CRLF][data ...]   closed: size patched in, CRLF behind
//   a body of known length, and one that the end of the connection ends, is written as it is: ChunkStart stays -1

using System.Buffers.Text;
using Microsoft.Extensions.Primitives;
using Microsoft.Net.Http.Headers;
using Millrace.Exchanges;
using Millrace.Protocols.Http1;

namespace Millrace.Framing;

/// <param name="isTcp">Whether a reset can show that a response is not whole.</param>
internal sealed class Http1Framing(bool isTcp) : ResponseFraming(ChunkTail)
{
    private const int SizeDigits = 4;
    private const int ChunkHeadSize = SizeDigits + 2;
    private const int ChunkDataMax = 0xFFFF;
    private const int WideSizeDigits = 8;
    private const int ChunkTail = 2 + WideSizeDigits - SizeDigits;

    private bool _is11;

    /// <summary>The body of the response in progress is chunked.</summary>
    public bool IsChunked { get; private set; }

    /// <summary>The connection ends with the response in progress: its head says so, or it is broken.</summary>
    public bool Closes { get; set; }

    /// <summary>The client has nothing against further requests.</summary>
    public bool KeepAlive { get; private set; }

    /// <summary>The application wants no further request on the connection. It may say so when the head has been written, and nothing tells the client before the end.</summary>
    public bool IsEndWanted { get; set; }

    /// <summary>A request begins. Before its handler runs.</summary>
    public void Begin(bool is11, bool keepAlive)
    {
        _is11 = is11;
        KeepAlive = keepAlive;
        Closes = IsChunked = IsEndWanted = false;
    }

    /// <summary>What an application has set that the server has a part in.</summary>
    [Flags]
    private enum Seen : byte
    {
        None = 0,
        Date = 1,
        Server = 2,
        Upgrade = 4,
        Close = 8,
    }

    // ---- the head ----

    public override void WriteHead(Exchange exchange, OutputBuffer output, long length)
    {
        if (exchange.Life.IsUnwanted || exchange.IsUnanswered)
        {
            return;
        }

        bool isLast = exchange.Connection.EndsBehind(exchange, out long nowMs);
        ServerLines lines = ServerLines.At(nowMs, exchange.Services.Options.AddServerHeader);
        int begin = output.End;
        if (exchange.Answer.StatusCode == 200 && exchange.Answer.ReasonPhrase is null)
        {
            output.Append(lines.Ok);
        }
        else
        {
            WriteStatus(output, exchange.Answer.StatusCode, exchange.Answer.ReasonPhrase);
            output.Append(lines.Common);
        }

        Seen seen = WriteFields(exchange, output);
        if ((seen & (Seen.Date | Seen.Server)) != 0)
        {
            // The application's own stand instead of the server's.
            output.End = begin;
            WriteStatus(output, exchange.Answer.StatusCode, exchange.Answer.ReasonPhrase);
            output.Append((seen & Seen.Date) == 0 ? lines.Date : []);
            output.Append((seen & Seen.Server) == 0 ? lines.Server : []);
            _ = WriteFields(exchange, output);
        }

        WriteFraming(exchange, output, length, seen, isLast);
    }

    private static void WriteStatus(OutputBuffer output, int status, string? reason)
    {
        if (reason is null && !StatusLines.LineOf(status).IsEmpty)
        {
            output.Append(StatusLines.LineOf(status));
            return;
        }

        string text = reason is not null && FieldText.IsValue(reason) ? reason : StatusLines.ReasonOf(status);
        output.Append("HTTP/1.1 "u8);
        output.AppendNumber(status);
        output.Append(" "u8);
        output.AppendText(text);
        output.Append("\r\n"u8);
    }

    private static Seen WriteFields(Exchange exchange, OutputBuffer output)
    {
        Seen seen = Seen.None;
        foreach (KeyValuePair<string, StringValues> field in exchange.Answer.Headers.Entries)      // a copy of each: what is judged is what is written, whatever another thread makes of the table
        {
            if (!IsOurs(field.Key, field.Value, ref seen))
            {
                exchange.Answer.Headers.Write(field, output);
            }
        }

        return seen;
    }

    // Fields that concern this connection (RFC 9110 §7.6.1) and framing are the server's to write, whatever the application set.
    private static bool IsOurs(string name, in StringValues values, ref Seen seen)
    {
        switch (name.Length)
        {
            case 4 when Is(name, HeaderNames.Date):
                seen |= Seen.Date;
                return false;
            case 6 when Is(name, HeaderNames.Server):
                seen |= Seen.Server;
                return false;
            case 7 when Is(name, HeaderNames.Upgrade):
                seen |= Seen.Upgrade;
                return false;
            case 10 when Is(name, HeaderNames.Connection):
                seen |= AsksToClose(values) ? Seen.Close : Seen.None;
                return true;
            default:
                return IsOfConnection(name);
        }
    }

    private static bool AsksToClose(in StringValues values)
    {
        for (int i = 0; i < values.Count; i++)
        {
            foreach (Range part in values[i].AsSpan().Split(','))
            {
                if (values[i].AsSpan()[part].Trim().Equals("close", StringComparison.OrdinalIgnoreCase))
                {
                    return true;
                }
            }
        }

        return false;
    }

    // ---- where the body ends, and whether the connection does: RFC 9112 §6.3, §9.3 ----

    private void WriteFraming(Exchange exchange, OutputBuffer output, long length, Seen seen, bool isLast)
    {
        if (exchange.IsUpgraded)
        {
            output.Append("Connection: Upgrade\r\n\r\n"u8);
            Closes = true;
            return;
        }

        bool closes = !KeepAlive || IsEndWanted || (seen & Seen.Close) != 0 || isLast || exchange.IsBroken;
        bool chunks = false;
        int status = exchange.Answer.StatusCode;
        if (status == 205)
        {
            length = 0;
        }

        if (length >= 0 && status != 204)
        {
            output.AppendContentLength(length);
        }
        else if (!exchange.Answer.SuppressesBody)
        {
            if (_is11)
            {
                output.Append("Transfer-Encoding: chunked\r\n"u8);
                chunks = true;
            }
            else
            {
                closes = true;      // HTTP/1.0 knows no other end of such a body
            }
        }

        if ((seen & Seen.Upgrade) != 0)
        {
            output.Append(closes ? "Connection: Upgrade, close\r\n"u8 : "Connection: Upgrade\r\n"u8);
        }
        else if (closes)
        {
            output.Append("Connection: close\r\n"u8);
        }
        else if (!_is11)
        {
            output.Append("Connection: keep-alive\r\n"u8);
        }

        Closes = closes;
        output.Append("\r\n"u8);
        output.FrameStart = output.End;
        IsChunked = chunks;
    }

    // ---- the body ----

    // chunk = chunk-size CRLF chunk-data CRLF; leading zeros are part of the grammar (RFC 9112 §7.1)
    public override void OpenChunk(OutputBuffer output)
    {
        if (IsChunked && output.ChunkStart < 0)
        {
            _ = output.Reserve(ChunkHeadSize);
            output.ChunkStart = output.End;
            output.End += ChunkHeadSize;
        }
    }

    public override int ChunkRoom(OutputBuffer output) =>
        IsChunked ? Math.Max(0, ChunkDataMax - (output.End - output.ChunkStart - ChunkHeadSize)) : int.MaxValue;

    public override void CloseChunk(OutputBuffer output)
    {
        int start = output.ChunkStart;
        output.ChunkStart = -1;
        int count = output.End - start - ChunkHeadSize;
        if (count == 0)
        {
            output.End = start;     // a chunk of 0 would end the body
            return;
        }

        int digits = SizeDigits;
        if (count > ChunkDataMax)
        {
            // More was written at once than four digits say: the data makes room.
            digits = WideSizeDigits;
            int shift = WideSizeDigits - SizeDigits;
            _ = output.Reserve(shift);
            Buffer.BlockCopy(output.Bytes, start + ChunkHeadSize, output.Bytes, start + ChunkHeadSize + shift, count);
            output.End += shift;
        }

        WriteSize(output.Bytes.AsSpan(start), count, digits);
        output.Append("\r\n"u8);
    }

    private static void WriteSize(Span<byte> to, int size, int digits)
    {
        for (int i = digits - 1; i >= 0; i--)
        {
            to[i] = "0123456789abcdef"u8[size & 0xF];
            size >>= 4;
        }

        to[digits] = (byte)'\r';
        to[digits + 1] = (byte)'\n';
    }

    /// <summary>A chunk that begins and has no data.</summary>
    public override ReadOnlySpan<byte> BrokenOff => "1\r\n"u8;

    // To a Unix socket there is no reset: a chunked response ends within the data of a chunk. Within the head of one, or its last CRLF, there are
    // web servers that take it for whole (H2O). What has no chunks shows by its length that bytes are missing, or nothing does.
    /// <summary>Gathers what still leaves of a response that is broken off. See SendingConnection.WriteLast.</summary>
    public bool WriteLast(Exchange? exchange, OutputBuffer output, OutputBuffer last)
    {
        if (output.Start < output.ResponseStart)
        {
            last.Append(output.Bytes.AsSpan(output.Start, (int)output.ResponseStart - output.Start));
            return false;       // answers to earlier requests, and nothing of this one
        }

        if (isTcp || !IsChunked || output.Start == output.ResponseStart)
        {
            return false;
        }

        int end = FrameEnd(output, out int data, out int dataEnd);
        if (output.Start >= data && output.Start < dataEnd)
        {
            return false;
        }

        bool isWithinHead = output.Start < data && data < dataEnd;
        end = Math.Min(isWithinHead ? data : end, output.End);
        last.Append(output.Bytes.AsSpan(output.Start, end - output.Start));
        if (!isWithinHead && (exchange is not null ? exchange.File.BytesLeft == 0 || !output.IsEmpty : end < output.End))
        {
            last.Append(BrokenOff);
        }

        return exchange is null && !isWithinHead && end == output.End;
    }

    public override int FrameEnd(OutputBuffer output) => IsChunked ? FrameEnd(output, out _, out _) : output.Start;

    // Where the chunk ends of which a part has been sent, or the head of the response: where the sending stands if there is none.
    private static int FrameEnd(OutputBuffer output, out int data, out int dataEnd)
    {
        data = dataEnd = output.FrameStart;
        while (output.FrameStart < output.Start)
        {
            int end = output.End;       // first: the handler may be writing, and take larger memory
            ReadOnlySpan<byte> chunk = output.Bytes.AsSpan(output.FrameStart, end - output.FrameStart);
            int digits = chunk.IndexOf((byte)'\r');
            if (digits <= 0 || !int.TryParse(chunk[..digits], System.Globalization.NumberStyles.AllowHexSpecifier, null, out int size))
            {
                data = dataEnd = output.FrameStart = output.Start;      // no chunk: a later answer, behind them
                break;
            }

            data = output.FrameStart + digits + 2;
            dataEnd = data + size;
            output.FrameStart = dataEnd + 2;
        }

        return output.FrameStart;
    }

    // A broken response has no last chunk: see ClosingConnection.Break.cs.
    public override void WriteEnd(Exchange exchange, OutputBuffer output)
    {
        if (IsChunked && !exchange.IsBroken && !exchange.Life.IsUnwanted)
        {
            output.Append("0\r\n\r\n"u8);
        }
    }

    public override int WriteFileChunkHead(OutputBuffer output, long count)
    {
        int part = (int)Math.Min(count, 1 << 30);
        if (IsChunked)
        {
            _ = Utf8Formatter.TryFormat(part, output.Reserve(sizeof(int) * 2), out int digits, 'x');
            output.End += digits;
            output.Append("\r\n"u8);
        }

        return part;
    }

    public override void WriteFileChunkTail(OutputBuffer output)
    {
        if (IsChunked)
        {
            output.Append("\r\n"u8);
            output.FrameStart = output.End;
        }
    }

    // ---- answers that no handler gives ----

    /// <summary>The last answer of a connection.</summary>
    public static void WriteRefusal(OutputBuffer output, int status, ServerLines lines)
    {
        WriteStatus(output, status, reason: null);
        output.Append(lines.Common);
        output.Append("Content-Length: 0\r\nConnection: close\r\n\r\n"u8);
    }
}
