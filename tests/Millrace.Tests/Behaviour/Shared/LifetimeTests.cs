// How requests and connections begin and end over either protocol: requests in sequence, time limits, drain, and how many
// there may be. RFC 9112 §9, FastCGI 1.0 §5.

using System.Runtime.CompilerServices;
using Millrace.Loops;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class LifetimeTests(Way way) : SharedTests(way)
{
    // ---- requests in sequence ----

    [Fact]
    public void Hostile_57_Requests_follow_one_another_on_a_connection_and_each_gets_its_own_answer() => Run(static bench =>
    {
        Caller caller = bench.Connect();
        for (int i = 0; i < 50; i++)
        {
            string text = bench.Get(caller, $"/{i}", ("X-Own", $"id-{i}")).BodyText;
            Assert.StartsWith($"GET /{i}\n", text, StringComparison.Ordinal);
            Assert.Contains($"\nX-Own: id-{i}\n", text, StringComparison.Ordinal);
        }
    });

    [Fact]
    public void Hostile_63_A_connection_that_is_not_to_be_kept_ends_behind_its_answer() => Run(static bench => bench.HoweverCut(
        static caller => caller.Request("/once", keep: false),
        static caller =>
        {
            Assert.Equal(200, Assert.Single(caller.Answers).Status);
            Assert.True(caller.IsAtEnd);
        }));

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Hostile_64_The_next_request_may_come_before_the_end_of_this_one(bool asynchronous)
    {
        var pauses = new Queue<TaskCompletionSource>();
        Run(
            async call =>
            {
                if (asynchronous)
                {
                    var pause = new TaskCompletionSource();
                    pauses.Enqueue(pause);
                    await pause.Task;
                }

                await Call.Echo(call);
            },
            bench => bench.HoweverCut(
                static caller => [.. caller.Request("/one"), .. caller.Request("/two", "POST", new byte[300]), .. caller.Request("/three")],
                caller =>
                {
                    while (pauses.TryDequeue(out TaskCompletionSource? pause))
                    {
                        pause.SetResult();
                        bench.Settle();
                    }

                    Assert.Equal(["GET /one", "POST /two", "GET /three"], caller.Answers.Select(static answer => answer.BodyText.Split('\n')[0]));
                }));
    }

    // ---- time limits ----

    [Fact]
    public void Hostile_60_A_head_that_trickles_is_given_up_HeadTimeout() => Run(
        static bench =>
        {
            Caller slow = bench.Connect();
            byte[] head = slow.Head("/slow");
            for (int i = 0; i < 10; i++)
            {
                Assert.False(slow.IsAtEnd);
                bench.Send(slow, head[i..(i + 1)]);
                bench.Pass(TimeSpan.FromSeconds(1));
            }

            bench.Pass(TimeSpan.FromSeconds(1));
            Assert.True(slow.IsAtEnd);
            Assert.Equal(1, bench.Refused("head-timeout"));
            bench.OthersAreServed();
        },
        static options => options.HeadTimeout = TimeSpan.FromSeconds(10));

    [Theory]
    [InlineData(true, 1)]
    [InlineData(true, 4)]
    [InlineData(false, 1)]
    [InlineData(false, 4)]
    public void The_time_for_a_head_counts_from_its_first_byte_HeadTimeout(bool kept, int cut) => Run(
        bench =>
        {
            foreach (bool comes in (bool[])[true, false])
            {
                Caller caller = bench.Connect();
                if (kept)
                {
                    _ = bench.Get(caller, "/first");
                }

                byte[] request = caller.Request("/slow");
                bench.Pass(TimeSpan.FromSeconds(9));
                bench.Send(caller, request[..cut]);
                bench.Pass(TimeSpan.FromSeconds(5));
                bench.Send(caller, request[cut..20]);
                bench.Pass(TimeSpan.FromSeconds(4));
                Assert.False(caller.IsAtEnd);
                if (comes)
                {
                    bench.Send(caller, request[20..]);
                    Assert.StartsWith("GET /slow\n", caller.Answers[^1].BodyText, StringComparison.Ordinal);
                    continue;
                }

                bench.Pass(TimeSpan.FromSeconds(2));
                Assert.True(caller.IsAtEnd);
                Assert.Equal(1, bench.Refused("head-timeout"));
            }
        },
        static options => options.IdleTimeout = options.HeadTimeout = TimeSpan.FromSeconds(10));

    // Its handler has kept the loop for that long.
    [Theory]
    [InlineData(0)]
    [InlineData(5)]
    public void What_comes_next_has_its_time_from_the_end_of_the_handler_on_IdleTimeout_HeadTimeout(int begun)
    {
        Action work = static () => { };
        Run(
            call =>
            {
                work();
                return Call.Echo(call);
            },
            bench =>
            {
                work = () => bench.Simulation.World.NowMs += 7_000;
                Caller caller = bench.Connect();
                bench.Send(caller, [.. caller.Request("/long"), .. caller.Request("/next")[..begun]]);
                bench.Pass(TimeSpan.FromSeconds(9));
                Assert.False(caller.IsAtEnd);
                bench.Pass(TimeSpan.FromSeconds(2));
                Assert.True(caller.IsAtEnd);
                Assert.Equal(begun == 0 ? 0 : 1, bench.Refused("head-timeout"));
            },
            static options => options.IdleTimeout = options.HeadTimeout = TimeSpan.FromSeconds(10));
    }

    [Theory]
    [InlineData(true, 0)]
    [InlineData(true, 1)]
    [InlineData(false, 0)]
    [InlineData(false, 1)]
    public void A_request_that_lies_in_the_socket_when_its_connection_is_about_to_be_closed_is_served_IdleTimeout(bool kept, int turns) => Run(
        bench =>
        {
            Caller caller = bench.Connect();
            if (kept)
            {
                _ = bench.Get(caller, "/first");
            }

            // The loop has waited until then, and has seen nothing.
            DrivenLoop loop = bench.Simulation.Loops[0];
            bench.Simulation.World.NowMs += 60_200;
            for (int turn = 0; turn <= turns; turn++)
            {
                Assert.True(loop.Turn(0));
            }

            caller.Socket.ClientSend(caller.Request("/late"));
            caller.Socket.Deliver(int.MaxValue);
            bench.Settle();
            Assert.NotEmpty(caller.Answers);
            Assert.StartsWith("GET /late\n", caller.Answers[^1].BodyText, StringComparison.Ordinal);
            Assert.False(caller.IsAtEnd);
            Assert.Equal(0, bench.RefusedInAll);

            // It has been idle since.
            bench.Pass(TimeSpan.FromSeconds(59));
            Assert.False(caller.IsAtEnd);
            bench.Pass(TimeSpan.FromSeconds(2));
            Assert.True(caller.IsAtEnd);
        },
        static options => options.IdleTimeout = options.HeadTimeout = TimeSpan.FromSeconds(60));

    [Fact]
    public void A_connection_that_never_sends_anything_is_closed_HeadTimeout() => Run(
        static bench =>
        {
            Caller silent = bench.Connect();
            bench.Pass(TimeSpan.FromSeconds(9));
            Assert.False(silent.IsAtEnd);
            bench.Pass(TimeSpan.FromSeconds(2));
            Assert.True(silent.IsAtEnd);
            Assert.Equal(0, bench.Connections);
        },
        static options => options.HeadTimeout = TimeSpan.FromSeconds(10));

    [Theory]
    [InlineData(10)]
    [InlineData(130)]
    public void Hostile_61_Idle_connections_are_closed_in_time_IdleTimeout(int seconds) => Run(
        bench =>
        {
            Caller[] callers = [.. Enumerable.Range(0, 100).Select(_ => bench.Connect())];
            Array.ForEach(callers, bench.StillServes);
            bench.Pass(TimeSpan.FromSeconds(seconds - 1));
            Assert.Equal(100, bench.Connections);
            bench.StillServes(callers[7]);
            bench.Pass(TimeSpan.FromSeconds(2));
            Assert.Equal(1, bench.Connections);
            bench.StillServes(callers[7]);
        },
        options => options.IdleTimeout = TimeSpan.FromSeconds(seconds));

    [Fact]
    public void A_request_that_takes_too_long_is_cancelled_RequestTimeout() => Run(
        static async call =>
        {
            await Bench.Cancelled(call.Aborted);
            call.WriteText("gave up");
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Request("/forever"));
            bench.Pass(TimeSpan.FromSeconds(4));
            Assert.Empty(caller.Answers);
            bench.Pass(TimeSpan.FromSeconds(2));
            Assert.Equal("gave up", Assert.Single(caller.Answers).BodyText);
            Assert.Equal(1, bench.Refused("request-timeout"));
        },
        static options => options.RequestTimeout = TimeSpan.FromSeconds(5));

    // ---- drain ----

    [Fact]
    public void Hostile_62_Requests_in_progress_end_before_the_server_does()
    {
        var gate = new TaskCompletionSource();
        Run(
            async call =>
            {
                if (call.Target == "/busy")
                {
                    await gate.Task;
                    call.WriteText("whole");
                    return;
                }

                call.WriteText("at once");
            },
            bench =>
            {
                Caller idle = bench.Connect();
                Caller asking = bench.Connect();
                Caller busy = bench.Connect();
                bench.Send(busy, busy.Request("/busy"));
                bench.Pass(TimeSpan.FromSeconds(1));
                bench.Drain();

                // A front server that finds one connection closed turns to another that it still has.
                bench.PassInDrain(TimeSpan.FromMilliseconds(200));
                Assert.False(idle.IsAtEnd);
                Assert.Equal("at once", bench.Get(asking, "/asking").BodyText);
                Assert.True(asking.IsAtEnd);
                bench.PassInDrain(TimeSpan.FromMilliseconds(100));
                Assert.True(idle.IsAtEnd);
                Assert.False(busy.IsAtEnd);
                gate.SetResult();
                bench.Settle();
                Assert.Equal("whole", Assert.Single(busy.Answers).BodyText);
                Assert.True(busy.IsAtEnd);
                Array.ForEach([idle, asking, busy], static caller => caller.Socket.ClientClose());
                bench.Settle();
                Assert.Equal(0, bench.Connections);
            });
    }

    [Fact]
    public void Hostile_62_What_outlasts_the_drain_time_is_cut_DrainTimeout() => Run(
        static async call => await Bench.Cancelled(call.Aborted),
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Request("/stubborn"));
            bench.Drain();
            Assert.Equal(1, bench.Connections);
            bench.Cut();
            Assert.Equal(0, bench.Connections);
            Assert.True(caller.IsAtEnd);
            Assert.Empty(caller.Answers);
        });

    // ---- how many there may be ----

    [Fact]
    public void Connections_over_the_limit_are_closed_and_the_others_served_MaxConnections() => Run(
        static bench =>
        {
            Caller first = bench.Connect();
            Caller second = bench.Connect();
            Assert.True(bench.Connect().IsAtEnd);
            Assert.Equal(1, bench.Refused("too-many-connections"));
            bench.StillServes(first);
            second.Socket.ClientClose();
            bench.Settle();
            bench.OthersAreServed();
        },
        static options => options.MaxConnections = 2);

    [Fact]
    public void Who_goes_while_it_waits_its_turn_leaves_its_place_to_others_RequestQueueLimit()
    {
        var running = new Queue<TaskCompletionSource>();
        Run(
            async call =>
            {
                var gate = new TaskCompletionSource();
                running.Enqueue(gate);
                await gate.Task;
                call.WriteText(call.Path);
            },
            bench =>
            {
                Caller first = bench.Connect();
                Caller gone = bench.Connect();
                Caller patient = bench.Connect();
                bench.Send(first, first.Request("/first"));
                bench.Send(gone, gone.Request("/gone"));
                gone.Socket.ClientReset();
                bench.Settle();
                bench.Send(patient, patient.Request("/patient"));
                Assert.Equal(0, bench.Refused("too-many-requests"));
                running.Dequeue().SetResult();
                bench.Settle();
                running.Dequeue().SetResult();
                bench.Settle();
                Assert.Equal("/patient", Assert.Single(patient.Answers).BodyText);
                Assert.Empty(running);
            },
            static options =>
            {
                options.MaxConcurrentRequests = 1;
                options.RequestQueueLimit = 1;
            });
    }

    [Fact]
    public void Requests_over_the_limit_wait_their_turn_in_order_and_too_many_are_refused_MaxConcurrentRequests()
    {
        var running = new Queue<(string Path, TaskCompletionSource Gate)>();
        Run(
            async call =>
            {
                var gate = new TaskCompletionSource();
                running.Enqueue((call.Path, gate));
                await gate.Task;
                call.WriteText(call.Path);
            },
            bench =>
            {
                Caller[] callers = [.. Enumerable.Range(0, 5).Select(_ => bench.Connect())];
                for (int i = 0; i < callers.Length; i++)
                {
                    bench.Send(callers[i], callers[i].Request($"/{i}"));
                }

                AssertOverloaded(callers[4]);
                Assert.Equal(1, bench.Refused("too-many-requests"));
                for (int i = 0; i < 4; i++)
                {
                    Assert.Equal(Math.Min(2, 4 - i), running.Count);
                    (string path, TaskCompletionSource gate) = running.Dequeue();
                    Assert.Equal($"/{i}", path);
                    gate.SetResult();
                    bench.Settle();
                    Assert.Equal($"/{i}", Assert.Single(callers[i].Answers).BodyText);
                }
            },
            static options =>
            {
                options.MaxConcurrentRequests = 2;
                options.RequestQueueLimit = 2;
            });
    }

    // FastCGI 1.0 §5.5 OVERLOADED; RFC 9110 §15.6.4
    private static void AssertOverloaded(Caller caller)
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

    [Fact]
    public void Descriptors_may_run_out_and_come_back() => Run(static bench =>
    {
        bench.Simulation.World.DescriptorsMax = bench.Simulation.World.Open + 2;
        Caller first = bench.Connect();
        Caller second = bench.Connect();
        Caller waiting = bench.Connect();
        bench.Send(waiting, waiting.Request("/waits"));
        Assert.Empty(waiting.Answers);
        bench.StillServes(first);
        second.Socket.ClientClose();
        bench.Pass(TimeSpan.FromMilliseconds(300));
        Assert.Equal(200, Assert.Single(waiting.Answers).Status);
        Assert.True(bench.Refused("descriptors-exhausted") > 0);
    });

    [Fact]
    public void A_loop_whose_connections_have_all_gone_keeps_nothing_of_them_and_sleeps_until_it_is_woken() => Run(static bench =>
    {
        DrivenLoop loop = bench.Simulation.Loops[0];
        for (int i = 0; i < 5; i++)
        {
            Caller caller = bench.Connect();
            _ = bench.Get(caller, "/");
            Assert.Equal(i + 1, TableOf(loop.Loop).All().Count);
        }

        _ = loop.Turn(-1);
        Assert.InRange(loop.Poller.SleepMs, 1, 100_000);
        bench.Simulation.World.NowMs += 100;
        bench.LeaveAll();
        Assert.Equal(0, bench.Connections);
        Assert.Empty(TableOf(loop.Loop).All());
        _ = loop.Turn(-1);
        Assert.Equal(-1, loop.Poller.SleepMs);
    });

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_connections")]
    private static extern ref ConnectionTable TableOf(EventLoop<SimulatedKernel> loop);

    [Fact]
    public void A_new_connection_goes_to_the_loop_that_has_fewer_of_them_whichever_accepts_it() => Run(
        static bench =>
        {
            (DrivenLoop full, DrivenLoop empty) = (bench.Simulation.Loops[0], bench.Simulation.Loops[1]);
            Caller[] callers = [.. Enumerable.Range(0, 30).Select(_ => bench.Connect())];
            Array.ForEach([.. callers.Where(caller => caller.Socket.Reader == empty)], static caller => caller.Socket.ClientClose());
            bench.Settle();
            int before = full.Loop.ConnectionCount;
            Assert.InRange(before, 10, 20);
            Assert.Equal(0, empty.Loop.ConnectionCount);
            for (int i = 0; i < before - 2; i++)
            {
                _ = bench.Connect();
            }

            Assert.Equal((before, before - 2), (full.Loop.ConnectionCount, empty.Loop.ConnectionCount));
        },
        static options => options.Loops = 2);
}

public sealed class FastCgiLifetimeTests() : LifetimeTests(Way.FastCgiToPlain);

public sealed class HttpLifetimeTests() : LifetimeTests(Way.HttpToPlain);

public sealed class FastCgiHostedLifetimeTests() : LifetimeTests(Way.FastCgiToHosted);

public sealed class HttpHostedLifetimeTests() : LifetimeTests(Way.HttpToHosted);
