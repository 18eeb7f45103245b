// Peers that are slow or silent, over the simulated kernel and its clock: many idle ones, one that stops reading in the middle of
// a large answer, ones that send or read a byte a second. Others are served meanwhile, and memory stays where it was.

using System.Text;
using Millrace.Handlers;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Faults;

[Collection(Stress.AloneCollection.Name)]
public sealed class SilentPeerTests
{
    private const int LargeAnswer = 64 * 1024 * 1024;
    private const int Part = 64 * 1024;

    private long _written;
    private bool _aborted;
    private bool _ended;

    private Simulation.Simulation Start(MillraceOptions? options = null) => new(1, new SimulationSetup
    {
        Options = options ?? new MillraceOptions { Loops = 1 },
        HttpIsTcp = true,
        HasFingerprint = false,
        Handler = _ => new DelegateHandler(Handle),
    });

    private async ValueTask Handle(Request request, Response response)
    {
        if (request.Path != "/large")
        {
            byte[] buffer = new byte[100];
            int length = 0;
            for (int count; (count = await request.ReadAsync(buffer)) > 0;)
            {
                length += count;
            }

            response.WriteText(string.Create(System.Globalization.CultureInfo.InvariantCulture, $"{request.Path} {length}"));
            return;
        }

        request.Aborted.UnsafeRegister(static state => ((SilentPeerTests)state!)._aborted = true, this);
        response.ContentLength = LargeAnswer;
        byte[] part = new byte[Part];
        for (int at = 0; at < LargeAnswer; at += Part)
        {
            Plan.Fill("large", at, part);
            await response.WriteAsync(part);
            _written = at + Part;
        }

        _ended = true;
    }

    private static byte[] Question(bool http, string path) =>
        http ? Encoding.ASCII.GetBytes($"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n") : Wire.Request(path);

    private static SimulatedSocket Ask(Simulation.Simulation simulation, bool http, byte[] bytes)
    {
        SimulatedSocket socket = simulation.World.Connect(http ? simulation.HttpListener! : simulation.Listener);
        simulation.Settle();
        socket.ClientSend(bytes);
        socket.Deliver(int.MaxValue);
        simulation.Settle();
        return socket;
    }

    private static string Read(SimulatedSocket socket)
    {
        byte[] buffer = new byte[64 * 1024];
        return Encoding.Latin1.GetString(buffer, 0, socket.ClientRead(buffer));
    }

    private static void OthersAreServed(Simulation.Simulation simulation)
    {
        Assert.Null(simulation.Failure);
        foreach (bool http in new[] { false, true })
        {
            SimulatedSocket socket = Ask(simulation, http, Question(http, "/other"));
            Assert.Contains("/other 0", Read(socket), StringComparison.Ordinal);
            socket.ClientClose();
            socket.Deliver(int.MaxValue);
            simulation.Settle();
        }
    }

    private static void Pass(Simulation.Simulation simulation, int seconds)
    {
        for (int i = 0; i < seconds; i++)
        {
            simulation.World.NowMs += 1_000;
            simulation.Settle();
        }
    }

    private static long Refused(Simulation.Simulation simulation, string fault) =>
        simulation.Loops[0].Loop.Counters.Refusals.Where(pair => pair.Key == fault).Sum(static pair => pair.Value);

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Twenty_thousand_idle_connections_cost_little_and_hold_nobody_up(bool http) => SimulationThread.Run(() =>
    {
        const int Count = 20_000;
        const int CostMax = 2_048;
        Simulation.Simulation simulation = Start();
        byte[] question = Question(http, "/idle");
        var sockets = new SimulatedSocket[Count];
        OthersAreServed(simulation);

        // What the simulated sockets themselves cost is measured on as many that no server ever sees.
        long before = GC.GetTotalMemory(forceFullCollection: true);
        var unseen = new SimulatedSocket[Count];
        for (int i = 0; i < Count; i++)
        {
            unseen[i] = new SimulatedSocket(i, isTcp: true, 1_000, 1_000, simulation.Random, simulation.World.Faults);
            unseen[i].ClientSend(question);
            unseen[i].Deliver(int.MaxValue);
        }

        long ofSockets = GC.GetTotalMemory(forceFullCollection: true) - before;
        before += ofSockets;
        for (int i = 0; i < Count; i++)
        {
            sockets[i] = Ask(simulation, http, question);
            Assert.NotEmpty(Read(sockets[i]));
        }

        long cost = (GC.GetTotalMemory(forceFullCollection: true) - before - ofSockets) / Count;
        GC.KeepAlive(unseen);
        Assert.Equal(Count, simulation.Services.Connections);
        Assert.True(cost <= CostMax, $"an idle connection costs {cost} bytes");
        OthersAreServed(simulation);
        Pass(simulation, 140);
        Assert.Equal(0, simulation.Services.Connections);
        Assert.All(sockets, static socket => Assert.True(socket.ServerClosed));
    });

    [Theory]
    [InlineData(false, true)]
    [InlineData(true, true)]
    [InlineData(false, false)]
    [InlineData(true, false)]
    public void A_peer_that_stops_reading_in_the_middle_of_64_MB_costs_a_buffer_and_is_cut(bool http, bool comesBack) => SimulationThread.Run(() =>
    {
        Simulation.Simulation simulation = Start();
        OthersAreServed(simulation);
        SimulatedSocket socket = Ask(simulation, http, Question(http, "/large"));
        byte[] buffer = new byte[100_000];
        long read = 0;
        while (read < LargeAnswer / 4)
        {
            int count = socket.ClientRead(buffer);
            read += count;
            simulation.Settle();
            Assert.True(count > 0);
        }

        long written = _written;
        Assert.InRange(written, read - 1_000_000, read + 1_000_000);
        long before = GC.GetAllocatedBytesForCurrentThread();
        Pass(simulation, 50);
        Assert.Equal(written, _written);
        Assert.False(_aborted);
        Assert.True(GC.GetAllocatedBytesForCurrentThread() - before < 1_000_000);
        OthersAreServed(simulation);
        if (comesBack)
        {
            for (int count; (count = socket.ClientRead(buffer)) > 0; simulation.Settle())
            {
                read += count;
            }

            Assert.True(_ended);
            Assert.InRange(read, LargeAnswer, LargeAnswer + (LargeAnswer / 100));
            Assert.Equal(0, Refused(simulation, "send-timeout"));
        }
        else
        {
            Pass(simulation, 15);
            Assert.Equal(1, Refused(simulation, "send-timeout"));
            Assert.True(_aborted);
            Assert.True(_ended);            // what a handler writes to nobody is dropped
            Assert.True(socket.ServerClosed);
            Assert.Equal(0, simulation.Handler.Running);
        }

        Assert.Null(simulation.Failure);
        OthersAreServed(simulation);
    });

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_head_that_comes_a_byte_a_second_is_given_up_after_its_time(bool http) => SimulationThread.Run(() =>
    {
        Simulation.Simulation simulation = Start();
        byte[] question = Question(http, "/" + new string('a', 100));
        SimulatedSocket socket = simulation.World.Connect(http ? simulation.HttpListener! : simulation.Listener);
        int sent = 0;
        for (; sent < question.Length && !socket.ServerClosed && !socket.WriteShut; sent++)
        {
            socket.ClientSend(question.AsSpan(sent, 1));
            socket.Deliver(1);
            Pass(simulation, 1);
        }

        Assert.InRange(sent, 29, 32);       // over FastCGI too the time counts from the first byte
        Assert.Equal(http ? "HTTP/1.1 408 " : "", Read(socket) is { Length: > 13 } text ? text[..13] : "");
        Pass(simulation, 5);
        Assert.True(socket.ServerClosed);
        Assert.Equal(1, Refused(simulation, "head-timeout"));
        OthersAreServed(simulation);
    });

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_body_that_comes_a_byte_a_second_is_refused(bool http) => SimulationThread.Run(() =>
    {
        Simulation.Simulation simulation = Start();
        byte[] body = new byte[1_000];
        byte[] question = http
            ? [.. "POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"u8, .. body]
            : [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs([.. Wire.Get("/slow", "POST"), ("CONTENT_LENGTH", "1000")])), .. Wire.Stream(Wire.Stdin, 1, body, 1)];
        int head = question.Length - (http ? 1_000 : Wire.Stream(Wire.Stdin, 1, body, 1).Length);
        SimulatedSocket socket = Ask(simulation, http, question[..head]);
        int seconds = 0;
        for (int at = head; seconds < 100 && socket.Unread == 0; seconds++, at++)
        {
            socket.ClientSend(question.AsSpan(at, 1));
            socket.Deliver(1);
            Pass(simulation, 1);
        }

        Assert.InRange(seconds, 5, 10);
        Assert.Contains(" 408 ", Read(socket), StringComparison.Ordinal);
        Assert.True(Refused(simulation, "body-too-slow") > 0);
        Assert.Equal(0, simulation.Handler.Running);
        OthersAreServed(simulation);
    });

    // Over FastCGI a web server reads, and how slow its clients may be is for it to say.
    [Fact]
    public void A_client_that_reads_a_byte_a_second_does_not_hold_an_answer_for_ever() => SimulationThread.Run(() =>
    {
        Simulation.Simulation simulation = Start();
        SimulatedSocket socket = Ask(simulation, http: true, Question(http: true, "/large"));
        byte[] one = new byte[1];
        int seconds = 0;
        for (; !socket.ServerClosed && seconds < 1_000; seconds++)
        {
            _ = socket.ClientRead(one);
            Pass(simulation, 1);
        }

        Assert.InRange(seconds, 10, 14);
        Assert.Equal(1, Refused(simulation, "response-too-slow"));
        Assert.True(_aborted && _ended);
        Assert.Equal(0, simulation.Handler.Running);
        OthersAreServed(simulation);
    });

    [Fact]
    public void A_hundred_thousand_connections_come_and_go_without_a_trace() => SimulationThread.Run(() =>
    {
        Simulation.Simulation simulation = Start();
        byte[][] questions = [Question(http: false, "/a"), Question(http: true, "/a")];
        OthersAreServed(simulation);
        int open = simulation.World.Open;
        long memory = 0;
        for (int i = 0; i < 100_000; i++)
        {
            bool http = (i & 1) == 1;
            SimulatedSocket socket = simulation.World.Connect(http ? simulation.HttpListener! : simulation.Listener);
            if (i % 3 > 0)
            {
                socket.ClientSend(questions[i & 1]);
                socket.Deliver(i % 5 == 0 ? 20 : int.MaxValue);
                simulation.Settle();
            }

            if (i % 7 == 0)
            {
                socket.ClientReset();
            }
            else
            {
                socket.ClientClose();
                socket.Deliver(int.MaxValue);
            }

            simulation.Settle();
            if (i == 20_000)
            {
                memory = GC.GetTotalMemory(forceFullCollection: true);
            }
        }

        Pass(simulation, 4);
        Assert.Equal(open, simulation.World.Open);
        Assert.Equal(0, simulation.Services.Connections);
        long grown = GC.GetTotalMemory(forceFullCollection: true) - memory;
        Assert.True(grown < 2_000_000, $"memory has grown by {grown} bytes");
        OthersAreServed(simulation);
    });
}
