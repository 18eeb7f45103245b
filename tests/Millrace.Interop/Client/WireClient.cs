// An HTTP/1.1 client on one raw socket. It sends targets and headers exactly as given (no normalisation by Uri) and
// tells a whole response from a cut one. Not here: TLS, redirects, cookies, pooling.
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Text;

namespace Millrace.Interop.Client;

public sealed class WireClient : IDisposable
{
    private const int BufferSize = 64 * 1024;
    // How long the other side may be silent.
    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(20);
    private static readonly TimeSpan LaterPatience = TimeSpan.FromSeconds(50);

    private readonly Socket _socket;
    private readonly CancellationTokenSource _deadline = new();
    private readonly byte[] _buffer = new byte[BufferSize];
    private int _start;
    private int _end;

    // What is left of the body that is being read: of the whole body, or of the present chunk.
    private long _left;
    private BodyFraming _framing;

    private WireClient(Socket socket) => _socket = socket;

    private enum BodyFraming
    {
        None,
        Length,
        Chunked,
        UntilClose,
    }

    public IPEndPoint LocalEndPoint => (IPEndPoint)_socket.LocalEndPoint!;

    /// <summary>
    /// How many bytes the system holds before a write waits. A server's receive window grows with what it is sent
    /// for each round trip, to 32 MiB where the system lets it: behind a small buffer it stays small.
    /// </summary>
    public int SendBufferSize
    {
        set => _socket.SendBufferSize = value;
    }

    /// <param name="endPoint">Where to.</param>
    /// <param name="from">The client's own address; null for the one that the system takes.</param>
    public static async Task<WireClient> ConnectAsync(IPEndPoint endPoint, IPAddress? from = null)
    {
        var socket = new Socket(endPoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        if (from is not null)
        {
            socket.Bind(new IPEndPoint(from, 0));
        }

        await socket.ConnectAsync(endPoint);
        return new WireClient(socket);
    }

    /// <summary>
    /// Sends a request with an optional body of known length and reads the response to its end. One that is answered before its
    /// body is over may find the connection closed for writing (RFC 9112 section 9.6): the answer is there all the same.
    /// </summary>
    public async Task<WireResponse> SendAsync(string method, string target, byte[]? body = null, params string[] headers)
    {
        string[] all = body is null ? headers : [.. headers, $"Content-Length: {body.Length}"];
        await WriteHeadAsync(method, target, all);
        if (body is not null)
        {
            try
            {
                await WriteAsync(body);
            }
            catch (SocketException closed) when (closed.SocketErrorCode is SocketError.Shutdown or SocketError.ConnectionReset)
            {
                // Where there is no answer, reading it fails.
            }
        }

        return await ReadResponseAsync(method);
    }

    public Task<WireResponse> GetAsync(string target, params string[] headers) => SendAsync("GET", target, null, headers);

    /// <summary>Writes the request line, a Host line unless one is given, and the given header lines.</summary>
    public Task WriteHeadAsync(string method, string target, params string[] headers)
    {
        var head = new StringBuilder().Append(method).Append(' ').Append(target).Append(" HTTP/1.1\r\n");
        if (!headers.Any(static header => header.StartsWith("Host:", StringComparison.OrdinalIgnoreCase)))
        {
            head.Append("Host: localhost\r\n");
        }

        foreach (string header in headers)
        {
            head.Append(header).Append("\r\n");
        }

        return WriteAsync(Encoding.Latin1.GetBytes(head.Append("\r\n").ToString()));
    }

    public async Task WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        while (!bytes.IsEmpty)
        {
            _deadline.CancelAfter(Patience);
            int sent = await _socket.SendAsync(bytes, SocketFlags.None, _deadline.Token);
            bytes = bytes[sent..];
        }
    }

    // chunk = chunk-size CRLF chunk-data CRLF  (RFC 9112 section 7.1); an empty one ends the body.
    public async Task WriteChunkAsync(ReadOnlyMemory<byte> data)
    {
        string size = data.Length.ToString("x", CultureInfo.InvariantCulture);
        await WriteAsync(Encoding.ASCII.GetBytes(size + "\r\n"));
        await WriteAsync(data);
        await WriteAsync("\r\n"u8.ToArray());
    }

    public async Task<WireResponse> ReadResponseAsync(string method = "GET")
    {
        WireHead head = await ReadHeadAsync(method);
        using var body = new MemoryStream();
        byte[] part = new byte[BufferSize];
        int count;
        while ((count = await ReadBodyAsync(part)) > 0)
        {
            body.Write(part, 0, count);
        }

        return new WireResponse(head, body.ToArray());
    }

    /// <summary>Nothing more is sent; the other side sees the end of it, and may answer yet.</summary>
    public void FinishSending() => _socket.Shutdown(SocketShutdown.Send);

    /// <summary>Reads the body as far as it comes, and whether it broke off.</summary>
    public async Task<(byte[] Body, bool IsCut)> ReadBodyAsFarAsItComesAsync()
    {
        using var body = new MemoryStream();
        byte[] part = new byte[BufferSize];
        try
        {
            int count;
            while ((count = await ReadBodyAsync(part)) > 0)
            {
                body.Write(part, 0, count);
            }

            return (body.ToArray(), false);
        }
        catch (CutResponseException)
        {
            return (body.ToArray(), true);
        }
    }

    /// <summary>Reads the body to its end without keeping it.</summary>
    /// <returns>Its length, and its SHA-256 in hexadecimal.</returns>
    public async Task<(long Length, string Hash)> ReadBodyHashAsync()
    {
        using var hash = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
        byte[] part = new byte[BufferSize];
        long length = 0;
        int count;
        while ((count = await ReadBodyAsync(part)) > 0)
        {
            hash.AppendData(part, 0, count);
            length += count;
        }

        return (length, Convert.ToHexStringLower(hash.GetHashAndReset()));
    }

    /// <summary>Reads the head of the response; the method says whether a body can follow.</summary>
    public async Task<WireHead> ReadHeadAsync(string method = "GET")
    {
        if (!await TryFillAsync())
        {
            throw new CutResponseException("The connection ended before the answer began.") { IsBeforeFirstByte = true };
        }

        string statusLine = await ReadLineAsync();
        int status = int.Parse(statusLine.Split(' ')[1], CultureInfo.InvariantCulture);
        var headers = new List<KeyValuePair<string, string>>();
        string line;
        while ((line = await ReadLineAsync()).Length > 0)
        {
            int colon = line.IndexOf(':', StringComparison.Ordinal);
            headers.Add(new(line[..colon], line[(colon + 1)..].Trim()));
        }

        var head = new WireHead(status, headers);

        // RFC 9112 section 6.3: no body after HEAD, 204 and 304; else chunks, else the length, else until the close.
        bool noBody = method == "HEAD" || status is 204 or 304;
        _framing = noBody ? BodyFraming.None
            : head.IsChunked ? BodyFraming.Chunked
            : head.ContentLength is null ? BodyFraming.UntilClose
            : BodyFraming.Length;
        _left = _framing == BodyFraming.Length ? head.ContentLength!.Value : 0;
        return head;
    }

    /// <summary>Reads the next bytes of the body; 0 at its end.</summary>
    /// <exception cref="CutResponseException">The connection ended before the body did.</exception>
    public async Task<int> ReadBodyAsync(Memory<byte> destination)
    {
        switch (_framing)
        {
            case BodyFraming.Chunked when _left == 0:
                _left = await ReadChunkSizeAsync();
                if (_left == 0)
                {
                    _framing = BodyFraming.None;
                    return 0;
                }

                break;
            case BodyFraming.Length when _left == 0:
                return 0;
            case BodyFraming.None:
                return 0;
            case BodyFraming.UntilClose:
                return await TryFillAsync() ? Take(destination) : 0;
        }

        if (_start == _end && !await TryFillAsync())
        {
            throw new CutResponseException($"The connection ended {_left} bytes before the body or its chunk.");
        }

        int count = Take(destination[..(int)Math.Min(destination.Length, _left)]);
        _left -= count;
        if (_left == 0 && _framing == BodyFraming.Chunked && (await ReadLineAsync()).Length > 0)
        {
            throw new InvalidDataException("A chunk is longer than its size says.");
        }

        return count;
    }

    /// <summary>Reads a text of the given number of bytes from the body.</summary>
    public async Task<string> ReadBodyTextAsync(int length)
    {
        byte[] text = new byte[length];
        int count = 0;
        while (count < length)
        {
            int more = await ReadBodyAsync(text.AsMemory(count));
            if (more == 0)
            {
                throw new InvalidDataException($"The body ended after {count} of {length} bytes.");
            }

            count += more;
        }

        return Encoding.UTF8.GetString(text);
    }

    public void Dispose()
    {
        _socket.Dispose();
        _deadline.Dispose();
    }

    private async Task<long> ReadChunkSizeAsync()
    {
        string line = await ReadLineAsync();
        if (!long.TryParse(line, NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out long size))
        {
            throw new CutResponseException($"The body goes on with '{line}', which is no chunk.");
        }

        if (size == 0)
        {
            // No front end adds trailers: the empty line that ends the body follows at once.
            _ = await ReadLineAsync();
        }

        return size;
    }

    private async Task<string> ReadLineAsync()
    {
        var line = new StringBuilder();
        while (true)
        {
            if (_start == _end && !await TryFillAsync())
            {
                throw new CutResponseException($"The connection ended in the middle of a line, after '{line}'.");
            }

            char next = (char)_buffer[_start++];
            if (next == '\n')
            {
                return line.ToString().TrimEnd('\r');
            }

            line.Append(next);
        }
    }

    private int Take(Memory<byte> destination)
    {
        int count = Math.Min(destination.Length, _end - _start);
        _buffer.AsMemory(_start, count).CopyTo(destination);
        _start += count;
        return count;
    }

    private async Task<bool> TryFillAsync()
    {
        if (_start < _end)
        {
            return true;
        }

        _start = 0;
        _deadline.CancelAfter(Patience);
        try
        {
            _end = await _socket.ReceiveAsync(_buffer, SocketFlags.None, _deadline.Token);
        }
        catch (SocketException reset) when (reset.SocketErrorCode == SocketError.ConnectionReset)
        {
            _end = 0;
        }
        catch (OperationCanceledException)
        {
            string how = Standstill.Describe();
            throw new TimeoutException($"No more bytes of the response within {Patience.TotalSeconds} s; {await WhatComesLaterAsync()}. {how}");
        }

        return _end > 0;
    }

    // A time limit that ends it says whose it was: 30 s are the application's for a head, 60 s a web server's for its answer.
    private async Task<string> WhatComesLaterAsync()
    {
        long since = Stopwatch.GetTimestamp();
        using var limit = new CancellationTokenSource(LaterPatience);
        try
        {
            int count = await _socket.ReceiveAsync(_buffer, SocketFlags.None, limit.Token);
            return string.Create(CultureInfo.InvariantCulture, $"{count} came {Stopwatch.GetElapsedTime(since).TotalSeconds:0.0} s later ({Encoding.ASCII.GetString(_buffer, 0, Math.Min(count, 40)).ReplaceLineEndings(" ")})");
        }
        catch (Exception end) when (end is SocketException or OperationCanceledException)
        {
            return string.Create(CultureInfo.InvariantCulture, $"none came for another {Stopwatch.GetElapsedTime(since).TotalSeconds:0.0} s ({end.GetType().Name})");
        }
    }
}
