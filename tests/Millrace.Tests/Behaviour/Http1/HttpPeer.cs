// A client's end of an HTTP/1.1 connection: cuts what comes back into responses and judges every byte by the specification
// (RFC 9112, RFC 9110), without using the server's own readers.

using System.Buffers;
using System.Globalization;
using System.Text;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Http1;

/// <summary>All that came back for one request.</summary>
internal sealed class HttpAnswer(string head)
{
    private readonly string[] _lines = head.Split("\r\n");

    /// <summary>Status line and fields, as sent.</summary>
    public string Head => head;

    public int Status => int.Parse(head.AsSpan(9, 3), CultureInfo.InvariantCulture);

    public IEnumerable<string> FieldLines => _lines.Skip(1);

    public MemoryStream Bytes { get; } = new();

    /// <summary>The data of each chunk; empty when the body was not chunked.</summary>
    public List<int> Chunks { get; } = [];

    public byte[] Body => Bytes.ToArray();

    public string BodyText => Encoding.UTF8.GetString(Body);

    /// <summary>Value of a field; null when there is none, several joined by a line end.</summary>
    public string? Field(string name)
    {
        string[] values = [.. FieldLines.Where(line => line.StartsWith(name + ": ", StringComparison.OrdinalIgnoreCase)).Select(line => line[(name.Length + 2)..])];
        return values.Length == 0 ? null : string.Join('\n', values);
    }

    public bool Closes => Field("Connection")?.Contains("close", StringComparison.Ordinal) == true;
}

internal sealed class HttpPeer(SimulatedSocket socket) : IClient
{
    private enum Expecting
    {
        Head,
        Length,
        ChunkSize,
        ChunkData,
        ChunkEnd,
        LastLine,
        End,
        Tunnel,
    }

    private static readonly SearchValues<char> s_token = SearchValues.Create("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");

    private static readonly SearchValues<char> s_controls = SearchValues.Create([.. Enumerable.Range(0, 32).Where(static c => c != '\t').Select(static c => (char)c), '\u007f']);

    private readonly List<byte> _unparsed = [];
    private readonly byte[] _buffer = new byte[16 * 1024];
    private readonly Queue<(string Method, bool Is10)> _asked = new();
    private Expecting _expecting;
    private long _left;
    private bool _last;

    public SimulatedSocket Socket => socket;

    /// <summary>Final responses in the order in which they ended.</summary>
    public List<HttpAnswer> Answers { get; } = [];

    /// <summary>The response that has begun and not ended.</summary>
    public HttpAnswer? Begun { get; private set; }

    /// <summary>Status codes of interim responses (RFC 9110 §15.2).</summary>
    public List<int> Interims { get; } = [];

    /// <summary>What came behind a 101, or behind a 2xx to CONNECT.</summary>
    public List<byte> Tunnel { get; } = [];

    public string? Fault { get; private set; }

    public long BytesRead { get; private set; }

    /// <summary>Reads of the client that brought something.</summary>
    public int Reads { get; private set; }

    /// <summary>The server has ended the connection and everything has been read.</summary>
    public bool IsAtEnd => socket.AtEnd;

    /// <summary>Says what is being asked, where that changes how the answer ends: HEAD, CONNECT, HTTP/1.0.</summary>
    public void Expect(string method, bool is10 = false) => _asked.Enqueue((method, is10));

    public int Read(int max = int.MaxValue)
    {
        int total = 0;
        while (total < max)
        {
            int count = socket.ClientRead(_buffer.AsSpan(0, Math.Min(_buffer.Length, max - total)));
            if (count == 0)
            {
                break;
            }

            _unparsed.AddRange(_buffer.AsSpan(0, count));
            total += count;
            BytesRead += count;
            Reads++;
            while (Fault is null && Parse())
            {
            }
        }

        if (_expecting == Expecting.End && IsAtEnd && Begun is not null && !socket.WasReset)
        {
            Finish();   // a body that the end of the connection ends, and no reset instead
        }

        return total;
    }

    private bool Parse() => _expecting switch
    {
        Expecting.Head => ParseHead(),
        Expecting.ChunkSize => ParseChunkSize(),
        Expecting.ChunkEnd => Line() is { } end && Check(end.Length == 0, "no CRLF behind the data of a chunk", Expecting.ChunkSize),
        Expecting.LastLine => ParseLastLine(),
        _ => TakeData(),
    };

    private bool Check(bool condition, string fault, Expecting next)
    {
        Fault ??= condition ? null : fault;
        _expecting = next;
        return condition;
    }

    private string? Line()
    {
        int end = _unparsed.IndexOf((byte)'\n');
        if (end < 0)
        {
            return null;
        }

        if (end == 0 || _unparsed[end - 1] != '\r')
        {
            Fault ??= "a line that does not end with CRLF";
            return null;
        }

        string line = Encoding.Latin1.GetString([.. _unparsed[..(end - 1)]]);
        _unparsed.RemoveRange(0, end + 1);
        return line;
    }

    // ---- the head ----

    private bool ParseHead()
    {
        ReadOnlySpan<byte> bytes = System.Runtime.InteropServices.CollectionsMarshal.AsSpan(_unparsed);
        int end = bytes.IndexOf("\r\n\r\n"u8);
        if (end < 0)
        {
            return false;
        }

        if (_last)
        {
            Fault = "bytes behind the answer that said it was the last";
            return false;
        }

        var answer = new HttpAnswer(Encoding.Latin1.GetString(bytes[..end]));
        _unparsed.RemoveRange(0, end + 4);
        Fault ??= FaultOf(answer);
        if (Fault is not null)
        {
            return false;
        }

        if (answer.Status is >= 100 and < 200 and not 101)
        {
            Interims.Add(answer.Status);
            return true;
        }

        Begun = answer;
        (string method, bool is10) = _asked.TryDequeue(out (string, bool) asked) ? asked : ("GET", false);
        Frame(answer, method, is10);
        return true;
    }

    private static string? FaultOf(HttpAnswer answer)
    {
        if (answer.Head.Length < 13 || !answer.Head.StartsWith("HTTP/1.1 ", StringComparison.Ordinal) || answer.Head[12] != ' ' || !answer.Head[9..12].All(char.IsAsciiDigit))
        {
            return "a status line that is none: " + answer.Head;
        }

        foreach (string line in answer.FieldLines)
        {
            int colon = line.IndexOf(": ", StringComparison.Ordinal);
            if (colon <= 0 || line.AsSpan(0, colon).ContainsAnyExcept(s_token) || line.AsSpan(colon).ContainsAny(s_controls) || line.EndsWith(' '))
            {
                return "a field line that is none: " + line;
            }
        }

        bool isFinal = answer.Status >= 200;
        foreach (string name in (string[])["Date", "Content-Length", "Transfer-Encoding", "Connection", "Server"])
        {
            if (answer.Field(name)?.Contains('\n', StringComparison.Ordinal) == true)
            {
                return $"{name} twice";
            }
        }

        return isFinal && !DateTimeOffset.TryParseExact(answer.Field("Date"), "R", CultureInfo.InvariantCulture, DateTimeStyles.None, out _) ? "no Date (RFC 9110 §6.6.1)"
            : answer.Field("Content-Length") is not null && answer.Field("Transfer-Encoding") is not null ? "Content-Length beside Transfer-Encoding (RFC 9112 §6.2)"
            : answer.Status is 204 or (>= 100 and < 200) && (answer.Field("Content-Length") ?? answer.Field("Transfer-Encoding")) is not null ? "a length with 1xx or 204 (RFC 9110 §8.6)"
            : null;
    }

    // RFC 9112 §6.3
    private void Frame(HttpAnswer answer, string method, bool is10)
    {
        _last = answer.Closes || (is10 && answer.Field("Connection") != "keep-alive");
        string? encoding = answer.Field("Transfer-Encoding");
        string? length = answer.Field("Content-Length");
        if (answer.Status == 101)
        {
            _expecting = Expecting.Tunnel;
            Finish();
        }
        else if (method == "CONNECT" && answer.Status is >= 200 and < 300)
        {
            _ = Check(encoding is null && length is null, "a length with a 2xx to CONNECT (RFC 9110 §9.3.6)", Expecting.Tunnel);
            Finish();
        }
        else if (method == "HEAD" || answer.Status is 204 or 304)
        {
            Finish();
        }
        else if (encoding is not null)
        {
            _ = Check(encoding == "chunked" && !is10, $"Transfer-Encoding {encoding} for HTTP/1.{(is10 ? 0 : 1)}", Expecting.ChunkSize);
        }
        else if (length is not null)
        {
            _left = long.Parse(length, NumberStyles.None, CultureInfo.InvariantCulture);
            _expecting = Expecting.Length;
            FinishWhenWhole();
        }
        else
        {
            _ = Check(_last, "a body without length on a connection that stays", Expecting.End);
        }
    }

    // ---- the body ----

    private bool TakeData()
    {
        int count = (int)Math.Min(_unparsed.Count, _expecting is Expecting.Length or Expecting.ChunkData ? _left : int.MaxValue);
        if (count == 0)
        {
            return false;
        }

        ReadOnlySpan<byte> bytes = System.Runtime.InteropServices.CollectionsMarshal.AsSpan(_unparsed)[..count];
        if (_expecting == Expecting.Tunnel)
        {
            Tunnel.AddRange(bytes);
        }
        else
        {
            Begun!.Bytes.Write(bytes);
        }

        _unparsed.RemoveRange(0, count);
        _left -= count;
        if (_expecting == Expecting.ChunkData && _left == 0)
        {
            _expecting = Expecting.ChunkEnd;
        }

        FinishWhenWhole();
        return true;
    }

    private bool ParseChunkSize()
    {
        if (Line() is not { } line)
        {
            return false;
        }

        if (!long.TryParse(line, NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out _left) || _left < 0)
        {
            return Check(false, "a chunk size that is none: " + line, Expecting.ChunkSize);
        }

        if (_left == 0)
        {
            _expecting = Expecting.LastLine;
            return true;
        }

        Begun!.Chunks.Add((int)_left);
        _expecting = Expecting.ChunkData;
        return true;
    }

    private bool ParseLastLine()
    {
        if (Line() is not { } line)
        {
            return false;
        }

        Finish();
        return Check(line.Length == 0, "a trailer that nobody set", Expecting.Head);
    }

    private void FinishWhenWhole()
    {
        if (_expecting == Expecting.Length && _left == 0)
        {
            Finish();
        }
    }

    private void Finish()
    {
        Answers.Add(Begun!);
        Begun = null;
        if (_expecting != Expecting.Tunnel)
        {
            _expecting = Expecting.Head;
        }
    }
}
