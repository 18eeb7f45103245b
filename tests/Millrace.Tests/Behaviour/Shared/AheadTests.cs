// Answers that the socket has not taken whole when the request behind them begins to take its time: they go on as their peer reads, whatever
// becomes of that request.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class AheadTests(Way way) : SharedTests(way)
{
    private const int Size = 5_000;
    private const int Room = 1_000;

    private static readonly string s_text = new('x', Size);

    private readonly TaskCompletionSource _gate = new();

    private async ValueTask Handle(Call call, Action? first)
    {
        if (call.Path == "/first")
        {
            first?.Invoke();
            call.WriteText(s_text);
            return;
        }

        await _gate.Task;
        call.WriteText(call.Path);
    }

    private void Arrives(SharedBench bench, Caller caller, byte[] both)
    {
        bench.Simulation.World.SendCapacityMax = Room;
        caller.Socket.ClientSend(both);
        caller.Socket.Deliver(int.MaxValue);
        bench.Settle();
        Assert.Equal(s_text, Assert.Single(caller.Answers).BodyText);
        _gate.SetResult();
        bench.Settle();
        Assert.Equal([s_text, "/waits"], caller.Answers.Select(static answer => answer.BodyText));
        Assert.Equal(0, bench.RefusedInAll);
        bench.StillServes(caller);
    }

    private static byte[] Both(Caller caller) => [.. caller.Request("/first"), .. caller.Request("/waits")];

    [Fact]
    public void An_answer_arrives_whole_while_the_request_behind_it_waits()
    {
        Run(
            call => Handle(call, null),
            bench =>
            {
                bench.Simulation.World.SendCapacityMax = Room;
                Caller caller = bench.Connect();
                Arrives(bench, caller, Both(caller));
            });
    }

    // It comes in one event with room, and the request between them has the loop taken away from the driver that had the event.
    [Fact]
    public void What_comes_with_room_for_an_answer_is_read_behind_a_request_that_blocks()
    {
        const int InATurn = 128;        // those behind them wait for the loop's other connections, and are held
        const int Capacity = 64 * 1024;
        SharedBench? on = null;
        Run(
            AtOnce(call =>
            {
                for (int i = 0; i < 5 && call.Path == "/blocks"; i++)
                {
                    on!.Simulation.Block(stepsMax: 400);
                }

                call.WriteText(call.Path == "/long" ? new string('x', Capacity * 3 / 2) : call.Path);
            }),
            bench =>
            {
                on = bench;
                bench.Simulation.World.SendCapacityMax = Capacity;
                Caller caller = bench.Connect();
                byte[] small = caller.Request("/");
                bench.Reads = false;
                bench.Send(caller, [.. Enumerable.Repeat(small, InATurn).SelectMany(static each => each), .. caller.Request("/long"), .. caller.Request("/blocks")]);
                caller.Socket.ClientSend(caller.Request("/third"));
                caller.Socket.Deliver(int.MaxValue);
                bench.Reads = true;
                _ = caller.End.Read();
                bench.Settle();
                Assert.Equal(["/blocks", "/third"], caller.Answers.TakeLast(2).Select(static answer => answer.BodyText));
                Assert.Equal(InATurn + 3, caller.Answers.Count);
            });
    }

    [Fact]
    public void An_answer_arrives_whole_while_a_worker_runs_the_request_behind_it()
    {
        SharedBench? on = null;
        Run(
            call => Handle(call, () =>
            {
                for (int i = 0; i < 3; i++)
                {
                    on!.Simulation.Loops[0].Loop.Dispatch.HandedOver();     // as if handlers had blocked: the next one is for a worker
                }
            }),
            bench =>
            {
                on = bench;
                bench.Simulation.World.SendCapacityMax = Room;
                Caller caller = bench.Connect();
                Arrives(bench, caller, Both(caller));
                Assert.NotEqual(0, bench.Simulation.Loops[0].Loop.Counters.Workers);
            });
    }

    [Fact]
    public void An_answer_arrives_whole_while_the_request_behind_it_waits_for_its_turn_MaxConcurrentRequests()
    {
        SharedBench? on = null;
        Caller? other = null;
        Run(
            call => Handle(call, () => TakesThePlace(on!, other!)),
            bench =>
            {
                on = bench;
                bench.Simulation.World.SendCapacityMax = Room;
                other = ConnectTo(bench, 1);
                Caller caller = ConnectTo(bench, 0);
                Arrives(bench, caller, Both(caller));
                Assert.Equal("/other", other.Answers[0].BodyText);
            },
            OneRunsAndOthersWait);
    }

    // What was meant to leave was that of the answer ahead.
    [Fact]
    public void What_is_not_flushed_of_a_request_that_has_waited_behind_an_answer_stays_until_it_ends_MaxConcurrentRequests()
    {
        var going = new TaskCompletionSource();
        SharedBench? on = null;
        Caller? other = null;
        Run(
            async call =>
            {
                if (call.Path == "/waits")
                {
                    if (call is HostedCall { Context: var context })
                    {
                        await context.Response.StartAsync();
                    }

                    call.WriteText("not flushed");
                    await going.Task;
                    return;
                }

                await Handle(call, () => TakesThePlace(on!, other!));
            },
            bench =>
            {
                on = bench;
                bench.Simulation.World.SendCapacityMax = Room;
                other = ConnectTo(bench, 1);
                Caller caller = ConnectTo(bench, 0);
                bench.Send(caller, Both(caller));
                Assert.Equal(s_text, Assert.Single(caller.Answers).BodyText);
                long sent = caller.Socket.SentByServer;
                _gate.SetResult();
                bench.Settle();
                Assert.Equal(sent, caller.Socket.SentByServer);
                going.SetResult();
                bench.Settle();
                Assert.Equal([s_text, "not flushed"], caller.Answers.Select(static answer => answer.BodyText));
            },
            OneRunsAndOthersWait);
    }

    [Fact]
    public void An_answer_arrives_whole_although_the_request_behind_it_waits_for_its_turn_too_long_RequestQueueTimeout()
    {
        SharedBench? on = null;
        Caller? other = null;
        Run(
            call => Handle(call, () => TakesThePlace(on!, other!)),
            bench =>
            {
                on = bench;
                bench.Simulation.World.SendCapacityMax = Room;
                other = ConnectTo(bench, 1);
                Caller caller = ConnectTo(bench, 0);
                bench.Reads = false;
                bench.Send(caller, Both(caller));
                bench.Pass(TimeSpan.FromSeconds(32));
                Assert.Equal(IsHttp ? 1 : 0, bench.Refused("queue-timeout"));       // over FastCGI it is not looked at before they have left
                bench.Reads = true;
                bench.Settle();
                Assert.Equal(s_text, caller.Answers[0].BodyText);
                Assert.Equal(IsHttp ? 2 : 1, caller.Answers.Count);
                _gate.SetResult();
                bench.Settle();
                Assert.Equal("/other", other.Answers[0].BodyText);
            },
            OneRunsAndOthersWait);
    }

    private static void OneRunsAndOthersWait(MillraceOptions options)
    {
        options.Loops = 2;
        options.MaxConcurrentRequests = 1;
    }

    // The place that this one leaves, on another loop.
    private static void TakesThePlace(SharedBench bench, Caller other)
    {
        other.Socket.ClientSend(other.Request("/other"));
        other.Socket.Deliver(int.MaxValue);
        _ = bench.Simulation.Loops[1].Turn(0);
        _ = bench.Simulation.Loops[1].Turn(0);
    }

    private static Caller ConnectTo(SharedBench bench, int loop)
    {
        while (true)
        {
            int before = bench.Simulation.Loops[loop].Loop.ConnectionCount;
            Caller caller = bench.Connect();
            if (bench.Simulation.Loops[loop].Loop.ConnectionCount > before)
            {
                return caller;
            }
        }
    }
}

public sealed class FastCgiAheadTests() : AheadTests(Way.FastCgiToPlain)
{
    // Answers that no handler gives leave together with those behind them.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Refusals_arrive_while_the_request_behind_them_waits_for_its_turn_MaxConcurrentRequests(bool laterAgain)
    {
        const int Refused = 60;
        byte[] bad = [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs([("REQUEST_URI", "/")])), .. Wire.Record(Wire.Stdin, 1, [])];
        var gate = new TaskCompletionSource();
        Run(
            async call =>
            {
                await gate.Task;
                call.WriteText(call.Path);
            },
            bench =>
            {
                bench.Simulation.World.SendCapacityMax = 1_000;
                Caller other = bench.Connect();
                bench.Send(other, other.Request("/other"));
                Caller caller = bench.Connect();
                caller.Socket.ClientSend([.. Enumerable.Repeat(bad, Refused).SelectMany(static bytes => bytes), .. caller.Request("/waits")]);
                caller.Socket.Deliver(int.MaxValue);
                bench.Settle();
                Assert.Equal(Refused, caller.Answers.Count);
                Assert.All(caller.Answers, static answer => Assert.Equal(400, answer.Status));
                if (laterAgain)
                {
                    byte[] values = Wire.Record(Wire.GetValues, 0, Wire.Pairs([("FCGI_MAX_CONNS", ""), ("FCGI_MAX_REQS", ""), ("FCGI_MPXS_CONNS", "")]));
                    bench.Send(caller, [.. Enumerable.Repeat(values, Refused).SelectMany(static bytes => bytes)]);
                    Assert.Equal(Refused, ((FastCgiCaller)caller).Front.Management.Count);
                }

                gate.SetResult();
                bench.Settle();
                Assert.Equal("/waits", caller.Answers[^1].BodyText);
                bench.StillServes(caller);
            },
            static options => options.MaxConcurrentRequests = 1);
    }

    [Fact]
    public void ABORT_that_comes_while_refusals_are_on_their_way_ends_the_waiting_request_when_they_have_left_FastCGI_5_4()
    {
        const int Refused = 60;
        byte[] bad = [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs([("REQUEST_URI", "/")])), .. Wire.Record(Wire.Stdin, 1, [])];
        var gate = new TaskCompletionSource();
        Run(
            async call => await gate.Task,
            bench =>
            {
                bench.Simulation.World.SendCapacityMax = 1_000;
                Caller other = bench.Connect();
                bench.Send(other, other.Request("/other"));
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, [.. Enumerable.Repeat(bad, Refused).SelectMany(static bytes => bytes), .. caller.Request("/waits"), .. Wire.Record(Wire.Abort, 1, [])]);
                bench.Reads = true;
                bench.Settle();
                Assert.Equal(Refused + 1, caller.Answers.Count);
                gate.SetResult();
                bench.Settle();
                Assert.Equal(1, bench.Simulation.Handler.Started);
                bench.StillServes(caller);
            },
            static options => options.MaxConcurrentRequests = 1);
    }
}

public sealed class HttpAheadTests() : AheadTests(Way.HttpToPlain);

public sealed class FastCgiHostedAheadTests() : AheadTests(Way.FastCgiToHosted);

public sealed class HttpHostedAheadTests() : AheadTests(Way.HttpToHosted);
