// What the random lives have found, each as the few steps that matter. Over the simulated kernel.

using System.Text;
using Millrace.Handlers;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Faults;

public sealed class RareCoincidenceTests
{
    private const int Large = 1_000_000;

    private readonly TaskCompletionSource _first = new();
    private readonly TaskCompletionSource _second = new();
    private int _bodyLength = -1;

    private async ValueTask Handle(Request request, Response response)
    {
        switch (request.Path)
        {
            case "/first":
                await _first.Task;
                break;
            case "/second":
                await _second.Task;
                break;
            case "/begins":
                await response.WriteAsync("begun"u8.ToArray());
                await ReadAll(request);
                break;
            case "/fails":
                response.Write(new byte[100]);
                await response.FlushAsync();
                await _first.Task;
                throw new InvalidTimeZoneException("thrown by the handler, as it is to be");
            case "/large":
                response.Write(Plan.Bytes("large", 0, Large));
                return;
            case "/waits":
                var told = new TaskCompletionSource();
                request.Aborted.UnsafeRegister(_ => told.TrySetResult(), null);
                await told.Task;
                break;
            case "/body":
                await ReadAll(request);
                break;
        }

        response.WriteText("done");
    }

    private async ValueTask ReadAll(Request request)
    {
        _bodyLength = 0;
        byte[] buffer = new byte[100];
        for (int count; (count = await request.ReadAsync(buffer)) > 0;)
        {
            _bodyLength += count;
        }
    }

    private void Run(Action<Simulation.Simulation> test, MillraceOptions? options = null) => SimulationThread.Run(() =>
    {
        var simulation = new Simulation.Simulation(1, new SimulationSetup
        {
            Options = options ?? new MillraceOptions { Loops = 1 },
            HttpIsTcp = true,
            Handler = _ => new DelegateHandler(Handle),
        });
        test(simulation);
        Assert.Null(simulation.Failure);
    });

    private static SimulatedSocket Connect(Simulation.Simulation simulation, bool http)
    {
        SimulatedSocket socket = simulation.World.Connect(http ? simulation.HttpListener! : simulation.Listener);
        simulation.Settle();
        return socket;
    }

    private static void Send(Simulation.Simulation simulation, SimulatedSocket socket, string text) => Send(simulation, socket, Encoding.ASCII.GetBytes(text));

    private static void Send(Simulation.Simulation simulation, SimulatedSocket socket, byte[] bytes)
    {
        socket.ClientSend(bytes);
        socket.Deliver(int.MaxValue);
        simulation.Settle();
    }

    private static string Read(SimulatedSocket socket)
    {
        byte[] buffer = new byte[64 * 1024];
        return Encoding.Latin1.GetString(buffer, 0, socket.ClientRead(buffer));
    }

    [Fact]
    public void A_body_that_comes_while_its_request_waits_for_its_turn_is_not_thrown_away() => Run(
        simulation =>
        {
            SimulatedSocket one = Connect(simulation, http: true);
            Send(simulation, one, "GET /first HTTP/1.1\r\nHost: a\r\n\r\nPOST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
            SimulatedSocket other = Connect(simulation, http: true);
            Send(simulation, other, "GET /second HTTP/1.1\r\nHost: a\r\n\r\n");
            Send(simulation, one, "01234");
            _first.SetResult();         // the other is let in; the body's request must wait for it
            simulation.Settle();
            Assert.Contains("done", Read(one), StringComparison.Ordinal);
            Send(simulation, one, "56789");
            _second.SetResult();
            simulation.Settle();
            Assert.EndsWith("done", Read(one), StringComparison.Ordinal);
            Assert.Equal(10, _bodyLength);
        },
        new MillraceOptions { Loops = 1, MaxConcurrentRequests = 1 });

    [Fact]
    public void A_handler_is_told_of_a_peer_that_left_while_its_request_waited_for_its_turn() => Run(
        simulation =>
        {
            SimulatedSocket one = Connect(simulation, http: true);
            Send(simulation, one, "GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
            SimulatedSocket other = Connect(simulation, http: true);
            Send(simulation, other, "POST /waits HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n");
            other.ClientSend("body"u8);
            other.ClientClose();
            other.Deliver(int.MaxValue);
            other.Deliver(int.MaxValue);
            simulation.Settle();
            _first.SetResult();
            simulation.Settle();
            Assert.Equal(0, simulation.Handler.Running);
        },
        new MillraceOptions { Loops = 1, MaxConcurrentRequests = 1 });

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void The_last_answer_of_a_connection_is_sent_to_its_end_however_full_the_socket_is(bool http) => Run(simulation =>
    {
        SimulatedSocket socket = Connect(simulation, http);
        Send(simulation, socket, http ? "GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"u8.ToArray() : Wire.Request("/large", keep: false));
        var answer = new List<byte>();
        byte[] buffer = new byte[100_000];
        for (int count; (count = socket.ClientRead(buffer)) > 0; simulation.Settle())
        {
            answer.AddRange(buffer.AsSpan(0, count));
        }

        Assert.InRange(answer.Count, Large, Large + 1_000);
        Assert.True(socket.ServerClosed);
    });

    [Fact]
    public void A_client_that_waits_for_100_is_sent_the_response_that_began_first_RFC9110_10_1_1() => Run(simulation =>
    {
        SimulatedSocket socket = Connect(simulation, http: true);
        Send(simulation, socket, "POST /begins HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
        string head = Read(socket);
        Assert.StartsWith("HTTP/1.1 200 OK\r\n", head, StringComparison.Ordinal);
        Assert.Contains("\r\n0005\r\nbegun\r\n", head, StringComparison.Ordinal);
        Send(simulation, socket, "body");
        Assert.Equal(4, _bodyLength);
        Assert.EndsWith("0004\r\ndone\r\n0\r\n\r\n", Read(socket), StringComparison.Ordinal);
    });

    [Fact]
    public void A_body_that_never_comes_behind_a_response_that_began_first_is_given_up_BodyTimeout() => Run(simulation =>
    {
        SimulatedSocket socket = Connect(simulation, http: true);
        Send(simulation, socket, "POST /begins HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
        for (int i = 0; i < 70; i++)
        {
            simulation.World.NowMs += 1_000;
            simulation.Settle();
        }

        Assert.Equal(0, simulation.Handler.Running);
        Assert.True(socket.ServerClosed);
    });

    [Fact]
    public void A_100_that_the_socket_does_not_take_at_once_is_sent_when_it_does() => Run(simulation =>
    {
        SimulatedSocket socket = Connect(simulation, http: true);
        simulation.World.Faults.RefusedSend = 100;
        Send(simulation, socket, "POST /body HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
        Assert.Equal("", Read(socket));
        simulation.World.Faults.RefusedSend = 0;
        socket.Relent();
        simulation.Settle();
        Assert.Equal("HTTP/1.1 100 Continue\r\n\r\n", Read(socket));
        Send(simulation, socket, "body");
        Assert.Equal(4, _bodyLength);
    });

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_connection_that_the_kernel_has_no_room_to_watch_is_watched_when_it_has(bool http) => Run(simulation =>
    {
        simulation.World.Faults.FailedWatch = 100;
        SimulatedSocket socket = Connect(simulation, http);
        byte[] question = http ? "GET / HTTP/1.1\r\nHost: a\r\n\r\n"u8.ToArray() : Wire.Request("/");
        Send(simulation, socket, question);
        simulation.World.NowMs += 150;
        simulation.Settle();
        Assert.Equal("", Read(socket));
        simulation.World.Faults.FailedWatch = 0;
        simulation.World.NowMs += 150;
        simulation.Settle();
        Assert.Contains("done", Read(socket), StringComparison.Ordinal);
        Send(simulation, socket, question);
        Assert.Contains("done", Read(socket), StringComparison.Ordinal);
    });

    [Fact]
    public void Nothing_follows_a_response_that_was_broken_off() => Run(simulation =>
    {
        SimulatedSocket socket = Connect(simulation, http: false);
        Send(simulation, socket, Wire.Request("/fails"));
        Assert.Contains("Status: 200", Read(socket), StringComparison.Ordinal);

        // The question finds the socket full; its answer waits until the response goes on.
        simulation.World.Faults.RefusedSend = 100;
        Send(simulation, socket, Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MPXS_CONNS", ""))));
        _first.SetResult();
        simulation.World.Faults.RefusedSend = 0;
        simulation.Settle();
        socket.Relent();
        simulation.Settle();
        string rest = Read(socket);
        simulation.World.NowMs += 200;
        simulation.Settle();
        rest += Read(socket);
        Assert.True(socket.WasReset);
        Assert.DoesNotContain("FCGI_MPXS_CONNS", rest, StringComparison.Ordinal);
    });
}
