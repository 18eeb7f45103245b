// One GET over HTTP/2 without TLS (RFC 9113 §3.3), with fields exactly as given: HttpClient would never send two hosts. Reads the body; of the head of the response nothing.

using System.Buffers.Binary;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Millrace.Interop.Client;

internal static class PlainHttp2
{
    private const byte Data = 0;
    private const byte Headers = 1;
    private const byte ResetStream = 3;
    private const byte Settings = 4;
    private const byte GoAway = 7;
    private const byte EndStream = 1;
    private const byte Acknowledged = 1;
    private const byte EndHeaders = 4;
    private const int HeadSize = 9;

    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(20);

    /// <summary>The content of the answer; empty where it has none, and where the stream was reset.</summary>
    public static async Task<byte[]> GetAsync(IPEndPoint place, string path, string authority, string? host)
    {
        using var deadline = new CancellationTokenSource(Patience);
        using var socket = new Socket(place.AddressFamily, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        await socket.ConnectAsync(place, deadline.Token);
        await using var stream = new NetworkStream(socket);
        (string, string)[] fields = [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", authority), .. host is null ? [] : ((string, string)[])[("host", host)]];
        byte[] block = [.. fields.SelectMany(static field => Literal(field.Item1, field.Item2))];
        await stream.WriteAsync((byte[])[.. "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"u8, .. Frame(Settings, 0, 0, []), .. Frame(Headers, EndHeaders | EndStream, 1, block)], deadline.Token);

        using var content = new MemoryStream();
        byte[] head = new byte[HeadSize];
        while (true)
        {
            await stream.ReadExactlyAsync(head, deadline.Token);
            byte[] payload = new byte[(head[0] << 16) | (head[1] << 8) | head[2]];
            await stream.ReadExactlyAsync(payload, deadline.Token);
            (byte type, byte flags) = (head[3], head[4]);
            if (type == Settings && (flags & Acknowledged) == 0)
            {
                await stream.WriteAsync(Frame(Settings, Acknowledged, 0, []), deadline.Token);
            }

            if (type == Data)
            {
                content.Write(payload);
            }

            if (type is ResetStream or GoAway || (type is Data or Headers && (flags & EndStream) != 0))
            {
                return content.ToArray();
            }
        }
    }

    // RFC 7541 §6.2.2: a literal that is not indexed, with a new name; no Huffman code, lengths below 127.
    private static byte[] Literal(string name, string value) => [0, (byte)name.Length, .. Encoding.ASCII.GetBytes(name), (byte)value.Length, .. Encoding.ASCII.GetBytes(value)];

    // RFC 9113 §4.1: length(24) type(8) flags(8) stream(32)
    private static byte[] Frame(byte type, byte flags, int stream, byte[] payload)
    {
        byte[] frame = new byte[HeadSize + payload.Length];
        BinaryPrimitives.WriteInt32BigEndian(frame, payload.Length << 8);
        (frame[3], frame[4]) = (type, flags);
        BinaryPrimitives.WriteInt32BigEndian(frame.AsSpan(5), stream);
        payload.CopyTo(frame, HeadSize);
        return frame;
    }
}
