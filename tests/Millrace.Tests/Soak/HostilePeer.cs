// One client that means harm: floods of connections, garbage, heads and bodies that never end, answers that are never
// read, management records and chunk extensions without end. It does one thing after the other and holds what it holds.

using System.Net;
using System.Net.Sockets;
using System.Text;
using Millrace.Protocols.FastCgi;
using Millrace.Tests.Protocols.FastCgi;
using Millrace.Tests.Protocols.Http1;

namespace Millrace.Tests.Soak;

internal enum Harm
{
    /// <summary>Connects and closes, again and again.</summary>
    Connects,

    /// <summary>Vectors of the readers with bytes changed, cut, doubled and left out.</summary>
    Garbage,

    /// <summary>A head of which one byte comes from time to time.</summary>
    SlowHead,

    /// <summary>A body that stops halfway.</summary>
    HalfBody,

    /// <summary>Requests for long answers that nobody reads.</summary>
    UnreadAnswers,

    /// <summary>GET_VALUES and records of unknown types.</summary>
    Management,

    /// <summary>Chunks whose extensions never end.</summary>
    ChunkExtensions,
}

internal sealed class HostilePeer(IPEndPoint http, string fastCgi, int seed) : IDisposable
{
    private const int HeldMax = 8;

    private static readonly byte[][] s_http = [.. Http1Vector.All.Select(static vector => vector.Bytes).Where(static bytes => bytes.Length is > 0 and < 20_000)];
    private static readonly byte[][] s_fastCgi = [.. Directory.GetFiles(VectorFile.Folder, "*.vec")
        .Select(static path => VectorFile.Load(Path.GetFileName(path)).Input).Where(static bytes => bytes.Length is > 0 and < 20_000)];

    private readonly Random _random = new(seed);
    private readonly Queue<Socket> _held = new();
    private readonly byte[] _scratch = new byte[4096];

    /// <summary>Things done so far.</summary>
    public long Done { get; private set; }

    /// <summary>Connections made so far.</summary>
    public long Connections { get; private set; }

    public static int Kinds { get; } = Enum.GetValues<Harm>().Length;

    /// <summary>Does one thing; that the server breaks the connection off is its right.</summary>
    public void Step(Harm harm)
    {
        Done++;
        try
        {
            switch (harm)
            {
                case Harm.Connects:
                    for (int i = 0; i < 10; i++)
                    {
                        Connect(_random.Next(2) == 0).Dispose();
                    }

                    break;
                case Harm.Garbage:
                    SendGarbage();
                    break;
                case Harm.SlowHead:
                    SendToHeld(static (peer, isNew) => isNew ? "GET /slow HTTP/1.1\r\nHost: x\r\nX-"u8.ToArray() : [(byte)('a' + peer._random.Next(26))]);
                    break;
                case Harm.HalfBody:
                    Hold(Connect(true), Encoding.ASCII.GetBytes($"POST /Upload?{_random.Next(1000)}&0 HTTP/1.1\r\nHost: x\r\nContent-Length: {_random.Next(2_000, 2_000_000)}\r\n\r\n{new string('b', 1_000)}"));
                    break;
                case Harm.UnreadAnswers:
                    SendToHeld(static (peer, isNew) => Encoding.ASCII.GetBytes($"GET /Stream?{peer._random.Next(1000)}&3000000 HTTP/1.1\r\nHost: x\r\n\r\n"));
                    break;
                case Harm.Management:
                    SendManagement();
                    break;
                default:
                    SendToHeld(static (peer, isNew) => [.. isNew ? "POST /Upload?1&0 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"u8 : "1\r\n"u8, .. Encoding.ASCII.GetBytes($"1;{new string('x', peer._random.Next(2_000))}\r\n")]);
                    break;
            }
        }
        catch (SocketException)
        {
        }
        catch (IOException)
        {
        }
    }

    public void Dispose()
    {
        while (_held.TryDequeue(out Socket? socket))
        {
            socket.Dispose();
        }
    }

    private void SendGarbage()
    {
        bool isHttp = _random.Next(2) == 0;
        using Socket socket = Connect(isHttp);
        socket.Send(Mutated(isHttp ? s_http : s_fastCgi));
        if (_random.Next(3) == 0)
        {
            socket.Shutdown(SocketShutdown.Send);
        }

        socket.ReceiveTimeout = 20;
        while (_random.Next(4) > 0 && socket.Receive(_scratch) > 0)
        {
        }

        if (_random.Next(3) == 0)
        {
            socket.LingerState = new LingerOption(true, 0);
        }
    }

    private byte[] Mutated(byte[][] corpus)
    {
        byte[] bytes = [.. corpus[_random.Next(corpus.Length)]];
        for (int i = _random.Next(4); i > 0; i--)
        {
            int at = _random.Next(bytes.Length);
            switch (_random.Next(4))
            {
                case 0:
                    bytes[at] = (byte)_random.Next(256);
                    break;
                case 1:
                    bytes = [.. bytes[..at], .. bytes[at..], .. bytes[at..]];
                    break;
                case 2 when at > 0:
                    bytes = bytes[..at];
                    break;
                default:
                    bytes = [.. bytes[..at], .. corpus[_random.Next(corpus.Length)]];
                    break;
            }
        }

        return bytes;
    }

    private void SendManagement()
    {
        using Socket socket = Connect(http: false);
        Span<byte> record = stackalloc byte[RecordHeader.Size + 16];
        record.Clear();
        RecordHeader.Write(record, _random.Next(2) == 0 ? RecordType.GetValues : (RecordType)_random.Next(12, 256), 0, 16, 0);
        new byte[] { 14, 0 }.CopyTo(record[RecordHeader.Size..]);
        Encoding.ASCII.GetBytes("FCGI_MAX_CONNS").CopyTo(record[(RecordHeader.Size + 2)..]);
        for (int i = 0; i < 200; i++)
        {
            socket.Send(record);
        }
    }

    // Mostly goes on with a connection it has, sometimes with a new one in its place.
    private void SendToHeld(Func<HostilePeer, bool, byte[]> bytes)
    {
        if (_held.Count == HeldMax && _random.Next(10) > 0 && _held.TryDequeue(out Socket? old))
        {
            Hold(old, bytes(this, false));
            return;
        }

        Hold(Connect(true), bytes(this, true));
    }

    private void Hold(Socket socket, byte[] bytes)
    {
        try
        {
            socket.Blocking = false;
            _ = socket.Send(bytes, SocketFlags.None, out _);
        }
        catch (SocketException)
        {
            socket.Dispose();
            throw;
        }

        _held.Enqueue(socket);
        if (_held.Count > HeldMax)
        {
            _held.Dequeue().Dispose();
        }
    }

    private Socket Connect(bool http)
    {
        Connections++;
        if (!http)
        {
            return FastCgiPeer().Socket;
        }

        var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { SendTimeout = 200, ReceiveBufferSize = 8 * 1024 };
        try
        {
            socket.Connect(HttpPlace);
        }
        catch
        {
            socket.Dispose();
            throw;
        }

        return socket;
    }

    private IPEndPoint HttpPlace => http;

    private Stress.FastCgiPeer FastCgiPeer()
    {
        Stress.FastCgiPeer peer = Stress.FastCgiPeer.Connect(fastCgi);
        peer.Socket.SendTimeout = 200;
        return peer;
    }
}
