// A client's end of one HTTP/1.1 connection, on a blocking socket: sends a request of the stress test's kinds and checks
// every byte of the answer as it comes. Not here: pools, retries, trailers.

using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Text;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Soak;

internal sealed class SoakConnection : IDisposable
{
    private const int PatienceMs = 20_000;

    private readonly Socket _socket;
    private readonly byte[] _buffer = new byte[16 * 1024];
    private readonly byte[] _expected = new byte[16 * 1024];
    private int _start;
    private int _end;

    private SoakConnection(Socket socket) => _socket = socket;

    /// <summary>Requests answered on this connection.</summary>
    public int Answered { get; private set; }

    /// <summary>The server has said that the connection ends with the last answer.</summary>
    public bool IsOver { get; private set; }

    /// <summary>Bytes have come since the last request was sent.</summary>
    public bool HasReceived { get; private set; }

    public Socket Socket => _socket;

    public EndPoint Remote => _socket.RemoteEndPoint!;

    public static SoakConnection Connect(IPEndPoint place)
    {
        var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true, ReceiveTimeout = PatienceMs, SendTimeout = PatienceMs };
        try
        {
            socket.Connect(place);
        }
        catch
        {
            socket.Dispose();
            throw;
        }

        return new SoakConnection(socket);
    }

    public void Send(ReadOnlySpan<byte> bytes)
    {
        while (bytes.Length > 0)
        {
            bytes = bytes[_socket.Send(bytes)..];
        }
    }

    public void SendRequest(StressKind kind, int id, int number, byte[]? body = null, bool keepsOpen = true)
    {
        HasReceived = false;
        string head = string.Create(CultureInfo.InvariantCulture, $"{(body is null ? "GET" : "POST")} /{kind}?{id}&{number} HTTP/1.1\r\nHost: soak\r\n");
        head += (body is null ? "" : string.Create(CultureInfo.InvariantCulture, $"Content-Length: {body.Length}\r\n")) + (keepsOpen ? "\r\n" : "Connection: close\r\n\r\n");
        Send(Encoding.ASCII.GetBytes(head));
        if (body is not null)
        {
            Send(body);
        }
    }

    /// <summary>Reads one answer and compares it with what the request must be answered with.</summary>
    /// <param name="kind">The request's.</param>
    /// <param name="id">The request's.</param>
    /// <param name="number">The request's.</param>
    /// <param name="body">The request's.</param>
    /// <param name="pause">Called before each piece of the answer is read.</param>
    /// <exception cref="InvalidDataException">It is wrong, or not whole.</exception>
    public void Check(StressKind kind, int id, int number, byte[]? body = null, Action? pause = null)
    {
        (int status, long length, string? answered) = ReadHead();
        int expectedStatus = kind is StressKind.Throw or StressKind.ThrowLater ? 500 : 200;
        string request = string.Create(CultureInfo.InvariantCulture, $"request {id} ({kind} {number})");
        if (status != expectedStatus || (status == 200 && answered != id.ToString(CultureInfo.InvariantCulture)))
        {
            throw new InvalidDataException($"{request} got status {status} for request {answered}");
        }

        byte[]? whole = status == 500 || kind == StressKind.Stream ? null : kind == StressKind.Upload
            ? Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{body!.Length} {Convert.ToHexString(SHA256.HashData(body))}"))
            : StressContent.Hello(id);
        long wanted = kind == StressKind.Stream ? number : whole?.Length ?? length;
        int at = 0;
        for (long left = length < 0 ? ReadChunkSize() : length; left > 0;)
        {
            pause?.Invoke();
            Fill();
            int count = (int)Math.Min(left, _end - _start);
            if (status == 200)
            {
                if (at + count > wanted)
                {
                    throw new InvalidDataException($"{request} got more than {wanted} bytes");
                }

                Span<byte> expected = whole is null ? _expected.AsSpan(0, count) : whole.AsSpan(at, count);
                if (whole is null)
                {
                    StressContent.Fill(expected, id, at);
                }

                if (!expected.SequenceEqual(_buffer.AsSpan(_start, count)))
                {
                    throw new InvalidDataException($"{request} got a wrong byte at {at + expected.CommonPrefixLength(_buffer.AsSpan(_start, count))}");
                }
            }

            at += count;
            _start += count;
            left -= count;
            if (left == 0 && length < 0)
            {
                _ = ReadLine();
                left = ReadChunkSize();
            }
        }

        if (status == 200 && at != wanted)
        {
            throw new InvalidDataException($"{request} got {at} of {wanted} bytes");
        }

        Answered++;
    }

    /// <summary>Ends the connection with a reset.</summary>
    public void Reset()
    {
        _socket.LingerState = new LingerOption(true, 0);
        _socket.Dispose();
    }

    public void Dispose() => _socket.Dispose();

    private (int Status, long Length, string? Id) ReadHead()
    {
        string line = ReadLine();
        if (!line.StartsWith("HTTP/1.1 ", StringComparison.Ordinal))
        {
            throw new InvalidDataException($"not a status line: {line}");
        }

        int status = int.Parse(line.AsSpan(9, 3), CultureInfo.InvariantCulture);
        long length = -1;
        string? id = null;
        while ((line = ReadLine()).Length > 0)
        {
            if (line.StartsWith("Content-Length: ", StringComparison.OrdinalIgnoreCase))
            {
                length = long.Parse(line.AsSpan(16), CultureInfo.InvariantCulture);
            }
            else if (line.StartsWith("X-Id: ", StringComparison.OrdinalIgnoreCase))
            {
                id = line[6..];
            }
            else if (line.Equals("Connection: close", StringComparison.OrdinalIgnoreCase))
            {
                IsOver = true;
            }
        }

        return (status, length, id);
    }

    private long ReadChunkSize()
    {
        long size = long.Parse(ReadLine(), NumberStyles.HexNumber, CultureInfo.InvariantCulture);
        if (size == 0)
        {
            _ = ReadLine();
        }

        return size;
    }

    private string ReadLine()
    {
        var line = new StringBuilder();
        while (true)
        {
            Fill();
            int end = _buffer.AsSpan(_start, _end - _start).IndexOf((byte)'\n');
            int count = end < 0 ? _end - _start : end;
            line.Append(Encoding.Latin1.GetString(_buffer, _start, count));
            _start += count;
            if (end >= 0)
            {
                _start++;
                return line.ToString().TrimEnd('\r');
            }
        }
    }

    private void Fill()
    {
        if (_start == _end)
        {
            _start = 0;
            _end = _socket.Receive(_buffer);
            if (_end == 0)
            {
                throw new EndOfStreamException("the connection ended before the answer did");
            }

            HasReceived = true;
        }
    }
}
