// The simulated kernel against what epoll(7) says: an edge is told once, with the state at the time of the wait; adding tells
// what is there; a closed number is given out again and its events are gone.

using System.Net;
using System.Net.Sockets;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Simulation;

public sealed class KernelTests : IKernelObserver
{
    private readonly SimulatedWorld _world;
    private readonly Poller _poller;
    private readonly PollEvent[] _events = new PollEvent[16];
    private string? _violation;

    public KernelTests()
    {
        _world = new SimulatedWorld(new SeededRandom(1)) { Observer = this };
        _poller = _world.OpenPoller();
    }

    private (SimulatedSocket Socket, int Descriptor) Accept()
    {
        SimulatedListener listener = _world.Listen(isTcp: true);
        SimulatedSocket socket = _world.Connect(listener);
        return (socket, _world.Accept(listener.Descriptor, new byte[128], out _));
    }

    private Readiness Wait() => _world.Wait(_poller, _events, 0) == 0 ? Readiness.None : _events[0].Ready;

    [Fact]
    public void Adding_a_descriptor_tells_its_present_state()
    {
        (SimulatedSocket socket, int descriptor) = Accept();
        socket.ClientSend([1]);
        socket.Deliver(1);
        Assert.True(_world.Watch(_poller, descriptor, 7, writing: true));
        Assert.Equal(Readiness.Read | Readiness.Write, Wait());
        Assert.Equal(7ul, _events[0].Token);
    }

    [Fact]
    public void An_edge_is_told_once_and_new_bytes_are_a_new_edge()
    {
        (SimulatedSocket socket, int descriptor) = Accept();
        _world.Watch(_poller, descriptor, 7, writing: false);
        Assert.Equal(Readiness.None, Wait());
        socket.ClientSend([1, 2]);
        socket.Deliver(1);
        Assert.Equal(Readiness.Read, Wait());
        Assert.Equal(Readiness.None, Wait());
        socket.Deliver(1);
        Assert.Equal(Readiness.Read, Wait());
    }

    [Fact]
    public void A_state_that_is_over_before_the_wait_is_not_told()
    {
        (SimulatedSocket socket, int descriptor) = Accept();
        _world.Watch(_poller, descriptor, 7, writing: false);
        socket.ClientSend([1]);
        socket.Deliver(1);
        Assert.Equal(1, _world.Receive(descriptor, new byte[8]));
        Assert.Equal(Readiness.None, Wait());
    }

    [Fact]
    public void Room_is_an_edge_after_a_refused_send()
    {
        _world.SendCapacityMax = 30;
        (SimulatedSocket socket, int descriptor) = Accept();
        _world.Watch(_poller, descriptor, 7, writing: true);
        Assert.Equal(Readiness.Write, Wait());
        while (_world.Send(descriptor, new byte[30]) > 0)
        {
        }

        Assert.Equal(Readiness.None, Wait());
        socket.ClientRead(new byte[9]);
        Assert.Equal(Readiness.None, Wait());
        socket.ClientRead(new byte[1]);
        Assert.Equal(Readiness.Write, Wait());
    }

    [Fact]
    public void A_send_refused_for_want_of_memory_is_told_of_when_there_is_some()
    {
        (SimulatedSocket socket, int descriptor) = Accept();
        _world.Watch(_poller, descriptor, 7, writing: true);
        Assert.Equal(Readiness.Write, Wait());
        _world.Faults.RefusedSend = 100;
        Assert.Equal(KernelResult.Again, _world.Send(descriptor, [1]));
        Assert.Equal(Readiness.None, Wait());
        _world.Faults.RefusedSend = 0;
        socket.Relent();
        Assert.Equal(Readiness.Write, Wait());
        Assert.Equal(1, _world.Send(descriptor, [1]));
    }

    [Fact]
    public void A_registration_without_room_leaves_nothing_behind()
    {
        (SimulatedSocket socket, int descriptor) = Accept();
        _world.Faults.FailedWatch = 100;
        Assert.False(_world.Watch(_poller, descriptor, 7, writing: false));
        socket.ClientSend([1]);
        socket.Deliver(1);
        Assert.Equal(Readiness.None, Wait());
        _world.Faults.FailedWatch = 0;
        Assert.True(_world.Watch(_poller, descriptor, 7, writing: false));
        Assert.Equal(Readiness.Read, Wait());
    }

    [Fact]
    public void An_event_may_tell_of_what_is_not_there()
    {
        (SimulatedSocket socket, int descriptor) = Accept();
        _world.Watch(_poller, descriptor, 7, writing: false);
        socket.SpuriousEdge(lies: true);
        Assert.Equal(Readiness.Read, Wait());
        Assert.Equal(KernelResult.Again, _world.Receive(descriptor, new byte[8]));
        Assert.Equal(Readiness.None, Wait());
    }

    [Fact]
    public void A_peer_may_reset_at_any_call()
    {
        (SimulatedSocket socket, int descriptor) = Accept();
        socket.ResetAfterCalls = 2;
        Assert.Equal(KernelResult.Again, _world.Receive(descriptor, new byte[8]));
        Assert.Equal(KernelResult.Broken, _world.Receive(descriptor, new byte[8]));
        Assert.Equal(KernelResult.Broken, _world.Send(descriptor, [1]));
    }

    [Fact]
    public void Ends_and_resets_are_edges()
    {
        (SimulatedSocket socket, int descriptor) = Accept();
        _world.Watch(_poller, descriptor, 7, writing: false);
        socket.ClientFinish();
        socket.Deliver(1);
        Assert.Equal(Readiness.Read | Readiness.PeerFinished, Wait());
        Assert.Equal(0, _world.Receive(descriptor, new byte[8]));
        socket.ClientReset();
        Assert.Equal(Readiness.Read | Readiness.PeerFinished | Readiness.HangUp | Readiness.Error, Wait());
        Assert.Equal(KernelResult.Broken, _world.Receive(descriptor, new byte[8]));
        Assert.Equal(KernelResult.Broken, _world.Send(descriptor, [1]));
    }

    // What the simulation takes for granted of Linux: measured here, and then asked of the simulation.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_reset_takes_nothing_along_that_the_peers_system_has_taken(bool isReal)
    {
        const int Size = 1_000;
        if (!isReal)
        {
            (SimulatedSocket socket, int descriptor) = Accept();
            Assert.Equal(Size, _world.Send(descriptor, new byte[Size]));
            Assert.Equal(0, _world.Unsent(descriptor));
            _world.Reset(descriptor);
            _world.Close(descriptor, reset: true);
            Assert.Equal(Size, socket.ClientRead(new byte[Size]));
            Assert.True(socket is { AtEnd: true, WasReset: true, AnswersLost: false });
            return;
        }

        using var listener = new Socket(SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen();
        using var client = new Socket(SocketType.Stream, ProtocolType.Tcp) { ReceiveTimeout = 20_000 };
        client.Connect(listener.LocalEndPoint!);
        Socket server = listener.Accept();
        Assert.Equal(Size, server.Send(new byte[Size]));
        Assert.True(SpinWait.SpinUntil(() => client.Available == Size, TimeSpan.FromSeconds(20)));
        server.Close(timeout: 0);
        Assert.True(client.Poll(TimeSpan.FromSeconds(20), SelectMode.SelectError));     // the reset has arrived
        Assert.Equal(Size, client.Receive(new byte[2 * Size]));
        Assert.Equal(SocketError.ConnectionReset, Assert.Throws<SocketException>(() => client.Receive(new byte[1])).SocketErrorCode);
    }

    [Fact]
    public void A_reset_takes_along_what_the_peers_system_has_not_taken_and_no_more()
    {
        const int Taken = 1_000;
        _world.PeerCapacityMax = Taken;
        (SimulatedSocket socket, int descriptor) = Accept();
        Assert.Equal(3_000, _world.Send(descriptor, new byte[3_000]));
        Assert.Equal(2_000, _world.Unsent(descriptor));
        _world.Reset(descriptor);
        _world.Close(descriptor, reset: true);
        Assert.InRange(socket.ClientRead(new byte[3_000]), Taken, 2_999);
        Assert.True(socket.AnswersLost);
    }

    [Fact]
    public void A_closed_number_is_given_out_again_without_its_events()
    {
        (SimulatedSocket socket, int descriptor) = Accept();
        _world.Watch(_poller, descriptor, 7, writing: false);
        socket.ClientSend([1]);
        socket.Deliver(1);
        _world.Close(descriptor, reset: false);
        Assert.Equal(Readiness.None, Wait());
        SimulatedListener listener = _world.Listen(isTcp: true);
        Assert.Equal(descriptor, listener.Descriptor);
        Assert.Null(_violation);
        _world.Close(99, reset: false);
        Assert.NotNull(_violation);
    }

    void IKernelObserver.OnLoopCall(string call, SimulatedSocket? socket)
    {
    }

    void IKernelObserver.OnSleep(SimulatedPoller poller, int timeoutMs)
    {
    }

    void IKernelObserver.Interleave()
    {
    }

    void IKernelObserver.Violated(string what) => _violation = what;

    void IKernelObserver.Trace(string what, long a, long b)
    {
    }
}
