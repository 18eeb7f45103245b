// The head of a CGI response (RFC 3875 §6.2), which may come in pieces: gathered until its empty line, then read into the response.

using System.Globalization;
using System.Text;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.WebUtilities;
using Microsoft.Extensions.Primitives;
using Microsoft.Net.Http.Headers;

namespace Millrace.Connector;

internal sealed class ResponseHead
{
    /// <summary>Bytes of a head, its empty line among them.</summary>
    public const int SizeMax = 64 * 1024;

    private byte[] _gathered = [];
    private int _length;

    public bool IsRead { get; private set; }

    /// <summary>Takes bytes of STDOUT until the head is there, and puts it into <paramref name="response"/> then.</summary>
    /// <returns>How many of <paramref name="bytes"/> belong to the head.</returns>
    /// <exception cref="ConnectorException">It is no head of a response.</exception>
    public int Take(ReadOnlySpan<byte> bytes, HttpResponse response)
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

    private void Read(ReadOnlySpan<byte> head, HttpResponse response)
    {
        bool hasStatus = false;
        while (!head.IsEmpty)
        {
            int end = head.IndexOf((byte)'\n');
            ReadOnlySpan<byte> line = head[..end].TrimEnd((byte)'\r');
            head = head[(end + 1)..];
            if (!line.IsEmpty)
            {
                ReadLine(line, response, ref hasStatus);
            }
        }
        if (!hasStatus && response.Headers.ContainsKey(HeaderNames.Location))
        {
            response.StatusCode = StatusCodes.Status302Found;       // §6.2.3
        }
        IsRead = true;
        _gathered = [];
    }

    private static void ReadLine(ReadOnlySpan<byte> line, HttpResponse response, ref bool hasStatus)
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
            hasStatus = true;
            ReadStatus(value, response);
            return;
        }
        string its = NameOf(name);
        if (ConnectionFields.Contains(its))
        {
            return;
        }
        try
        {
            string text = Encoding.Latin1.GetString(value);
            if (string.Equals(its, HeaderNames.ContentLength, StringComparison.OrdinalIgnoreCase))
            {
                response.ContentLength = long.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out long length) && !response.ContentLength.HasValue
                    ? length
                    : throw Broken("its Content-Length is no number, or there are two");
                return;
            }
            response.Headers[its] = StringValues.Concat(response.Headers[its], text);
        }
        catch (InvalidOperationException error)
        {
            throw Broken(error.Message);
        }
    }

    // 404 Not Found
    private static void ReadStatus(ReadOnlySpan<byte> value, HttpResponse response)
    {
        if (value.Length < 3 || !int.TryParse(value[..3], NumberStyles.None, CultureInfo.InvariantCulture, out int code) || code is < 200 or > 599 || (value.Length > 3 && value[3] != (byte)' '))
        {
            throw Broken("its status is no number from 200 to 599");
        }
        response.StatusCode = code;
        ReadOnlySpan<byte> reason = value.Length > 4 ? value[4..] : [];
        if (!reason.IsEmpty && !Ascii.Equals(reason, ReasonPhrases.GetReasonPhrase(code)))
        {
            response.HttpContext.Features.GetRequiredFeature<IHttpResponseFeature>().ReasonPhrase = Encoding.Latin1.GetString(reason);
        }
    }

    // The names that nearly every response has are not made anew.
    private static string NameOf(ReadOnlySpan<byte> name)
    {
        foreach (string known in s_known)
        {
            if (known.Length == name.Length && Ascii.EqualsIgnoreCase(name, known))
            {
                return known;
            }
        }
        return Encoding.Latin1.GetString(name);
    }

    private static readonly string[] s_known =
        [HeaderNames.ContentType, HeaderNames.ContentLength, HeaderNames.Date, HeaderNames.Server, HeaderNames.CacheControl, HeaderNames.ETag, HeaderNames.LastModified, HeaderNames.SetCookie, HeaderNames.Location, HeaderNames.Vary];

    private static ConnectorException Broken(string why) => new(ConnectorFault.BrokenResponse, $"Its response is broken: {why}.");
}
