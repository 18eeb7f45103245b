// How listening ends when a server stops: who waits in the queue is served, who comes later is refused at once.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class DrainTests(Way way) : SharedTests(way)
{
    [Fact]
    public void Who_waits_in_the_queue_when_the_drain_begins_is_answered_and_then_closed() => Run(static bench =>
    {
        Caller[] waiting = [.. Enumerable.Range(0, 40).Select(i => bench.ConnectOnly($"/waiting{i}"))];

        Task ended = bench.Simulation.BeginDrain();
        bench.Settle();
        Assert.True(ended.IsCompletedSuccessfully);
        Assert.True(bench.Simulation.Listener.IsClosed);
        for (int i = 0; i < waiting.Length; i++)
        {
            Assert.StartsWith($"GET /waiting{i}\n", Assert.Single(waiting[i].Answers).BodyText, StringComparison.Ordinal);
            Assert.True(waiting[i].IsAtEnd);
        }
    });

    [Fact]
    public void Who_waits_in_the_queue_and_never_asks_is_closed_when_it_has_been_quiet() => Run(static bench =>
    {
        Caller silent = bench.ConnectOnly();
        Caller late = bench.ConnectOnly();
        _ = bench.Simulation.BeginDrain();
        bench.Settle();
        Assert.Equal(2, bench.Connections);
        bench.Pass(TimeSpan.FromMilliseconds(200));
        Assert.Equal(200, bench.Get(late, "/late").Status);
        Assert.True(late.IsAtEnd);
        late.Socket.ClientClose();
        bench.PassInDrain(TimeSpan.FromMilliseconds(100));
        Assert.True(silent.IsAtEnd);
        Assert.Equal(0, bench.Connections);
    });

    [Fact]
    public void Listening_ends_while_a_request_is_still_running()
    {
        var gate = new TaskCompletionSource();
        Run(
            async call => await gate.Task,
            bench =>
            {
                Caller busy = bench.Connect();
                bench.Send(busy, busy.Request("/busy"));
                _ = bench.Simulation.BeginDrain();
                bench.Settle();
                Assert.True(bench.Simulation.Listener.IsClosed);
                Assert.False(busy.IsAtEnd);
                gate.SetResult();
                bench.Settle();
                Assert.Equal(200, Assert.Single(busy.Answers).Status);
            });
    }

    [Fact]
    public void A_handler_that_blocks_does_not_hold_up_who_waits_behind_it()
    {
        Simulation.Simulation? simulation = null;
        var order = new List<string>();
        Run(
            call =>
            {
                order.Add(call.Path);
                if (call.Path == "/blocks")
                {
                    simulation!.Block(stepsMax: 400);
                    order.Add("unblocked");
                }

                return ValueTask.CompletedTask;
            },
            bench =>
            {
                simulation = bench.Simulation;
                Caller[] waiting = [bench.ConnectOnly("/blocks"), bench.ConnectOnly("/second"), bench.ConnectOnly("/third")];

                _ = bench.Simulation.BeginDrain();
                bench.Settle();
                Assert.All(waiting, static caller => Assert.Equal(200, Assert.Single(caller.Answers).Status));
                Assert.Equal(["/blocks", "/second", "/third", "unblocked"], order);
                Assert.True(bench.Simulation.Listener.IsClosed);
            });
    }

    [Fact]
    public void Who_is_not_allowed_in_is_not_served_during_the_drain_either() => Run(
        AtOnce(static _ => { }),
        static bench =>
        {
            Caller stranger = bench.ConnectOnly("/", System.Net.IPAddress.Parse("10.0.0.6"));
            _ = bench.Simulation.BeginDrain();
            bench.Settle();
            Assert.True(stranger.IsAtEnd);
            Assert.Empty(stranger.Answers);
            Assert.Equal(1, bench.Refused("peer-not-allowed"));
        },
        parameters: "?allow=10.0.0.5");

    [Fact]
    public void A_queue_that_never_empties_does_not_keep_the_server_listening() => Run(
        static bench =>
        {
            // A backlog before nobody can join the queue any more, and a backlog after it.
            Caller[] flood = [.. Enumerable.Range(0, 50).Select(_ => bench.ConnectOnly())];
            _ = bench.Simulation.BeginDrain();
            bench.Settle();
            Assert.True(bench.Simulation.Listener.IsClosed);
            Assert.Equal(40, bench.Connections);
            Assert.Equal(10, flood.Count(static caller => caller.IsAtEnd));
        },
        static options => options.Backlog = 20);
}

public sealed class FastCgiDrainTests() : DrainTests(Way.FastCgiToPlain);

public sealed class HttpDrainTests() : DrainTests(Way.HttpToPlain);

public sealed class FastCgiHostedDrainTests() : DrainTests(Way.FastCgiToHosted);

public sealed class HttpHostedDrainTests() : DrainTests(Way.HttpToHosted);
