// The head of a CGI response (RFC 3875 §6.2), which may come in pieces: gathered until its empty line, then read into the response. Whose that is, a server's or
// that of an exchange on a loop, is in ResponseFields.cs.

using System.Globalization;
using System.Text;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.WebUtilities;

namespace Millrace.Connector;

internal sealed class ResponseHead
{
    /// <summary>Bytes of a head, its empty line among them.</summary>
    public const int SizeMax = 64 * 1024;

    private byte[] _gathered = [];
    private int _length;

    public bool IsRead { get; private set; }

    /// <summary>The next response begins.</summary>
    public void Reset() => (_gathered, _length, IsRead) = ([], 0, false);

    /// <summary>Takes bytes of STDOUT until the head is there, and puts it into <paramref name="response"/> then.</summary>
    /// <returns>How many of <paramref name="bytes"/> belong to the head.</returns>
    /// <exception cref="ConnectorException">It is no head of a response.</exception>
    public int Take<TFields>(ReadOnlySpan<byte> bytes, TFields response)
        where TFields : struct, IResponseFields
    {
        if (_length == 0 && EndOf(bytes, 0) is > 0 and var end)
        {
            Read(bytes[..end], response);
            return end;
        }
        if (_length + bytes.Length > _gathered.Length)
        {
            Array.Resize(ref _gathered, Math.Min(SizeMax, Math.Max(_gathered.Length * 2, _length + bytes.Length)));
        }
        int count = Math.Min(bytes.Length, _gathered.Length - _length);
        bytes[..count].CopyTo(_gathered.AsSpan(_length));
        int known = _length;
        _length += count;
        end = EndOf(_gathered.AsSpan(0, _length), Math.Max(0, known - 3));
        if (end < 0)
        {
            return count == bytes.Length ? count : throw Broken($"its head is larger than {SizeMax} bytes");
        }
        Read(_gathered.AsSpan(0, end), response);
        return end - known;
    }

    // Behind the empty line; -1 where there is none. Line ends with and without CR are taken (RFC 3875 §6.2.1: NL is the system's).
    private static int EndOf(ReadOnlySpan<byte> bytes, int from)
    {
        for (int at = from; ;)
        {
            int found = bytes[at..].IndexOf((byte)'\n');
            if (found < 0)
            {
                return -1;
            }
            int line = at + found;
            if (line == 0 || (line == 1 && bytes[0] == (byte)'\r') || bytes[line - 1] == (byte)'\n' || (line > 1 && bytes[line - 1] == (byte)'\r' && bytes[line - 2] == (byte)'\n'))
            {
                return line + 1;
            }
            at = line + 1;
        }
    }

    private void Read<TFields>(ReadOnlySpan<byte> head, TFields response)
        where TFields : struct, IResponseFields
    {
        int status = 0;
        while (!head.IsEmpty)
        {
            int end = head.IndexOf((byte)'\n');
            ReadOnlySpan<byte> line = head[..end].TrimEnd((byte)'\r');
            head = head[(end + 1)..];
            if (!line.IsEmpty)
            {
                ReadLine(line, response, ref status);
            }
        }
        if (status == 0 && response.HasLocation)
        {
            response.SetStatus(StatusCodes.Status302Found, null);       // §6.2.3
        }
        IsRead = true;
        _gathered = [];
    }

    private static void ReadLine<TFields>(ReadOnlySpan<byte> line, TFields response, ref int status)
        where TFields : struct, IResponseFields
    {
        int colon = line.IndexOf((byte)':');
        if (colon <= 0)
        {
            throw Broken("a line of its head is no field");
        }
        ReadOnlySpan<byte> name = line[..colon];
        ReadOnlySpan<byte> value = line[(colon + 1)..].Trim(" \t"u8);
        if (Ascii.EqualsIgnoreCase(name, "Status"u8))
        {
            status = ReadStatus(value, response);
            return;
        }
        if (ConnectionFields.Contains(name))
        {
            return;
        }
        try
        {
            if (Ascii.EqualsIgnoreCase(name, "Content-Length"u8))
            {
                response.ContentLength = long.TryParse(value, NumberStyles.None, CultureInfo.InvariantCulture, out long length) && !response.ContentLength.HasValue
                    ? length
                    : throw Broken("its Content-Length is no number, or there are two");
                return;
            }
            response.Append(name, value);
        }
        catch (InvalidOperationException error)
        {
            throw Broken(error.Message);
        }
    }

    // 404 Not Found
    private static int ReadStatus<TFields>(ReadOnlySpan<byte> value, TFields response)
        where TFields : struct, IResponseFields
    {
        if (value.Length < 3 || !int.TryParse(value[..3], NumberStyles.None, CultureInfo.InvariantCulture, out int code) || code is < 200 || (value.Length > 3 && value[3] != (byte)' '))
        {
            throw Broken("its status is no number from 200 to 999");
        }
        ReadOnlySpan<byte> reason = value.Length > 4 ? value[4..] : [];
        response.SetStatus(code, reason.IsEmpty || Ascii.Equals(reason, ReasonPhrases.GetReasonPhrase(code)) ? null : Encoding.Latin1.GetString(reason));
        return code;
    }

    private static ConnectorException Broken(string why) => new(ConnectorFault.BrokenResponse, $"Its response is broken: {why}.");
}
