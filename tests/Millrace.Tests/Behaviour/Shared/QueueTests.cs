// Requests that wait for their turn (MaxConcurrentRequests): for how long, and what becomes of those whose peer has gone.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class QueueTests(Way way) : SharedTests(way)
{
    private readonly Queue<TaskCompletionSource> _running = new();
    private readonly List<string> _run = [];

    private async ValueTask Wait(Call call)
    {
        _run.Add(call.Path);
        var gate = new TaskCompletionSource();
        _running.Enqueue(gate);
        await gate.Task;
        call.WriteText(call.Path);
    }

    private void Ends(SharedBench bench)
    {
        _running.Dequeue().SetResult();
        bench.Settle();
    }

    private static void OneRunsAndOneWaits(MillraceOptions options)
    {
        options.MaxConcurrentRequests = 1;
        options.RequestQueueLimit = 1;
    }

    // FastCGI 1.0 §5.5 OVERLOADED; RFC 9110 §15.6.4
    private static void AssertRefused(Caller caller)
    {
        if (caller is FastCgiCaller { Front: { } front })
        {
            Assert.Equal(2, Assert.Single(front.Ended).ProtocolStatus);
        }
        else
        {
            Assert.Equal(503, Assert.Single(caller.Answers).Status);
            Assert.True(caller.IsAtEnd);
        }
    }

    // The end of a closed TCP connection looks like that of one that has only finished sending: whoever still listens is told.
    [Theory]
    [InlineData("closes")]
    [InlineData("finishes")]
    [InlineData("resets")]
    public void Who_leaves_while_it_waits_is_not_run_and_its_place_is_for_others_RequestQueueLimit(string how) => Run(
        Wait,
        bench =>
        {
            Caller first = bench.Connect();
            Caller leaving = bench.Connect();
            Caller patient = bench.Connect();
            bench.Send(first, first.Request("/first"));
            bench.Send(leaving, leaving.Request("/leaving", "POST", new byte[100]));
            switch (how)
            {
                case "closes":
                    leaving.Socket.ClientClose();
                    break;
                case "finishes":
                    leaving.Socket.ClientFinish();
                    break;
                default:
                    leaving.Socket.ClientReset();
                    break;
            }

            bench.Settle();
            Assert.Equal(2, bench.Connections);
            bench.Send(patient, patient.Request("/patient"));
            Assert.Empty(patient.Answers);
            if (how == "finishes")
            {
                AssertRefused(leaving);
            }

            Ends(bench);
            Ends(bench);
            Assert.Equal("/patient", Assert.Single(patient.Answers).BodyText);
            Assert.Equal(["/first", "/patient"], _run);
            Assert.Equal(how == "resets" ? 0 : 1, bench.Refused("left-queue"));
            Assert.Equal(0, bench.Refused("too-many-requests"));
        },
        OneRunsAndOneWaits);

    [Fact]
    public void Who_has_finished_sending_before_it_would_have_to_wait_does_not_wait_RequestQueueLimit() => Run(
        Wait,
        bench =>
        {
            Caller first = bench.Connect();
            bench.Send(first, first.Request("/first"));
            Caller leaving = bench.Connect();
            leaving.Socket.ClientSend(leaving.Request("/leaving"));
            leaving.Socket.ClientFinish();
            bench.Settle();
            AssertRefused(leaving);
            Assert.Equal((1, 1L), (bench.Connections, bench.Refused("left-queue")));
            Ends(bench);
            Assert.Equal(["/first"], _run);
        },
        OneRunsAndOneWaits);

    [Fact]
    public void Who_leaves_when_its_turn_has_come_is_run_and_its_turn_is_not_lost_MaxConcurrentRequests() => Run(
        Wait,
        bench =>
        {
            Caller first = bench.Connect();
            Caller leaving = bench.Connect();
            bench.Send(first, first.Request("/first"));
            bench.Send(leaving, leaving.Request("/leaving"));
            leaving.Socket.ClientFinish();
            leaving.Socket.Deliver(0);
            bench.Simulation.Post(_ => _running.Dequeue().SetResult());     // in the same turn of the loop
            bench.Settle();
            while (_running.Count > 0)
            {
                Ends(bench);
            }

            Caller next = bench.Connect();
            bench.Send(next, next.Request("/next"));
            Ends(bench);
            Assert.Equal("/next", Assert.Single(next.Answers).BodyText);
        },
        OneRunsAndOneWaits);

    [Fact]
    public void Who_is_gone_when_its_turn_has_come_leaves_it_to_others_MaxConcurrentRequests() => Run(
        Wait,
        bench =>
        {
            Caller first = bench.Connect();
            Caller gone = bench.Connect();
            bench.Send(first, first.Request("/first"));
            bench.Send(gone, gone.Request("/gone"));
            gone.Socket.ClientReset();
            _ = bench.Simulation.Loops[0].Turn(0);      // its end is the next event
            _running.Dequeue().SetResult();             // its turn comes with the work behind the events
            bench.Settle();
            Assert.Equal(["/first"], _run);
            Caller next = bench.Connect();
            bench.Send(next, next.Request("/next"));
            Ends(bench);
            Assert.Equal("/next", Assert.Single(next.Answers).BodyText);
        },
        OneRunsAndOneWaits);

    [Fact]
    public void Who_waits_too_long_is_refused_RequestQueueTimeout() => Run(
        Wait,
        bench =>
        {
            Caller first = bench.Connect();
            Caller waiting = bench.Connect();
            bench.Send(first, first.Request("/first"));
            bench.Send(waiting, waiting.Request("/waiting"));
            bench.Pass(TimeSpan.FromSeconds(29));
            Assert.Empty(waiting.Answers);
            bench.Pass(TimeSpan.FromSeconds(2));
            AssertRefused(waiting);
            Assert.Equal(1, bench.Refused("queue-timeout"));
            Caller patient = bench.Connect();
            bench.Send(patient, patient.Request("/patient"));
            Ends(bench);
            Ends(bench);
            Assert.Equal(["/first", "/patient"], _run);
            Assert.Equal("/patient", Assert.Single(patient.Answers).BodyText);
        },
        OneRunsAndOneWaits);

    [Fact]
    public void Who_has_waited_a_little_has_all_the_time_there_is_when_its_turn_comes_RequestQueueTimeout() => Run(
        Wait,
        bench =>
        {
            Caller first = bench.Connect();
            Caller waiting = bench.Connect();
            bench.Send(first, first.Request("/first"));
            bench.Send(waiting, waiting.Request("/waiting"));
            bench.Pass(TimeSpan.FromSeconds(20));
            Ends(bench);
            bench.Pass(TimeSpan.FromSeconds(200));
            Ends(bench);
            Assert.Equal("/waiting", Assert.Single(waiting.Answers).BodyText);
            Assert.Equal(0, bench.RefusedInAll);
        },
        OneRunsAndOneWaits);

    // The handler before it in the turn has kept the loop for that long.
    [Fact]
    public void Who_has_not_waited_before_he_was_heard_has_all_the_time_there_is_RequestQueueTimeout()
    {
        Action work = static () => { };
        Run(
            async call =>
            {
                work();
                await Wait(call);
            },
            bench =>
            {
                work = () => bench.Simulation.World.NowMs += 25_000;
                Caller first = bench.Connect();
                Caller waiting = bench.Connect();
                first.Socket.ClientSend(first.Request("/first"));
                waiting.Socket.ClientSend(waiting.Request("/waiting"));
                bench.Settle();
                work = static () => { };
                bench.Pass(TimeSpan.FromSeconds(29));
                Assert.Equal(0, bench.RefusedInAll);
                bench.Pass(TimeSpan.FromSeconds(2));
                AssertRefused(waiting);
                Ends(bench);
                Assert.Equal(["/first"], _run);
            },
            OneRunsAndOneWaits);
    }

    // From the end of its head on: that it waits is part of it.
    [Fact]
    public void The_time_that_a_request_may_take_includes_its_wait_for_a_place_RequestTimeout() => Run(
        async call =>
        {
            if (call.Path == "/waiting")
            {
                await Bench.Cancelled(call.Aborted);
                call.WriteText("gave up");
                return;
            }

            await Wait(call);
        },
        bench =>
        {
            Caller first = bench.Connect();
            Caller waiting = bench.Connect();
            bench.Send(first, first.Request("/first"));
            bench.Send(waiting, waiting.Request("/waiting"));
            bench.Pass(TimeSpan.FromSeconds(3));
            Ends(bench);
            bench.Pass(TimeSpan.FromSeconds(1));
            Assert.Empty(waiting.Answers);
            bench.Pass(TimeSpan.FromSeconds(2));
            Assert.Equal("gave up", Assert.Single(waiting.Answers).BodyText);
        },
        static options =>
        {
            OneRunsAndOneWaits(options);
            options.RequestTimeout = TimeSpan.FromSeconds(5);
        });
}

public sealed class FastCgiQueueTests() : QueueTests(Way.FastCgiToPlain);

public sealed class HttpQueueTests() : QueueTests(Way.HttpToPlain);

public sealed class FastCgiHostedQueueTests() : QueueTests(Way.FastCgiToHosted);

public sealed class HttpHostedQueueTests() : QueueTests(Way.HttpToHosted);
