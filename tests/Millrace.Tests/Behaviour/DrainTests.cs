// How listening ends when a server stops: who waits in the queue is served, who comes later is refused at once.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour;

public sealed class DrainTests
{
    [Fact]
    public void Who_waits_in_the_queue_when_the_drain_begins_is_answered_and_then_closed() => Bench.Run(static bench =>
    {
        FrontEnd[] waiting = [.. Enumerable.Range(0, 40).Select(_ => bench.ConnectOnly())];
        for (int i = 0; i < waiting.Length; i++)
        {
            waiting[i].Send(Wire.Request($"/waiting{i}"));
            waiting[i].Socket.Deliver(int.MaxValue);
        }

        Task ended = bench.Simulation.BeginDrain();
        bench.Settle();
        Assert.True(ended.IsCompletedSuccessfully);
        Assert.True(bench.Simulation.Listener.IsClosed);
        for (int i = 0; i < waiting.Length; i++)
        {
            Assert.StartsWith($"GET /waiting{i}\n", Assert.Single(waiting[i].Ended).BodyText, StringComparison.Ordinal);
            Assert.True(waiting[i].IsAtEnd);
        }
    });

    [Fact]
    public void Who_waits_in_the_queue_and_never_asks_is_closed_when_it_has_been_quiet() => Bench.Run(static bench =>
    {
        FrontEnd silent = bench.ConnectOnly();
        FrontEnd late = bench.ConnectOnly();
        _ = bench.Simulation.BeginDrain();
        bench.Settle();
        Assert.Equal(2, bench.Connections);
        bench.Pass(TimeSpan.FromMilliseconds(200));
        bench.Send(late, Wire.Request("/late"));
        Assert.Equal(200, Assert.Single(late.Ended).Status);
        bench.Pass(TimeSpan.FromMilliseconds(100));
        bench.Simulation.Post(static loop => loop.SweepIdle());
        bench.Settle();
        Assert.True(silent.IsAtEnd);
        Assert.Equal(0, bench.Connections);
    });

    [Fact]
    public void Listening_ends_while_a_request_is_still_running()
    {
        var gate = new TaskCompletionSource();
        Bench.Run(
            async (request, response) => await gate.Task,
            bench =>
            {
                FrontEnd busy = bench.Connect();
                bench.Send(busy, Wire.Request("/busy"));
                _ = bench.Simulation.BeginDrain();
                bench.Settle();
                Assert.True(bench.Simulation.Listener.IsClosed);
                Assert.False(busy.IsAtEnd);
                gate.SetResult();
                bench.Settle();
                Assert.Equal(200, Assert.Single(busy.Ended).Status);
            });
    }

    [Fact]
    public void A_handler_that_blocks_does_not_hold_up_who_waits_behind_it()
    {
        Simulation.Simulation? simulation = null;
        var order = new List<string>();
        Bench.Run(
            (request, response) =>
            {
                order.Add(request.Path);
                if (request.Path == "/blocks")
                {
                    simulation!.Block(stepsMax: 400);
                    order.Add("unblocked");
                }

                return ValueTask.CompletedTask;
            },
            bench =>
            {
                simulation = bench.Simulation;
                FrontEnd[] waiting = [bench.ConnectOnly(), bench.ConnectOnly(), bench.ConnectOnly()];
                string[] targets = ["/blocks", "/second", "/third"];
                for (int i = 0; i < waiting.Length; i++)
                {
                    waiting[i].Send(Wire.Request(targets[i]));
                    waiting[i].Socket.Deliver(int.MaxValue);
                }

                _ = bench.Simulation.BeginDrain();
                bench.Settle();
                Assert.All(waiting, static front => Assert.Equal(200, Assert.Single(front.Ended).Status));
                Assert.Equal(["/blocks", "/second", "/third", "unblocked"], order);
                Assert.True(bench.Simulation.Listener.IsClosed);
            });
    }

    [Fact]
    public void Who_is_not_allowed_in_is_not_served_during_the_drain_either() => Bench.Run(
        static (request, response) => ValueTask.CompletedTask,
        static bench =>
        {
            FrontEnd stranger = bench.ConnectOnly(System.Net.IPAddress.Parse("10.0.0.6"));
            stranger.Send(Wire.Request("/"));
            stranger.Socket.Deliver(int.MaxValue);
            _ = bench.Simulation.BeginDrain();
            bench.Settle();
            Assert.True(stranger.IsAtEnd);
            Assert.Empty(stranger.Ended);
            Assert.Equal(1, bench.Refused("peer-not-allowed"));
        },
        address: "fastcgi://0.0.0.0:9000?allow=10.0.0.5");

    [Fact]
    public void A_queue_that_never_empties_does_not_keep_the_server_listening() => Bench.Run(
        static bench =>
        {
            FrontEnd[] flood = [.. Enumerable.Range(0, 30).Select(_ => bench.ConnectOnly())];
            _ = bench.Simulation.BeginDrain();
            bench.Settle();
            Assert.True(bench.Simulation.Listener.IsClosed);
            Assert.Equal(20, bench.Connections);
            Assert.Equal(10, flood.Count(static front => front.IsAtEnd));
        },
        new MillraceOptions { Loops = 1, Backlog = 20 });
}
