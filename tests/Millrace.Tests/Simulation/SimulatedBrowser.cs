// A browser's end of an HTTP/1.1 connection: cuts what comes back into responses and judges every byte by the standard
// (RFC 9112, RFC 9110), strictly and without using the server's own readers.

using System.Globalization;
using System.Text;

namespace Millrace.Tests.Simulation;

/// <summary>A request the browser waits for: what it must know to see where the response ends (RFC 9112 §6.3).</summary>
internal readonly record struct AwaitedResponse(bool IsHead, bool MayContinue);

/// <summary>One final response.</summary>
internal sealed class HttpResponse(int status, string head)
{
    private Dictionary<string, string>? _fields;

    public int Status => status;

    /// <summary>Status line and fields, as sent.</summary>
    public string Head => head;

    public MemoryStream Content { get; } = new();

    public ReadOnlySpan<byte> Body => Content.GetBuffer().AsSpan(0, (int)Content.Length);

    public string BodyText => Encoding.UTF8.GetString(Body);

    /// <summary>All of it has come.</summary>
    public bool IsComplete { get; set; }

    /// <summary>Its body goes to the end of the connection.</summary>
    public bool GoesToTheEnd { get; set; }

    public bool IsChunked { get; set; }

    /// <summary>Bytes of the body already judged.</summary>
    public int Judged { get; set; }

    /// <summary>How many 100 came before it.</summary>
    public int Continues { get; init; }

    public bool Closes => Field("Connection") is { } value && value.Split(',').Any(static option => option.Trim() == "close");

    public string? Field(string name)
    {
        if (_fields is null)
        {
            _fields = new Dictionary<string, string>(StringComparer.OrdinalIgnoreCase);
            foreach (string line in head.Split("\r\n").Skip(1).Where(static line => line.Length > 0))
            {
                int colon = line.IndexOf(':', StringComparison.Ordinal);
                string key = line[..colon];
                _fields[key] = _fields.TryGetValue(key, out string? before) ? before + ", " + line[(colon + 2)..] : line[(colon + 2)..];
            }
        }

        return _fields.GetValueOrDefault(name);
    }
}

internal sealed class SimulatedBrowser(SimulatedSocket socket)
{
    private enum Part
    {
        Head,
        Length,
        ToTheEnd,
        ChunkSize,
        ChunkData,
        ChunkEnd,
        Trailer,
        Tunnel,
    }

    private static readonly System.Buffers.SearchValues<char> s_nameChars =
        System.Buffers.SearchValues.Create("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");

    private readonly ByteQueue _input = new();
    private byte[]? _buffer;
    private readonly Queue<AwaitedResponse> _awaited = new();
    private Part _part;
    private long _left;
    private int _continues;

    public SimulatedSocket Socket => socket;

    /// <summary>Final responses, the last of them perhaps incomplete.</summary>
    public List<HttpResponse> Responses { get; } = [];

    public HttpResponse? Last => Responses.Count > 0 ? Responses[^1] : null;

    /// <summary>Complete responses.</summary>
    public int Complete => Responses.Count - (Last is { IsComplete: false } ? 1 : 0);

    /// <summary>100 responses for the request answered next.</summary>
    public int Continues => _continues;

    /// <summary>What broke the standard, if anything did.</summary>
    public string? Fault { get; private set; }

    /// <summary>What came through the tunnel after 101.</summary>
    public MemoryStream Tunnelled { get; } = new();

    public bool IsTunnel => _part == Part.Tunnel;

    public long BytesRead { get; private set; }

    /// <summary>Whether responses may come that nobody asked for: refusals of what was no request.</summary>
    public bool ToleratesRefusals { get; set; }

    /// <summary>The server has ended the connection and everything has been read.</summary>
    public bool IsAtEnd => socket.AtEnd;

    /// <summary>The stream stopped inside a head or a body.</summary>
    public bool EndsInsideResponse => _input.Count > 0 || (_part is not (Part.Head or Part.Tunnel) && Last is { IsComplete: false });

    public void Await(AwaitedResponse awaited) => _awaited.Enqueue(awaited);

    public void Send(ReadOnlySpan<byte> bytes) => socket.ClientSend(bytes);

    /// <summary>Reads up to <paramref name="max"/> bytes; answers how many there were.</summary>
    public int Read(int max = int.MaxValue)
    {
        int total = 0;
        while (total < max)
        {
            _buffer ??= new byte[16 * 1024];
            int count = socket.ClientRead(_buffer.AsSpan(0, Math.Min(_buffer.Length, max - total)));
            if (count == 0)
            {
                break;
            }

            Take(_buffer.AsSpan(0, count));
            total += count;
            BytesRead += count;
        }

        NoteEnd();
        return total;
    }

    /// <summary>Sees whether the connection has ended: that may be the end of a body.</summary>
    public void NoteEnd()
    {
        if (socket.AtEnd && !socket.WasReset && _part == Part.ToTheEnd && Last is { IsComplete: false } last)
        {
            last.IsComplete = true;
            _part = Part.Head;
        }
    }

    /// <summary>Bytes that have come.</summary>
    public void Take(ReadOnlySpan<byte> bytes)
    {
        _input.Append(bytes);
        while (Fault is null && Parse())
        {
        }
    }

    /// <summary>What comes next is another connection's.</summary>
    public void Restart()
    {
        _input.Truncate(0);
        _awaited.Clear();
        Responses.Clear();
        Tunnelled.SetLength(0);
        _part = Part.Head;
        _left = _continues = 0;
        Fault = null;
    }

    /// <summary>Nothing is awaited: any number of responses may come, and the field X-Method says which one is to HEAD.</summary>
    public bool Guesses { get; init; }

    /// <summary>Between two chunks: there are clients that take an end there for the end of the response.</summary>
    public bool EndsBetweenChunks => Last is { IsComplete: false, IsChunked: true } && _part != Part.ChunkData;

    public bool EndsInsideHead => _input.Count > 0 && _part == Part.Head;

    // True when it got on.
    private bool Parse()
    {
        ReadOnlySpan<byte> bytes = _input.Peek(int.MaxValue);
        switch (_part)
        {
            case Part.Head:
                int end = bytes.IndexOf("\r\n\r\n"u8);
                if (end < 0)
                {
                    return bytes.Length > 64 * 1024 && Break("a head without end");
                }

                string head = Encoding.Latin1.GetString(bytes[..(end + 2)]);
                _input.Skip(end + 4);
                return TakeHead(head);
            case Part.Length or Part.ChunkData:
                return TakeBody((int)Math.Min(_left, bytes.Length));
            case Part.ToTheEnd:
                _left = long.MaxValue;
                return TakeBody(bytes.Length);
            case Part.Tunnel:
                Tunnelled.Write(bytes);
                _input.Skip(bytes.Length);
                return false;
            default:
                return TakeLine(bytes);
        }
    }

    private bool TakeBody(int count)
    {
        Last!.Content.Write(_input.Peek(count));
        _input.Skip(count);
        _left -= count;
        if (_left > 0)
        {
            return false;
        }

        if (_part == Part.ChunkData)
        {
            _part = Part.ChunkEnd;
        }
        else
        {
            Finish();
        }

        return true;
    }

    // The lines of the chunked coding, RFC 9112 §7.1.
    private bool TakeLine(ReadOnlySpan<byte> bytes)
    {
        int end = bytes.IndexOf("\r\n"u8);
        if (end < 0)
        {
            return bytes.Length > 20 && Break("a chunk line without end");
        }

        string line = Encoding.Latin1.GetString(bytes[..end]);
        _input.Skip(end + 2);
        switch (_part)
        {
            case Part.ChunkEnd when line.Length == 0:
                _part = Part.ChunkSize;
                return true;
            case Part.ChunkEnd when line == "1" && !socket.IsTcp:
                _part = Part.ChunkData;     // broken off behind the bytes of a file, whose chunk has no end: no less an error
                _left = 1;
                return true;
            case Part.Trailer when line.Length == 0:
                Finish();
                return true;
            case Part.ChunkSize when line.All(char.IsAsciiHexDigit) && line.Length is > 0 and <= 8:
                _left = long.Parse(line, NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture);
                _part = _left == 0 ? Part.Trailer : Part.ChunkData;
                return true;
            default:
                return Break($"\"{line}\" where the chunked coding has {_part}");
        }
    }

    private bool TakeHead(string head)
    {
        string[] lines = head.Split("\r\n");
        string first = lines[0];
        if (first.Length < 13 || !first.StartsWith("HTTP/1.1 ", StringComparison.Ordinal) || first[12] != ' ' || !int.TryParse(first.AsSpan(9, 3), NumberStyles.None, CultureInfo.InvariantCulture, out int status))
        {
            return Break($"the status line \"{first}\"");
        }

        if (lines[1..^1].FirstOrDefault(static line => !IsField(line)) is { } bad)
        {
            return Break($"the field line \"{bad}\"");
        }

        if (status == 100)
        {
            if (lines.Length != 2 || _continues++ > 0 || (!Guesses && (_awaited.Count == 0 || !_awaited.Peek().MayContinue)))
            {
                return Break("a 100 that was not asked for, or a second one");
            }

            return true;
        }

        if (Responses.Count > 0 && Last!.Closes)
        {
            return Break("a response behind one that said close");
        }

        if (!_awaited.TryDequeue(out AwaitedResponse awaited) && !Guesses && !(ToleratesRefusals && status >= 400))
        {
            return Break($"the response \"{first}\", which nobody waits for");
        }

        var response = new HttpResponse(status, head) { Continues = _continues };
        _continues = 0;
        Responses.Add(response);
        return TakeFraming(response, awaited.IsHead || (Guesses && response.Field("X-Method") == "HEAD"));
    }

    // RFC 9112 §6.3
    private bool TakeFraming(HttpResponse response, bool isHead)
    {
        string? length = response.Field("Content-Length");
        string? coding = response.Field("Transfer-Encoding");
        if (response.Field("Date") is not { } date || !DateTime.TryParseExact(date, "R", CultureInfo.InvariantCulture, DateTimeStyles.None, out _))
        {
            return Break("a response without a Date");
        }

        if (coding is not null && (length is not null || coding != "chunked"))
        {
            return Break($"Transfer-Encoding \"{coding}\" with Content-Length \"{length}\"");
        }

        if (response.Status == 101)
        {
            response.IsComplete = true;
            _part = Part.Tunnel;
            return length is null && coding is null || Break("a 101 with a length");
        }

        if (length is not null && (!long.TryParse(length, NumberStyles.None, CultureInfo.InvariantCulture, out _left) || response.Status == 204))
        {
            return Break($"Content-Length \"{length}\" with status {response.Status}");
        }

        response.IsChunked = coding is not null;
        if (isHead || response.Status is 204 or 304)
        {
            Finish();
        }
        else if (coding is not null)
        {
            _part = Part.ChunkSize;
        }
        else if (length is null)
        {
            response.GoesToTheEnd = true;
            _part = Part.ToTheEnd;
            return response.Closes || Break("a body without length that does not say close");
        }
        else if (_left == 0)
        {
            Finish();
        }
        else
        {
            _part = Part.Length;
        }

        return true;
    }

    private void Finish()
    {
        Last!.IsComplete = true;
        _part = Part.Head;
    }

    // token ":" SP value, no controls
    private static bool IsField(string line)
    {
        int colon = line.IndexOf(": ", StringComparison.Ordinal);
        return colon > 0 && !line.AsSpan(0, colon).ContainsAnyExcept(s_nameChars)
            && !line.Any(static c => c is < ' ' or '\x7f');
    }

    private bool Break(string what)
    {
        Fault ??= what;
        return false;
    }
}
