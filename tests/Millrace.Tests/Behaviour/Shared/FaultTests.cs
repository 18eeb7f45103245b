// Faults of the server itself, such as memory that cannot be had: each costs the connection it happens to, and nobody else.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class FaultTests(Way way) : SharedTests(way)
{
    private static Action Once(Action<Action?> put) => () =>
    {
        put(null);
        throw new InsufficientMemoryException();
    };

    // Its answer has been built, and lies where the next one is built.
    [Fact]
    public void A_fault_in_an_event_ends_its_connection_and_nothing_of_its_answer_reaches_another() => Run(
        AtOnce(static call => call.WriteText(call.Path)),
        static bench =>
        {
            SimulatedWorld world = bench.Simulation.World;
            bench.Simulation.FaultsMade = [];
            Caller caller = bench.Connect();
            Caller other = bench.Connect();
            world.InSend = Once(next => world.InSend = next);
            bench.Send(caller, caller.Request("/lost"));
            Assert.Single(bench.Simulation.FaultsMade);
            Assert.True(caller.IsAtEnd);
            Assert.Empty(caller.Answers);
            Assert.Equal(1, bench.Connections);
            Assert.Equal("/other", bench.Get(other, "/other").BodyText);
        });

    // There is room for what it writes, and a piece of its body: that the one cannot be kept is no reason to wait for the other.
    [Fact]
    public void A_fault_as_a_piece_of_body_comes_ends_the_wait_for_room_that_came_with_it()
    {
        bool isOver = false;
        Run(
            async call =>
            {
                await Record.ExceptionAsync(async () => await call.WriteAsync(new byte[1_000_000]));
                isOver = true;
            },
            bench =>
            {
                bench.Simulation.FaultsMade = [];
                bench.Simulation.World.PeerCapacityMax = 0;
                bench.Reads = false;
                Caller caller = bench.Connect();
                bench.Send(caller, [.. caller.Head("/", "POST", 1_000), .. caller.Part(new byte[10])]);
                Assert.False(isOver);
                _ = caller.Socket.ClientRead(new byte[1_000_000]);
                caller.Socket.ClientSend(caller.Part(new byte[10]));
                caller.Socket.Deliver(int.MaxValue);
                bench.Simulation.World.InReceive = Once(next => bench.Simulation.World.InReceive = next);
                bench.Settle();
                Assert.Single(bench.Simulation.FaultsMade);
                Assert.True(isOver);
                Assert.Equal(0, bench.Connections);
            });
    }

    [Fact]
    public void A_fault_before_its_request_has_run_leaves_its_place_to_others_MaxConcurrentRequests() => Run(
        AtOnce(static call => call.WriteText(call.Path)),
        static bench =>
        {
            SimulatedWorld world = bench.Simulation.World;
            bench.Simulation.FaultsMade = [];
            world.InWatch = Once(next => world.InWatch = next);
            Caller caller = bench.ConnectOnly("/lost");
            bench.Settle();
            Assert.Single(bench.Simulation.FaultsMade);
            Assert.True(caller.IsAtEnd);
            Assert.Equal(0, bench.Connections);
            Assert.Equal("/other", bench.Get("/other").BodyText);
        },
        static options =>
        {
            options.Dispatch = DispatchMode.Workers;
            options.MaxConcurrentRequests = 1;
        });
}

public sealed class FastCgiFaultTests() : FaultTests(Way.FastCgiToPlain);

public sealed class HttpFaultTests() : FaultTests(Way.HttpToPlain);

public sealed class FastCgiHostedFaultTests() : FaultTests(Way.FastCgiToHosted);

public sealed class HttpHostedFaultTests() : FaultTests(Way.HttpToHosted);
