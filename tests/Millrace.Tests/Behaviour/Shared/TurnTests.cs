// What one connection may take of a turn of its loop: full reads, until the others have had theirs. Whether a request runs,
// has left its body unread, or waits for its turn itself.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class TurnTests(Way way) : SharedTests(way)
{
    private const int ReadSize = 32 * 1024;

    [Fact]
    public void A_body_that_comes_faster_than_it_is_worked_on_does_not_keep_the_loop_from_others()
    {
        var gate = new TaskCompletionSource();
        Run(
            async call =>
            {
                await gate.Task;
                await Call.Echo(call);
            },
            bench =>
            {
                byte[] body = Plan.Bytes("greedy", 0, 200_000);
                Caller greedy = bench.Connect();
                bench.Send(greedy, greedy.Head("/greedy", "POST", body.Length));
                bench.SendInTurns(greedy.End, [.. greedy.Part(body), .. greedy.EndOfBody()]);
                gate.SetResult();
                bench.Settle();
                Assert.Contains($"body 200000 {Call.Sum(body)}\n", Assert.Single(greedy.Answers).BodyText, StringComparison.Ordinal);
                Assert.Equal(0, bench.RefusedInAll);
            });
    }

    [Fact]
    public void A_body_that_is_read_as_it_comes_does_not_keep_the_loop_from_others() => Run(static bench =>
    {
        byte[] body = Plan.Bytes("greedy", 0, 200_000);
        Caller greedy = bench.Connect();
        bench.Send(greedy, greedy.Head("/greedy", "POST", body.Length));
        bench.SendInTurns(greedy.End, [.. greedy.Part(body), .. greedy.EndOfBody()]);
        Assert.Contains($"body 200000 {Call.Sum(body)}\n", Assert.Single(greedy.Answers).BodyText, StringComparison.Ordinal);
    });

    [Fact]
    public void A_body_that_nobody_reads_does_not_keep_the_loop_from_others() => Run(
        AtOnce(static call => call.WriteText("unread")),
        static bench =>
        {
            Caller greedy = bench.Connect();
            bench.Send(greedy, greedy.Head("/greedy", "POST", 200_000));
            bench.SendInTurns(greedy.End, [.. greedy.Part(new byte[200_000]), .. greedy.EndOfBody()]);
            Assert.Equal("unread", Assert.Single(greedy.Answers).BodyText);
            bench.StillServes(greedy);
        });

    [Fact]
    public void Requests_one_behind_the_other_do_not_keep_the_loop_from_others()
    {
        const int Requests = 1_500;
        const int RequestsPerTurn = 2 * 2 * 128;    // of two reads, for its event, and for what it has put off until the others have been served
        Run(
            AtOnce(static call => call.WriteText(call.Path)),
            static bench =>
            {
                Caller greedy = bench.Connect();
                for (int i = 0; i < Requests; i++)
                {
                    greedy.Socket.ClientSend(greedy.Request("/"));
                }

                greedy.Socket.Deliver(int.MaxValue);
                while (bench.Simulation.Handler.Started < Requests)
                {
                    int before = bench.Simulation.Handler.Started;
                    _ = bench.Simulation.Loops[0].Turn(0);
                    Assert.InRange(bench.Simulation.Handler.Started - before, 0, RequestsPerTurn);
                    _ = greedy.End.Read();
                }

                bench.Settle();
                Assert.Equal(Requests, greedy.Answers.Count);
                bench.StillServes(greedy);
            });
    }

    // They are heard of in one turn, and run in it one after the other.
    [Fact]
    public void What_handlers_before_it_in_its_turn_have_taken_is_time_in_which_a_request_has_waited_SlowRequestThreshold()
    {
        List<long> waited = [];
        var elsewhere = new TaskCompletionSource();
        SharedBench? on = null;
        Run(
            async call =>
            {
                waited.Add(call.Exchange.RunsSinceMs - call.Exchange.StartedMs);
                on!.Simulation.World.NowMs += 70;
                await (waited.Count == 2 ? elsewhere.Task : Task.CompletedTask);      // what has been kept of the turn has been kept, whether it ends there or not
            },
            bench =>
            {
                on = bench;
                Caller[] callers = [bench.Connect(), bench.Connect(), bench.Connect()];
                foreach (Caller caller in callers)
                {
                    caller.Socket.ClientSend(caller.Request("/"));
                    caller.Socket.Deliver(int.MaxValue);
                }

                bench.Settle();
                Assert.Equal([0, 70, 140], waited);
                elsewhere.SetResult();
                bench.Settle();
                _ = bench.Get(callers[0], "/");
                Assert.Equal([0, 70, 140, 0], waited);
            },
            static options => options.SlowRequestThreshold = TimeSpan.FromSeconds(10));
    }

    // The read has used the edge up: nothing but the server itself remembers that there may be more.
    [Fact]
    public void A_request_behind_a_full_read_is_answered_though_the_handler_before_it_was_handed_over_and_ended_at_once()
    {
        SharedBench? on = null;
        Run(
            AtOnce(call =>
            {
                if (call.Path == "/blocks")
                {
                    on!.Simulation.Services.Monitor.Look();
                    on.Simulation.Services.Monitor.Look();
                }

                call.WriteText(call.Path);
            }),
            bench =>
            {
                on = bench;
                int rest = bench.Connect().Request("/blocks", "POST", new byte[30_000]).Length - 30_000;
                Caller caller = bench.Connect();
                byte[] full = caller.Request("/blocks", "POST", new byte[ReadSize - rest]);
                Assert.Equal(ReadSize, full.Length);
                byte[] both = [.. full, .. caller.Request("/behind")];
                caller.Socket.ClientSend(both);
                Assert.Equal(both.Length, caller.Socket.Deliver(int.MaxValue));
                bench.Settle();
                Assert.Equal(1, bench.Simulation.Loops[0].Loop.Counters.HandOvers);
                Assert.Equal(["/blocks", "/behind"], caller.Answers.Select(static answer => answer.BodyText));
            });
    }

    // They come while a connection with more requests than a turn has makes way for others, and nothing but the server itself remembers them.
    [Fact]
    public void A_request_that_comes_while_those_before_it_wait_for_the_next_turn_is_answered()
    {
        SharedBench? on = null;
        Caller? caller = null;
        int handled = 0;
        Run(
            AtOnce(call =>
            {
                if (call.Path == "/blocks")
                {
                    on!.Simulation.Services.Monitor.Look();
                    on.Simulation.Services.Monitor.Look();
                }

                if (++handled == 100)
                {
                    caller!.Socket.ClientSend(caller.Request("/late"));
                    _ = caller.Socket.Deliver(int.MaxValue);
                }

                call.WriteText(call.Path);
            }),
            bench =>
            {
                on = bench;
                caller = bench.Connect();
                byte[] all = [.. caller.Request("/blocks"), .. Enumerable.Range(0, 140).SelectMany(i => caller.Request("/" + i))];
                Assert.InRange(all.Length, 0, ReadSize - 1);
                caller.Socket.ClientSend(all);
                Assert.Equal(all.Length, caller.Socket.Deliver(int.MaxValue));
                bench.Settle();
                Assert.Equal(1, bench.Simulation.Loops[0].Loop.Counters.HandOvers);
                Assert.Equal(["/blocks", .. Enumerable.Range(0, 140).Select(static i => "/" + i), "/late"], caller.Answers.Select(static answer => answer.BodyText));
            });
    }

    // Its worker has ended before the loop has looked behind it.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_request_behind_one_whose_worker_was_faster_than_the_loop_is_answered(bool inOneRead) => Run(
        AtOnce(static call => call.WriteText(call.Path)),
        bench =>
        {
            bench.Simulation.Drivers.RunsAtOnce = true;
            Caller caller = bench.Connect();
            byte[] first = caller.Request("/first"), second = caller.Request("/second");
            if (inOneRead)
            {
                bench.Send(caller, [.. first, .. second]);
            }
            else
            {
                bench.Send(caller, first);
                bench.Send(caller, second);
            }

            Assert.Equal(["/first", "/second"], caller.Answers.Select(static answer => answer.BodyText));
            Assert.Equal(2, bench.Simulation.Loops[0].Loop.Counters.Workers);
        },
        static options => options.Dispatch = DispatchMode.Workers);


    // The loop is told of it when the exchange has ended, and before it has the connection again.
    [Fact]
    public void A_request_whose_event_comes_between_the_end_of_the_one_before_it_and_the_loop_is_answered()
    {
        var gate = new TaskCompletionSource();
        Run(
            async call =>
            {
                if (call.Path == "/first")
                {
                    await gate.Task;
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/first"));
                caller.Socket.ClientSend(caller.Request("/second"));
                caller.Socket.Deliver(int.MaxValue);
                _ = bench.Simulation.Loops[0].Turn(0);      // it is the next event
                gate.SetResult();                           // what is posted comes behind the events
                bench.Settle();
                Assert.Equal(2, caller.Answers.Count);
            },
            static options => options.IdleTimeout = TimeSpan.FromSeconds(10));      // so short that the connection comes back by way of the loop
    }
}

public sealed class FastCgiTurnTests() : TurnTests(Way.FastCgiToPlain);

public sealed class HttpTurnTests() : TurnTests(Way.HttpToPlain);

public sealed class FastCgiHostedTurnTests() : TurnTests(Way.FastCgiToHosted);

public sealed class HttpHostedTurnTests() : TurnTests(Way.HttpToHosted);
