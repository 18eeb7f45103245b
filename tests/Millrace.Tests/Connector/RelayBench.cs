// A router of one loop over the simulated kernel: clients on one side, a responder on the other that does what a test tells it, and a handler that says that it was
// called, where the loop does not pass a request on by itself.

using System.Buffers.Binary;
using System.Diagnostics.Metrics;
using System.Net.Sockets;
using System.Text;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Millrace.AspNetCore;
using Millrace.Command.Verbs;
using Millrace.Connector;
using Millrace.Handlers;
using Millrace.Listeners;
using Millrace.Tests.Behaviour;
using Millrace.Tests.Behaviour.Http1;
using Millrace.Tests.Command;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Connector;

internal sealed class RelayBench : Bench, IRelayRoutes, IDisposable
{
    public const string SocketPath = "/run/responder.sock";

    private readonly FastCgiRelays _relays;
    private readonly RelayRoute _route = new(0, "", null);

    private RelayBench(ConnectionLimits limits, string address)
        : base(new DelegateHandler(static (_, response) => response.WriteText("handler")), OptionsOfRouter(), address)
    {
        Pool = new ConnectionPool(new UnixDomainSocketEndPoint(SocketPath), limits);
        _relays = new FastCgiRelays(this, [new RelayUpstream(SocketName.Write(SocketPath), SocketPath, Pool, Said.Add, Failures.Add)], limits);
        Simulation.Loops[0].Loop.Relay = _relays.Make(Simulation.Loops[0].Loop);
        Simulation.World.Responders = Accept;
    }

    // As `millrace route` has them.
    private static MillraceOptions OptionsOfRouter()
    {
        var kestrel = new KestrelServerOptions();
        RouteVerb.LeaveToApplications(kestrel);
        var options = new MillraceOptions { Loops = 1 };
        new KestrelSettings(Microsoft.Extensions.Options.Options.Create(kestrel)).Apply(options);
        return options;
    }

    public static void Run(Action<RelayBench> test, ConnectionLimits? limits = null, string address = "http://127.0.0.1:9000") => SimulationThread.Run(() =>
    {
        using var bench = new RelayBench(limits ?? ConnectionLimits.Default, address);
        test(bench);
        bench.End();
    });

    /// <summary>What the responder does with a request that has come whole.</summary>
    public Action<SimulatedResponder> OnRequest { get; set; } = static responder => responder.Answer("X: 1\r\n\r\nbody");

    /// <summary>What becomes of those who connect: a descriptor, or a result of the kernel.</summary>
    public int ConnectResult { get; set; }

    /// <summary>Connections to the responder, in the order in which they came.</summary>
    public List<SimulatedResponder> Responders { get; } = [];

    /// <summary>That of the handler of a router.</summary>
    public ConnectionPool Pool { get; }

    /// <summary>How long requests took.</summary>
    public Histogram<double> Durations => _relays.Durations;

    /// <summary>Requests that have come whole.</summary>
    public int Requests => Responders.Sum(static responder => responder.Requests);

    /// <summary>Connections to the responder that the router has open.</summary>
    public int Open => Responders.Count(static responder => !responder.Socket.ServerClosed);

    public List<string> Said { get; } = [];

    public List<string> Failures { get; } = [];

    public RelayRoute? Find(ReadOnlySpan<char> host, ReadOnlySpan<char> path) => host is "app" ? _route : null;

    public HttpPeer Connect() => Connect(static socket => new HttpPeer(socket), null);

    public void Send(HttpPeer peer, string text) => Send(peer, Encoding.Latin1.GetBytes(text));

    public static string Request(string method = "GET", string body = "") =>
        $"{method} /x HTTP/1.1\r\nHost: app\r\n{(body.Length > 0 ? $"Content-Length: {body.Length}\r\n" : "")}\r\n{body}";

    public HttpAnswer Ask(HttpPeer peer, string method = "GET", string body = "")
    {
        int before = peer.Answers.Count;
        peer.Expect(method);
        Send(peer, Request(method, body));
        Assert.Equal(before + 1, peer.Answers.Count);
        return peer.Answers[^1];
    }

    /// <summary>A connection of which nobody knows anything is served as if nothing had been.</summary>
    public void OthersAreServed()
    {
        OnRequest = static responder => responder.Answer("X: 1\r\n\r\nbody");
        Assert.Equal((200, "body"), Of(Ask(Connect())));
    }

    public static (int, string) Of(HttpAnswer answer) => (answer.Status, answer.BodyText);

    /// <summary>The timer of the router has come round.</summary>
    public void Sweep()
    {
        _relays.Sweep();
        Settle();
    }

    private int Accept(string path, SimulatedSocket socket)
    {
        Assert.Equal(SocketPath, path);
        if (ConnectResult >= 0)
        {
            var responder = new SimulatedResponder(this, socket);
            Responders.Add(responder);
            Join(responder);
        }

        return ConnectResult;
    }

    private new void End()
    {
        Settle();
        Assert.Equal(Responders.Count(static responder => !responder.Socket.ServerClosed) + Simulation.Loops.Length + Connections + (Simulation.Listener.IsClosed ? 0 : 1), Simulation.World.Open);
        Simulation.Post(static loop => loop.Relay!.Dispose());
        base.End();
        Assert.Equal(0, Open);
    }

    public void Dispose()
    {
        _relays.Dispose();
        Pool.Dispose();
    }
}

/// <summary>The responder's end of a connection.</summary>
internal sealed class SimulatedResponder(RelayBench bench, SimulatedSocket socket) : IClient
{
    private readonly List<byte> _unread = [];
    private readonly byte[] _buffer = new byte[64 * 1024];

    public SimulatedSocket Socket => socket;

    public string? Fault => null;

    /// <summary>Requests that have come whole.</summary>
    public int Requests { get; private set; }

    /// <summary>What has come of the last one: PARAMS and STDIN.</summary>
    public List<byte> Content { get; private set; } = [];

    private List<byte> _content = [];

    /// <summary>Reads nothing of what comes.</summary>
    public bool IsDeaf { get; set; }

    public int Read(int max = int.MaxValue)
    {
        int total = 0;
        for (int count; !IsDeaf && (count = socket.ClientRead(_buffer)) > 0; total += count)
        {
            _unread.AddRange(_buffer.AsSpan(0, count));
        }

        TakeRecords();
        return total;
    }

    private void TakeRecords()
    {
        while (_unread.Count >= 8)
        {
            int length = BinaryPrimitives.ReadUInt16BigEndian([_unread[4], _unread[5]]);
            int size = 8 + length + _unread[6];
            if (_unread.Count < size)
            {
                return;
            }

            byte type = _unread[1];
            _content.AddRange(_unread.GetRange(8, length));
            _unread.RemoveRange(0, size);
            if (type == Wire.Stdin && length == 0)
            {
                Content = _content;
                _content = [];
                Requests++;
                bench.OnRequest(this);
            }
        }
    }

    public string ContentText => Encoding.Latin1.GetString([.. Content]);

    public void Send(ReadOnlySpan<byte> bytes) => socket.ClientSend(bytes);

    public void Answer(string text) => Send(ScriptedResponder.Answer(text));

    public void Close() => socket.ClientClose();

    /// <summary>All there will be.</summary>
    public void SendAndClose(ReadOnlySpan<byte> bytes)
    {
        Send(bytes);
        Close();
    }
}
