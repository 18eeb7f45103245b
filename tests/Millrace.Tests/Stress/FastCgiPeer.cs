// The front server's end of one connection, on a blocking socket: sends bytes, reads one response at a time and keeps
// what follows it. Not here: pools of connections, retries.

using System.Buffers;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Millrace.Protocols;
using Millrace.Protocols.FastCgi;

namespace Millrace.Tests.Stress;

internal sealed class FastCgiPeer : IDisposable
{
    private const int PatienceMs = 20_000;

    private readonly Socket _socket;
    private readonly byte[] _buffer = new byte[64 * 1024];
    private readonly ArrayBufferWriter<byte> _stdout = new();
    private readonly ArrayBufferWriter<byte> _stderr = new();
    private readonly ArrayBufferWriter<byte> _content = new();
    private RecordReader _reader;
    private int _start;
    private bool _wasReset;
    private int _end;

    private FastCgiPeer(Socket socket) => _socket = socket;

    public int BytesWaiting => _end - _start;

    public Socket Socket => _socket;

    /// <param name="address">As the server reports it: <c>fastcgi://127.0.0.1:9000</c> or <c>fastcgi://unix:/path?mode=600</c>.</param>
    public static FastCgiPeer Connect(string address)
    {
        string rest = address["fastcgi://".Length..].Split('?')[0];
        Socket socket;
        if (rest.StartsWith("unix:", StringComparison.Ordinal))
        {
            socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
            socket.Connect(new UnixDomainSocketEndPoint(rest["unix:".Length..]));
        }
        else
        {
            socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
            socket.Connect(IPEndPoint.Parse(rest));
        }

        socket.ReceiveTimeout = PatienceMs;
        socket.SendTimeout = PatienceMs;
        return new FastCgiPeer(socket);
    }

    public FastCgiResponse Exchange(FastCgiRequest request)
    {
        Send(request.ToBytes());
        return Receive();
    }

    public void Send(ReadOnlySpan<byte> bytes)
    {
        while (bytes.Length > 0)
        {
            bytes = bytes[_socket.Send(bytes)..];
        }
    }

    /// <summary>Reads to END_REQUEST, to a record broken on purpose, or to the end or the reset of the connection.</summary>
    /// <exception cref="InvalidDataException">The server has sent what no server may.</exception>
    public FastCgiResponse Receive(ushort id = 1)
    {
        _stdout.ResetWrittenCount();
        _stderr.ResetWrittenCount();
        int stdoutEnds = 0;
        while (true)
        {
            ReadResult result = _reader.Read(_buffer.AsSpan(_start, _end - _start), out int consumed, out RecordPart part);
            int at = _start + part.Start;
            _start += consumed;
            if (result == ReadResult.Faulty)
            {
                // How the server says that an answer is not whole: nothing may follow the broken record.
                FastCgiResponse broken = Response(null, stdoutEnds, isBroken: true);
                _start = _end;
                return _socket.Poll(PatienceMs * 1000, SelectMode.SelectRead) && _socket.Available == 0
                    ? broken
                    : throw new InvalidDataException("Bytes follow a broken record.");
            }

            if (result == ReadResult.NeedMore)
            {
                if (Fill())
                {
                    continue;
                }

                return Response(null, stdoutEnds, isBroken: _wasReset);
            }

            if (part.RequestId != id)
            {
                throw new InvalidDataException($"A record {part.Type} of request {part.RequestId} came while {id} was served.");
            }

            ReadOnlySpan<byte> piece = _buffer.AsSpan(at, part.Length);
            switch (part.Type)
            {
                case RecordType.Stdout when part.ContentLength == 0:
                    stdoutEnds++;
                    break;
                case RecordType.Stdout when stdoutEnds == 0:
                    _stdout.Write(piece);
                    break;
                case RecordType.Stderr:
                    _stderr.Write(piece);
                    break;
                case RecordType.EndRequest when part.ContentLength == EndRequest.Size:
                    _content.Write(piece);
                    if (part.IsLast)
                    {
                        EndRequest end = EndRequest.Read(_content.WrittenSpan);
                        _content.ResetWrittenCount();
                        return Response(end, stdoutEnds);
                    }

                    break;
                default:
                    throw new InvalidDataException($"A record {part.Type} of {part.ContentLength} bytes has no place here.");
            }
        }
    }

    /// <summary>Reads STDOUT until this many bytes of it, or more, have come. The connection can then only be closed.</summary>
    public string ReceiveSome(int bytes)
    {
        _stdout.ResetWrittenCount();
        while (_stdout.WrittenCount < bytes)
        {
            ReadResult result = _reader.Read(_buffer.AsSpan(_start, _end - _start), out int consumed, out RecordPart part);
            if (result == ReadResult.Done && part.Type == RecordType.Stdout)
            {
                _stdout.Write(_buffer.AsSpan(_start + part.Start, part.Length));
            }

            _start += consumed;
            if (result == ReadResult.NeedMore && !Fill())
            {
                break;
            }
        }

        return Encoding.UTF8.GetString(_stdout.WrittenSpan);
    }

    /// <summary>True when the server closes the connection without sending anything more.</summary>
    public bool IsClosedByServer()
    {
        _start = _end;
        try
        {
            return _socket.Receive(_buffer) == 0;
        }
        catch (SocketException error) when (error.SocketErrorCode is SocketError.ConnectionReset)
        {
            return true;
        }
    }

    public void ShutdownSend() => _socket.Shutdown(SocketShutdown.Send);

    /// <summary>Closes with a reset (TCP) or at once (Unix).</summary>
    public void Reset()
    {
        if (_socket.AddressFamily != AddressFamily.Unix)
        {
            _socket.LingerState = new LingerOption(true, 0);
        }

        _socket.Dispose();
    }

    public void Dispose() => _socket.Dispose();

    private FastCgiResponse Response(EndRequest? end, int stdoutEnds, bool isBroken = false) =>
        new(_stdout.WrittenSpan.ToArray(), Encoding.UTF8.GetString(_stderr.WrittenSpan), end, stdoutEnds) { IsBroken = isBroken };

    private bool Fill()
    {
        _start = _end = 0;
        try
        {
            _end = _socket.Receive(_buffer);
        }
        catch (SocketException error) when (error.SocketErrorCode is SocketError.ConnectionReset)
        {
            _wasReset = true;
        }

        return _end > 0;
    }
}
