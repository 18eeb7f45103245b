// Descriptors run out while accepting: who is connected is served, who waits is accepted when there is room again, and the loop
// looks for that ten times a second, not more often.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class DescriptorTests
{
    private const int Own = 2;      // the event queue and the listening socket

    [Fact]
    public void Accepting_pauses_goes_on_by_itself_and_is_counted_EMFILE() => FastCgiBench.Run(static bench =>
    {
        bench.Simulation.World.DescriptorsMax = Own + 2;
        FrontEnd[] fronts = [.. Enumerable.Range(0, 5).Select(_ => bench.ConnectOnly())];
        bench.Settle();
        Assert.Equal((2, 1), (bench.Connections, bench.Refused("descriptors-exhausted")));
        _ = bench.Simulation.Loops[0].Turn(-1);
        Assert.InRange(bench.Simulation.Loops[0].Poller.SleepMs, 1, 100);
        long turns = bench.Simulation.Loops[0].Loop.Turns;
        bench.Pass(TimeSpan.FromSeconds(2));
        Assert.InRange(bench.Refused("descriptors-exhausted"), 10, 22);
        Assert.InRange(bench.Simulation.Loops[0].Loop.Turns - turns, 1, 1_000);
        bench.StillServes(fronts[0]);
        bench.StillServes(fronts[1]);

        bench.Simulation.World.DescriptorsMax = int.MaxValue;
        bench.Pass(TimeSpan.FromMilliseconds(200));
        Assert.Equal(5, bench.Connections);
        Assert.All(fronts, front => bench.StillServes(front));
        long counted = bench.Refused("descriptors-exhausted");
        bench.Pass(TimeSpan.FromSeconds(1));
        Assert.Equal(counted, bench.Refused("descriptors-exhausted"));
    });

    [Fact]
    public void Connections_take_descriptors_up_to_those_that_are_reserved_and_one_more_ReservedDescriptors() => FastCgiBench.Run(static bench =>
    {
        FrontEnd first = bench.Connect();
        int used = bench.Simulation.World.NextDescriptor;
        bench.Simulation.Services.DescriptorCeiling = used + 1;
        FrontEnd[] fronts = [.. Enumerable.Range(0, 4).Select(_ => bench.ConnectOnly())];
        bench.Settle();

        // The one that shows that the reserve is reached is served.
        Assert.Equal((3, 1), (bench.Connections, bench.Refused("descriptors-exhausted")));
        Array.ForEach([first, fronts[0], fronts[1]], front => bench.StillServes(front));
        bench.Pass(TimeSpan.FromSeconds(1));
        Assert.Equal(3, bench.Connections);

        // Free again, but of the reserve: still nobody is accepted. Free below it: one is, and one more.
        fronts[1].Socket.ClientClose();
        bench.Pass(TimeSpan.FromMilliseconds(200));
        Assert.Equal(2, bench.Connections);
        first.Socket.ClientClose();
        bench.Pass(TimeSpan.FromMilliseconds(300));
        Assert.Equal(3, bench.Connections);
        bench.StillServes(fronts[2]);
        bench.StillServes(fronts[3]);
    });

    [Fact]
    public void Who_waits_because_of_the_reserve_is_served_in_a_drain_as_others_end_ReservedDescriptors() => FastCgiBench.Run(static bench =>
    {
        FrontEnd first = bench.Connect();
        bench.Simulation.Services.DescriptorCeiling = bench.Simulation.World.NextDescriptor;
        FrontEnd second = bench.Connect();
        FrontEnd third = bench.ConnectOnly();
        third.Send(Wire.Request("/third"));
        bench.Settle();
        Assert.Equal(2, bench.Connections);
        Task ended = bench.Simulation.BeginDrain();
        bench.PassInDrain(TimeSpan.FromMilliseconds(200));
        Assert.False(ended.IsCompleted);
        Assert.Empty(third.Ended);
        bench.PassInDrain(TimeSpan.FromMilliseconds(100));
        bench.PassInDrain(TimeSpan.FromMilliseconds(100));
        bench.PassInDrain(TimeSpan.FromMilliseconds(20));
        Assert.True(first.IsAtEnd && second.IsAtEnd);
        Assert.Equal(200, Assert.Single(third.Ended).Status);
        Assert.True(ended.IsCompletedSuccessfully);
    });

    [Fact]
    public void A_connection_that_ends_makes_room_for_one_that_waits() => FastCgiBench.Run(static bench =>
    {
        bench.Simulation.World.DescriptorsMax = Own + 1;
        FrontEnd first = bench.Connect();
        FrontEnd second = bench.Connect();
        second.Send(Wire.Request("/second"));
        bench.Settle();
        Assert.Empty(second.Ended);
        _ = bench.Ask(first, Wire.Request("/first", keep: false));
        Assert.True(first.IsAtEnd);
        bench.Pass(TimeSpan.FromMilliseconds(200));
        Assert.Equal(200, Assert.Single(second.Ended).Status);
    });

    [Fact]
    public void A_drain_ends_while_descriptors_are_short() => FastCgiBench.Run(static bench =>
    {
        bench.Simulation.World.DescriptorsMax = Own + 1;
        FrontEnd served = bench.Connect();
        FrontEnd waiting = bench.Connect();
        bench.Settle();
        _ = bench.Simulation.BeginDrain();
        bench.Settle();
        Assert.True(bench.Simulation.Listener.IsClosed);
        Assert.True(waiting.IsAtEnd);
        bench.StillServes(served);
    });
}
