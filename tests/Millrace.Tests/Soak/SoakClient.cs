// One well-behaved client of the soak: it asks, uploads, downloads, reads slowly and goes away in the middle, directly
// and through nginx, and checks every byte it gets. Each instance is a thread.

using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Soak;

internal sealed class SoakClient(SoakServer server, SoakNginx nginx, int seed) : IDisposable
{
    private static readonly StressKind[] s_kinds =
    [
        StressKind.Hello, StressKind.Hello, StressKind.Hello, StressKind.Hello, StressKind.Hello, StressKind.Hello, StressKind.Spin, StressKind.Sleep,
        StressKind.Delay, StressKind.Yield, StressKind.Yield, StressKind.Upload, StressKind.Upload, StressKind.Stream, StressKind.Throw, StressKind.ThrowLater,
    ];

    private readonly Random _random = new(seed);
    private readonly SoakConnection?[] _kept = new SoakConnection?[3];

    /// <summary>Requests answered as they should.</summary>
    public long Answered { get; private set; }

    /// <summary>Requests this client went away from.</summary>
    public long GivenUp { get; private set; }

    public long Connections { get; private set; }

    /// <exception cref="InvalidDataException">An answer is wrong.</exception>
    /// <exception cref="IOException">A request is lost.</exception>
    public void Step()
    {
        switch (_random.Next(100))
        {
            case < 60:
                AskOnKept(_random.Next(3));
                break;
            case < 90:
                AskOnce();
                break;
            case < 96:
                Leave();
                break;
            case < 97:
                ReadSlowly();
                break;
            default:
                SendSeveral();
                break;
        }
    }

    public void Dispose() => Array.ForEach(_kept, static peer => peer?.Dispose());

    private IPEndPoint Place(int which) => which switch { 0 => server.Http, 1 => nginx.FastCgi, _ => nginx.Http };

    private SoakConnection Connect(int which)
    {
        Connections++;
        return SoakConnection.Connect(Place(which));
    }

    // A connection that was kept may be closed just then, by an nginx that was told to reload: then a new one is taken, once.
    private void AskOnKept(int which)
    {
        SoakConnection peer = _kept[which] ?? Connect(which);
        _kept[which] = null;
        bool isNew = peer.Answered == 0;
        try
        {
            Ask(peer, keepsOpen: true);
        }
        catch (Exception error) when (!isNew && which != 0 && !peer.HasReceived && error is EndOfStreamException or SocketException { SocketErrorCode: SocketError.ConnectionReset or SocketError.Shutdown })
        {
            peer.Dispose();
            peer = Connect(which);
            Ask(peer, keepsOpen: true);
        }

        if (peer.IsOver)
        {
            peer.Dispose();
        }
        else
        {
            _kept[which] = peer;
        }
    }

    private void AskOnce()
    {
        using SoakConnection peer = Connect(_random.Next(3));
        Ask(peer, keepsOpen: _random.Next(2) == 0);
    }

    private void Ask(SoakConnection peer, bool keepsOpen)
    {
        StressKind kind = s_kinds[_random.Next(s_kinds.Length)];
        int id = server.NextId();
        int number = NumberFor(kind);
        byte[]? body = kind == StressKind.Upload ? StressContent.Long(id, _random.Next(10) == 0 ? _random.Next(200_000) : _random.Next(5_000)) : null;
        long asked = Stopwatch.GetTimestamp();
        try
        {
            peer.SendRequest(kind, id, number, body, keepsOpen);
            peer.Check(kind, id, number, body);
        }
        catch (EndOfStreamException error) when (peer.HasReceived)
        {
            string where = peer.Remote.Equals(server.Http) ? "directly" : peer.Remote.Equals(nginx.FastCgi) ? "nginx, FastCGI" : "nginx, HTTP";
            throw new InvalidDataException($"{where}: half an answer to request {id} ({kind} {number}), {Stopwatch.GetElapsedTime(asked).TotalSeconds:F1} s after it was sent; the server refused {server.Refusals}", error);
        }

        Answered++;
    }

    private int NumberFor(StressKind kind) => kind switch
    {
        StressKind.Spin => _random.Next(200, 2_000),
        StressKind.Sleep or StressKind.Yield => _random.Next(1, 4),
        StressKind.Stream => _random.Next(10) == 0 ? _random.Next(2_000_000) : _random.Next(50_000),
        _ => _random.Next(3),
    };

    private void SendSeveral()
    {
        using SoakConnection peer = Connect(0);
        int first = server.NextId();
        int count = _random.Next(2, 6);
        for (int i = 0; i < count; i++)
        {
            peer.SendRequest(i % 2 == 0 ? StressKind.Hello : StressKind.Yield, first, 2);
        }

        for (int i = 0; i < count; i++)
        {
            peer.Check(i % 2 == 0 ? StressKind.Hello : StressKind.Yield, first, 2);
            Answered++;
        }
    }

    private void ReadSlowly()
    {
        using SoakConnection peer = Connect(_random.Next(3));
        int id = server.NextId();
        peer.SendRequest(StressKind.Stream, id, 400_000);
        peer.Check(StressKind.Stream, id, 400_000, pause: () => Thread.Sleep(_random.Next(8)));
        Answered++;
    }

    private void Leave()
    {
        SoakConnection peer = Connect(_random.Next(3));
        int id = server.NextId();
        GivenUp++;
        switch (_random.Next(4))
        {
            case 0:
                peer.Send("POST /Upload?1&0 HTTP/1.1\r\nHost: soak\r\nContent-Length: 100000\r\n\r\nonly the beginning"u8);
                break;
            case 1:
                peer.Send("GET /Hello?1&0 HT"u8);
                break;
            case 2:
                peer.SendRequest(StressKind.UntilAborted, id, _random.Next(6));
                break;
            default:
                peer.SendRequest(StressKind.Stream, id, 1_000_000);
                break;
        }

        Thread.Sleep(_random.Next(3));
        if (_random.Next(2) == 0)
        {
            peer.Reset();
        }
        else
        {
            peer.Dispose();
        }
    }
}
