// The head of a program's response (RFC 3875 §6.2): gathered until its empty line, within limits of bytes and of lines, then read into the response. What it says to the web server and not to the
// visitor (X-Accel-*, X-Sendfile) stays here, unless there is a front server that it is meant for. A line is a field or the response is broken: no byte of a script's gets between two fields.

using System.Buffers;
using System.Globalization;
using System.Text;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.WebUtilities;
using Microsoft.Net.Http.Headers;

namespace Millrace.Connector;

internal sealed class ProgramHead(int bytesMax, int fieldsMax)
{
    private static readonly SearchValues<byte> s_tokens = SearchValues.Create("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"u8);

    private static readonly IReadOnlyList<string> s_nothing = [];

    private List<string>? _leftOut;
    private byte[] _gathered = [];
    private int _length;
    private int _searched;      // for the end of a line
    private int _lineStart;
    private int _lines;
    private bool _hasStatus;

    public bool IsRead { get; private set; }

    /// <summary>Whether what a script says to its server (X-Accel-*, X-Sendfile) goes on: there is a front server that it is said to.</summary>
    public bool HasFrontServer { get; init; }

    /// <summary>Bytes of the body, as the script says; null: it does not. The response's own may be gone by the time they come: whoever compresses them takes it away.</summary>
    public long? ContentLength { get; private set; }

    /// <summary>X-Accel-Redirect; null: there is none.</summary>
    public string? Redirect { get; private set; }

    /// <summary>X-Sendfile; null: there is none.</summary>
    public string? SendFile { get; private set; }

    /// <summary>Fields with bytes beyond ASCII, which the server does not write (RFC 9110 §5.5).</summary>
    public IReadOnlyList<string> LeftOut => _leftOut ?? s_nothing;

    /// <summary>Takes bytes of STDOUT until the head is there, and puts it into <paramref name="response"/> then.</summary>
    /// <returns>How many of <paramref name="bytes"/> belong to the head.</returns>
    /// <exception cref="ConnectorException">It is no head of a response.</exception>
    public int Take(ReadOnlySpan<byte> bytes, HttpResponse response)
    {
        if (_length == 0 && EndIn(bytes[..Math.Min(bytes.Length, bytesMax)]) is > 0 and var whole)
        {
            Read(bytes[..whole], response);     // the usual one, where it lies
            return whole;
        }
        int known = _length;
        int count = Math.Min(bytes.Length, bytesMax - known);
        if (known + count > _gathered.Length)
        {
            Array.Resize(ref _gathered, Math.Min(bytesMax, Math.Max(_gathered.Length * 2, known + count)));
        }
        bytes[..count].CopyTo(_gathered.AsSpan(known));
        _length += count;
        int end = EndIn(_gathered.AsSpan(0, _length));
        if (end < 0)
        {
            return count == bytes.Length ? count : throw Broken(string.Create(CultureInfo.InvariantCulture, $"its head is larger than {bytesMax} bytes (HeadBytesMax)"));
        }
        Read(_gathered.AsSpan(0, end), response);
        _gathered = [];
        return end - known;
    }

    // Behind the empty line; -1 where there is none yet. Line ends with and without CR are taken (RFC 3875 §6.2.1: NL is the system's). What has been looked at is not looked at again: it may come byte by byte.
    private int EndIn(ReadOnlySpan<byte> head)
    {
        while (true)
        {
            int found = head[_searched..].IndexOf((byte)'\n');
            if (found < 0)
            {
                _searched = head.Length;
                return -1;
            }
            ReadOnlySpan<byte> line = head[_lineStart..(_searched + found)];
            _searched = _lineStart = _searched + found + 1;
            if (line.IsEmpty || line is [(byte)'\r'])
            {
                return _searched;
            }
            if (++_lines > fieldsMax)
            {
                throw Broken(string.Create(CultureInfo.InvariantCulture, $"its head has more than {fieldsMax} lines (HeadFieldsMax)"));
            }
        }
    }

    private void Read(ReadOnlySpan<byte> head, HttpResponse response)
    {
        while (!head.IsEmpty)
        {
            int end = head.IndexOf((byte)'\n');
            ReadOnlySpan<byte> line = end > 0 && head[end - 1] == (byte)'\r' ? head[..(end - 1)] : head[..end];
            head = head[(end + 1)..];
            if (line.IsEmpty)
            {
                break;
            }
            ReadLine(line, response);
        }
        if (!_hasStatus && response.Headers.ContainsKey("Location"))
        {
            response.StatusCode = StatusCodes.Status302Found;       // §6.2.3
        }
        IsRead = true;
    }

    private void ReadLine(ReadOnlySpan<byte> line, HttpResponse response)
    {
        int colon = line.IndexOf((byte)':');
        if (colon <= 0 || line[..colon].ContainsAnyExcept(s_tokens))
        {
            throw Broken("a line of its head is no field");
        }
        ReadOnlySpan<byte> value = line[(colon + 1)..].Trim(" \t"u8);
        if (value.ContainsAny("\0\r"u8) || value.ContainsAnyInRange((byte)1, (byte)8) || value.ContainsAnyInRange((byte)10, (byte)31) || value.Contains((byte)127))
        {
            throw Broken("a field of its head has a control character (RFC 9110 §5.5)");
        }
        Put(line[..colon], value, response);
    }

    private void Put(ReadOnlySpan<byte> name, ReadOnlySpan<byte> value, HttpResponse response)
    {
        if (Ascii.EqualsIgnoreCase(name, "Status"u8))
        {
            ReadStatus(value, response);
        }
        else if (Ascii.EqualsIgnoreCase(name, "Content-Length"u8))
        {
            response.ContentLength = ContentLength = long.TryParse(value, NumberStyles.None, CultureInfo.InvariantCulture, out long length) && ContentLength is null
                ? length
                : throw Broken("its Content-Length is no number, or there are two");
        }
        else if (!HasFrontServer && Ascii.EqualsIgnoreCase(name, "X-Accel-Redirect"u8))
        {
            Redirect = Encoding.UTF8.GetString(value);      // names of files are UTF-8
        }
        else if (!HasFrontServer && Ascii.EqualsIgnoreCase(name, "X-Sendfile"u8))
        {
            SendFile = Encoding.UTF8.GetString(value);
        }
        else if (Goes(name))
        {
            string its = HttpResponseFields.NameOf(name);
            if (its == HeaderNames.ContentType)
            {
                _ = response.Headers.Remove(its);        // the last one counts, as it does to nginx
            }
            Join(its, HttpResponseFields.ValueOf(its, value), response);
        }
    }

    // Whether it is for the visitor, and not for the server, or of one connection.
    private bool Goes(ReadOnlySpan<byte> name) =>
        (HasFrontServer || name.Length < AccelPrefix.Length || !Ascii.EqualsIgnoreCase(name[..AccelPrefix.Length], AccelPrefix))
        && !Ascii.EqualsIgnoreCase(name, "Trailer"u8) && !ConnectionFields.Contains(name);

    private static ReadOnlySpan<byte> AccelPrefix => "X-Accel-"u8;

    private void Join(string name, string value, HttpResponse response)
    {
        try
        {
            if (!FieldBytes.TryJoin(response, name, value) && !LeftOut.Contains(name, StringComparer.OrdinalIgnoreCase))
            {
                (_leftOut ??= []).Add(name);
            }
        }
        catch (InvalidOperationException error)
        {
            throw Broken(error.Message);       // the server's judgement
        }
    }

    // 404 Not Found
    private void ReadStatus(ReadOnlySpan<byte> value, HttpResponse response)
    {
        if (_hasStatus || value.Length < 3 || !int.TryParse(value[..3], NumberStyles.None, CultureInfo.InvariantCulture, out int code) || code is < 200 || (value.Length > 3 && value[3] != (byte)' '))
        {
            throw Broken("its status is no number from 200 to 999, or there are two");
        }
        _hasStatus = true;
        response.StatusCode = code;
        if (value.Length > 4 && !Ascii.Equals(value[4..], ReasonPhrases.GetReasonPhrase(code)) && response.HttpContext.Features.Get<IHttpResponseFeature>() is { } feature)
        {
            feature.ReasonPhrase = Encoding.Latin1.GetString(value[4..]);
        }
    }

    private static ConnectorException Broken(string why) => new(ConnectorFault.BrokenResponse, $"Its response is broken: {why}.");
}
