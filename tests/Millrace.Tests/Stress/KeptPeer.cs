// A front server's end of one kept connection to a Unix socket, which knows of each request whether it could be sent. One request
// at a time, a GET without a body.

using System.Net.Sockets;
using System.Text;

namespace Millrace.Tests.Stress;

internal sealed class KeptPeer : IDisposable
{
    private readonly bool _isHttp;
    private readonly Socket _socket = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified) { ReceiveTimeout = 20_000 };
    private readonly byte[] _buffer = new byte[4 * 1024];

    public KeptPeer(string path, bool isHttp)
    {
        _isHttp = isHttp;
        _socket.Connect(new UnixDomainSocketEndPoint(path));
    }

    public enum Answer
    {
        /// <summary>All of it, and the connection goes on.</summary>
        Whole,

        /// <summary>All of it, and the server has said that no other follows.</summary>
        ToldOfEnd,

        /// <summary>The request could not be sent (EPIPE).</summary>
        NotSent,

        /// <summary>It was sent, and nothing, or not all, came back.</summary>
        Lost,
    }

    /// <summary>What came instead of an answer.</summary>
    public string Fault { get; private set; } = "";

    public Answer Ask(string path)
    {
        byte[] request = _isHttp ? Encoding.ASCII.GetBytes($"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n") : new FastCgiRequest(path).ToBytes();
        try
        {
            Assert.Equal(request.Length, _socket.Send(request));
        }
        catch (SocketException error) when (error.SocketErrorCode is SocketError.Shutdown)
        {
            return Answer.NotSent;
        }

        int end = 0;
        try
        {
            while (!IsWhole(_buffer.AsSpan(0, end), path))
            {
                int count = _socket.Receive(_buffer, end, _buffer.Length - end, SocketFlags.None);
                if (count == 0)
                {
                    Fault = $"the end behind {end} bytes";
                    return Answer.Lost;
                }

                end += count;
            }
        }
        catch (SocketException error)
        {
            Fault = $"{error.SocketErrorCode} behind {end} bytes";
            return Answer.Lost;
        }

        return _isHttp && _buffer.AsSpan(0, end).IndexOf("Connection: close"u8) >= 0 ? Answer.ToldOfEnd : Answer.Whole;
    }

    // The body is the path; behind it FastCGI has its END_REQUEST (type 3, id 1, 8 bytes).
    private bool IsWhole(ReadOnlySpan<byte> bytes, string path)
    {
        ReadOnlySpan<byte> body = Encoding.ASCII.GetBytes($"\r\n\r\n{path}");
        int at = bytes.IndexOf(body);
        return at >= 0 && (_isHttp || bytes[(at + body.Length)..].IndexOf((ReadOnlySpan<byte>)[1, 3, 0, 1, 0, 8]) is >= 0 and int last && bytes.Length - at - body.Length >= last + 16);
    }

    public void Dispose() => _socket.Dispose();
}
