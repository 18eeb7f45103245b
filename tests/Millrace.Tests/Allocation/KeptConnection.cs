// A client on a kept connection that asks the same thing again and again, over either protocol.

using System.Globalization;
using System.Net.Sockets;
using System.Text;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Allocation;

internal abstract class KeptConnection : IDisposable
{
    /// <param name="address">As the server reports it.</param>
    /// <param name="target">What is asked.</param>
    /// <param name="fields">Header fields beside Host.</param>
    public static KeptConnection Open(string address, string target, params (string Name, string Value)[] fields) => Open(address, target, body: null, fields);

    /// <param name="address">As the server reports it.</param>
    /// <param name="target">What is asked.</param>
    /// <param name="body">What is posted with it; null for GET.</param>
    /// <param name="fields">Header fields beside Host.</param>
    public static KeptConnection Open(string address, string target, string? body, params (string Name, string Value)[] fields) =>
        address.StartsWith("http:", StringComparison.Ordinal) ? new OverHttp(address, target, body, fields) : new OverFastCgi(address, target, body, fields);

    /// <summary>Asks once more and answers the status and the text.</summary>
    public abstract (int Status, string Text) Ask();

    /// <summary>Asks, and does not wait for the answer.</summary>
    public abstract void Send();

    /// <summary>The fields of the last answer.</summary>
    public abstract string Fields { get; }

    public abstract void Dispose();

    private sealed class OverFastCgi : KeptConnection
    {
        private readonly FastCgiPeer _peer;
        private readonly byte[] _request;

        private FastCgiResponse? _last;

        public OverFastCgi(string address, string target, string? body, (string Name, string Value)[] fields)
        {
            _peer = FastCgiPeer.Connect(address);
            var request = new FastCgiRequest(target, body is null ? "GET" : "POST") { Body = body is null ? null : Encoding.ASCII.GetBytes(body) };
            Array.ForEach(fields, field => request.WithHeader(field.Name, field.Value));
            _request = request.ToBytes();
        }

        public override (int Status, string Text) Ask()
        {
            Send();
            _last = _peer.Receive();
            Assert.True(_last.IsWhole, _last.ToString());
            return (_last.Status, _last.Text);
        }

        public override void Send() => _peer.Send(_request);

        public override string Fields => string.Join('\n', _last!.Fields);

        public override void Dispose() => _peer.Dispose();
    }

    private sealed class OverHttp : KeptConnection
    {
        private readonly Socket _socket = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified) { ReceiveTimeout = 20_000 };
        private readonly byte[] _request;
        private byte[] _buffer = new byte[8 * 1024];
        private int _count;

        public OverHttp(string address, string target, string? body, (string Name, string Value)[] fields)
        {
            _socket.Connect(new UnixDomainSocketEndPoint(address["http://unix:".Length..].Split('?')[0]));
            string length = body is null ? "" : string.Create(CultureInfo.InvariantCulture, $"Content-Length: {body.Length}\r\n");
            _request = Encoding.ASCII.GetBytes(
                $"{(body is null ? "GET" : "POST")} {target} HTTP/1.1\r\nHost: example.com\r\n{length}{string.Concat(fields.Select(static field => $"{field.Name}: {field.Value}\r\n"))}\r\n{body}");
        }

        public override string Fields => Encoding.Latin1.GetString(_buffer, 0, _buffer.AsSpan(0, _count).IndexOf("\r\n\r\n"u8));

        public override void Send() => Assert.Equal(_request.Length, _socket.Send(_request));

        public override (int Status, string Text) Ask()
        {
            Send();
            int count = 0;
            while (true)
            {
                int received = _socket.Receive(_buffer, count, _buffer.Length - count, SocketFlags.None);
                if (received == 0 && _buffer.AsSpan(0, count).StartsWith("HTTP/1.1 101"u8))
                {
                    return (101, "");       // a tunnel ends with its connection
                }

                Assert.True(received > 0, "the server closed the connection");
                _count = count += received;
                if (Whole(_buffer.AsSpan(0, count)) is { } answer)
                {
                    return answer;
                }

                if (count == _buffer.Length)
                {
                    Array.Resize(ref _buffer, count * 2);
                }
            }
        }

        // Only what the tests ask for: a final response with a length, or in one chunk.
        private static (int, string)? Whole(ReadOnlySpan<byte> bytes)
        {
            int head = bytes.IndexOf("\r\n\r\n"u8) + 4;
            if (head < 4)
            {
                return null;
            }

            int status = int.Parse(bytes[9..12], CultureInfo.InvariantCulture);
            int at = bytes[..head].IndexOf("Content-Length: "u8);
            if (at < 0)
            {
                ReadOnlySpan<byte> chunked = bytes[head..];
                return chunked.SequenceEqual("0\r\n\r\n"u8) ? (status, "")
                    : chunked.EndsWith("\r\n0\r\n\r\n"u8) ? (status, Encoding.UTF8.GetString(chunked[(chunked.IndexOf((byte)'\n') + 1)..^7]))
                    : null;
            }

            ReadOnlySpan<byte> digits = bytes[(at + 16)..head];
            int length = int.Parse(digits[..digits.IndexOf((byte)'\r')], CultureInfo.InvariantCulture);
            return bytes.Length < head + length ? null : (status, Encoding.UTF8.GetString(bytes.Slice(head, length)));
        }

        public override void Dispose() => _socket.Dispose();
    }
}
