// The simulated kernel where several processes have the same open file, against unix(7), epoll(7) and close(2).

using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Simulation;

public sealed class ProcessTests : IKernelObserver
{
    private readonly SimulatedMachine _machine = new(new SeededRandom(1));
    private readonly SimulatedChannel _channel = new() { Capacity = 10 };
    private readonly SimulatedListener _listener;
    private readonly SimulatedListener _unix;
    private readonly SimulatedWorld _old;
    private readonly SimulatedWorld _new;
    private readonly PollEvent[] _events = new PollEvent[16];
    private readonly int _gives;
    private readonly int _takes;
    private string? _violation;

    public ProcessTests()
    {
        _listener = new SimulatedListener(isTcp: true, _machine.Random) { References = 1 };
        _unix = new SimulatedListener(isTcp: false, _machine.Random) { References = 1 };
        _old = new SimulatedWorld(_machine.Random, _machine) { Observer = this };
        _new = new SimulatedWorld(_machine.Random, _machine) { Observer = this };
        _gives = _old.Inherit(_channel.Gives);
        _takes = _new.Inherit(_channel.Takes);
    }

    private (SimulatedSocket Socket, int Descriptor) Accept(SimulatedListener listener)
    {
        SimulatedSocket socket = _machine.Connect(listener);
        int inherited = _old.Inherit(listener);
        int descriptor = _old.Accept(inherited, new byte[128], out _);
        _old.CloseInherited(inherited);
        return (socket, descriptor);
    }

    private int Take() => _new.Take(_takes, new byte[8], out _);

    [Fact]
    public void A_connection_ends_for_its_peer_with_the_last_of_its_descriptors()
    {
        (SimulatedSocket socket, int descriptor) = Accept(_listener);
        Assert.Equal(0, _old.Give(_gives, descriptor, [1]));
        int taken = Take();
        Assert.Equal(2, socket.References);
        _new.Close(taken, reset: false);
        Assert.False(socket.AtEnd);
        _old.Leave(_old.OpenPoller(), descriptor);
        Assert.True(socket is { AtEnd: true, WasReset: false, References: 0 });
        Assert.Null(_violation);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Bytes_that_are_unread_at_the_end_are_a_reset_over_TCP(bool isTcp)
    {
        (SimulatedSocket socket, _) = Accept(isTcp ? _listener : _unix);
        socket.ClientSend([1]);
        socket.Deliver(1);
        _old.End(isCrash: true);
        Assert.True(socket is { AtEnd: true, HasLostOwner: true });
        Assert.Equal(isTcp, socket.WasReset);
    }

    [Fact]
    public void What_is_on_its_way_outlives_the_process_that_gave_it_but_not_the_last_that_could_take_it()
    {
        (SimulatedSocket socket, int descriptor) = Accept(_listener);
        Assert.Equal(0, _old.Give(_gives, descriptor, [1]));
        _old.End(isCrash: true);
        Assert.True(socket is { AtEnd: false, HasLostOwner: false, References: 1 });
        _new.End(isCrash: true);
        Assert.True(socket is { AtEnd: true, HasLostOwner: true, References: 0 });
        Assert.Equal(0, _channel.Count);
    }

    [Fact]
    public void Nothing_can_be_given_when_nobody_can_take_it_and_nothing_comes_when_nobody_can_give()
    {
        (_, int descriptor) = Accept(_listener);
        Assert.Equal(KernelResult.Again, Take());
        _new.CloseInherited(_takes);
        Assert.Equal(KernelResult.Broken, _old.Give(_gives, descriptor, [1]));

        var channel = new SimulatedChannel { Capacity = 1 };
        int gives = _old.Inherit(channel.Gives);
        int takes = _new.Inherit(channel.Takes);
        Assert.Equal(0, _old.Give(gives, descriptor, [1]));
        _old.End(isCrash: false);
        Assert.True(_new.Take(takes, new byte[8], out _) >= 0);
        Assert.Equal(KernelResult.Broken, _new.Take(takes, new byte[8], out _));
    }

    // epoll_ctl(2): measured on Linux 6.18 as well. So whoever starts and ends processes looks into the queue when one has ended (AppListeners.PassOnAsync).
    [Fact]
    public void Of_whom_a_process_was_told_that_ends_before_it_accepts_him_nobody_else_knows()
    {
        int second = _new.Inherit(_listener);
        Poller[] pollers = [_old.OpenPoller(), _new.OpenPoller()];
        _old.WatchListener(pollers[0], _old.Inherit(_listener), 1, shared: true);
        _new.WatchListener(pollers[1], second, 1, shared: true);
        SimulatedSocket socket = _machine.Connect(_listener);
        SimulatedWorld told = _old.Wait(pollers[0], _events, 0) == 1 ? _old : _new;
        told.End(isCrash: true);
        Assert.Equal(0, told == _old ? _new.Wait(pollers[1], _events, 0) : _old.Wait(pollers[0], _events, 0));
        Assert.False(socket.AtEnd);
    }

    // epoll(7), question 6.
    [Fact]
    public void A_registration_lives_as_long_as_anybody_has_what_is_registered()
    {
        (SimulatedSocket socket, int descriptor) = Accept(_listener);
        Poller poller = _old.OpenPoller();
        Assert.True(_old.Watch(poller, descriptor, 7, writing: false));
        Assert.Equal(0, _old.Give(_gives, descriptor, [1]));
        int taken = Take();
        _old.Close(descriptor, reset: false);
        Assert.Contains("stays registered", _violation, StringComparison.Ordinal);
        socket.ClientSend([1]);
        socket.Deliver(1);
        Assert.Equal(1, _old.Wait(poller, _events, 0));
        Assert.Equal(7ul, _events[0].Token);
        _new.Close(taken, reset: false);
        Assert.Equal(0, _old.Wait(poller, _events, 0));
    }

    [Fact]
    public void Each_process_has_a_registration_of_its_own()
    {
        (SimulatedSocket socket, int descriptor) = Accept(_listener);
        Poller before = _old.OpenPoller();
        Poller after = _new.OpenPoller();
        Assert.True(_old.Watch(before, descriptor, 7, writing: false));
        Assert.Equal(0, _old.Give(_gives, descriptor, [1]));
        Assert.True(_new.Watch(after, Take(), 8, writing: false));
        socket.ClientSend([1]);
        socket.Deliver(1);
        Assert.Equal(1, _old.Wait(before, _events, 0));
        Assert.Equal(1, _new.Wait(after, _events, 0));
        Assert.Equal(8ul, _events[0].Token);
        _old.Leave(before, descriptor);
        socket.SpuriousEdge(lies: false);
        Assert.Equal(0, _old.Wait(before, _events, 0));
        Assert.Equal(1, _new.Wait(after, _events, 0));
        Assert.Null(_violation);
    }

    [Fact]
    public void Whoever_has_given_a_connection_away_may_only_leave_it()
    {
        (_, int descriptor) = Accept(_listener);
        Assert.Equal(0, _old.Give(_gives, descriptor, [1]));
        _ = _old.Receive(descriptor, new byte[8]);
        Assert.Contains("has been given away", _violation, StringComparison.Ordinal);
    }

    [Fact]
    public void A_listening_socket_is_everybodys_who_has_inherited_it_and_wakes_one_of_them()
    {
        int first = _old.Inherit(_listener);
        int second = _new.Inherit(_listener);
        Poller one = _old.OpenPoller();
        Poller other = _new.OpenPoller();
        _old.WatchListener(one, first, 1, shared: true);
        _new.WatchListener(other, second, 1, shared: true);
        SimulatedSocket socket = _machine.Connect(_listener);
        Assert.Equal(1, _old.Wait(one, _events, 0) + _new.Wait(other, _events, 0));
        _old.End(isCrash: true);
        Assert.True(_new.Accept(second, new byte[128], out _) >= 0);
        SimulatedSocket waiting = _machine.Connect(_listener);
        Assert.Equal(1, _new.Wait(other, _events, 0));
        _new.End(isCrash: false);
        Assert.True(socket.AtEnd);
        Assert.False(waiting.AtEnd);        // it may be accepted by whoever comes
        SimulatedMachine.Release(_listener);
        Assert.True(waiting is { AtEnd: true, WasReset: true });
    }

    [Fact]
    public void Calls_of_a_process_that_has_ended_have_no_effect()
    {
        (SimulatedSocket socket, int descriptor) = Accept(_listener);
        Poller poller = _old.OpenPoller();
        _old.End(isCrash: true);
        Assert.Equal(KernelResult.Broken, _old.Receive(descriptor, new byte[8]));
        Assert.Equal(KernelResult.Broken, _old.Send(descriptor, [1]));
        Assert.Equal(KernelResult.Broken, _old.Give(_gives, descriptor, [1]));
        Assert.Equal(0, _old.Wait(poller, _events, 0));
        _old.Wake(poller);
        _old.Close(descriptor, reset: false);
        Assert.Equal(0, _channel.Count);
        Assert.Equal(0, socket.SentByServer);
        Assert.Null(_violation);
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

    void IKernelObserver.Violated(string what) => _violation ??= what;

    void IKernelObserver.Trace(string what, long a, long b)
    {
    }
}
