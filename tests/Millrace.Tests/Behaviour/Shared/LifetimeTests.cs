// How requests and connections end over either protocol: half-closed, silent and vanished peers, requests in sequence, time
// limits, drain, and how many there may be. RFC 9112 §9, FastCGI 1.0 §5.

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

    // ---- peers that leave, stop or stay silent ----

    [Fact]
    public void Hostile_58_A_peer_that_has_only_finished_sending_gets_its_answer()
    {
        var gate = new TaskCompletionSource();
        Run(
            async call =>
            {
                await gate.Task;
                call.WriteText("still " + call.Aborted.IsCancellationRequested);
            },
            bench =>
            {
                Caller caller = bench.Connect();
                caller.Socket.ClientSend(caller.Request("/half"));
                caller.Socket.ClientFinish();
                bench.Settle();
                gate.SetResult();
                bench.Settle();
                Assert.Equal("still True", Assert.Single(caller.Answers).BodyText);
                Assert.True(caller.IsAtEnd);
                Assert.Equal(0, bench.Connections);
            });
    }

    [Fact]
    public void Hostile_58_A_peer_that_finishes_with_its_request_is_answered_at_once() => Run(static bench =>
    {
        Caller caller = bench.Connect();
        caller.Socket.ClientSend(caller.Request("/last", "POST", new byte[10]));
        caller.Socket.ClientFinish();
        bench.Settle();
        Assert.StartsWith("POST /last\n", Assert.Single(caller.Answers).BodyText, StringComparison.Ordinal);
        Assert.Equal(0, bench.Connections);
    });

    [Fact]
    public void A_peer_that_goes_away_cancels_the_handler_and_frees_the_connection()
    {
        int cancelled = 0;
        Run(
            async call =>
            {
                await Bench.Cancelled(call.Aborted);
                cancelled++;
            },
            bench =>
            {
                Caller[] callers = [bench.Connect(), bench.Connect()];
                Array.ForEach(callers, caller => bench.Send(caller, caller.Request("/wait")));
                callers[0].Socket.ClientReset();
                callers[1].Socket.ClientClose();
                bench.Settle();
                Assert.Equal((2, 0), (cancelled, bench.Connections));
            });
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_peer_that_goes_away_in_the_middle_of_its_body_fails_its_reading(bool resets)
    {
        Exception? seen = null;
        Run(
            async call => seen = await Record.ExceptionAsync(() => Call.Echo(call).AsTask()),
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, [.. caller.Head("/", "POST", 1_000), .. caller.Part(new byte[100])]);
                if (resets)
                {
                    caller.Socket.ClientReset();
                }
                else
                {
                    caller.Socket.ClientClose();
                }

                bench.Settle();
                Assert.IsAssignableFrom<IOException>(seen);
                Assert.Equal(0, bench.Connections);
                bench.OthersAreServed();
            });
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Hostile_07_A_peer_may_leave_at_any_byte(bool resets) => Run(bench =>
    {
        int length = bench.Connect().Request("/leave", "POST", new byte[40]).Length;
        for (int cut = 0; cut <= length; cut += 3)
        {
            int open = bench.Connections;
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Request("/leave", "POST", new byte[40])[..cut]);
            if (resets)
            {
                caller.Socket.ClientReset();
            }
            else
            {
                caller.Socket.ClientClose();
            }

            bench.Settle();
            Assert.Equal(open, bench.Connections);
        }

        bench.OthersAreServed();
    });

    [Fact]
    public void Hostile_59_A_peer_that_never_reads_holds_up_its_handler_and_is_cut_SendTimeout()
    {
        long written = 0;
        Run(
            async call =>
            {
                for (int i = 0; i < 10_000 && !call.Aborted.IsCancellationRequested; i++)
                {
                    await call.WriteAsync(new byte[10_000]);
                    await call.FlushAsync();
                    written += 10_000;
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/endless"));
                Assert.InRange(written, 200_000, 600_000);
                bench.Pass(TimeSpan.FromSeconds(9));
                Assert.Equal(1, bench.Connections);
                bench.Pass(TimeSpan.FromSeconds(3));
                Assert.Equal(0, bench.Connections);
                Assert.InRange(written, 200_000, 700_000);
                Assert.Equal(1, bench.Refused("send-timeout"));
                bench.Reads = true;
            },
            static options => options.SendTimeout = TimeSpan.FromSeconds(10));
    }

    [Fact]
    public void A_peer_that_reads_slowly_gets_everything_SendTimeout() => Run(
        static async call =>
        {
            for (int i = 0; i < 100; i++)
            {
                await call.WriteAsync(Plan.Bytes("slow", i * 10_000, 10_000));
            }
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Reads = false;
            bench.Send(caller, caller.Request("/slow"));
            for (int i = 0; i < 200 && caller.Answers.Count == 0; i++)
            {
                _ = caller.End.Read(50_000);
                bench.Pass(TimeSpan.FromSeconds(5));
            }

            Assert.Equal(Plan.Bytes("slow", 0, 1_000_000), Assert.Single(caller.Answers).Body);
            bench.Reads = true;
        },
        static options => options.SendTimeout = TimeSpan.FromSeconds(20));

    [Fact]
    public void Hostile_59_A_peer_that_leaves_a_finished_answer_unread_is_cut_SendTimeout() => Run(
        AtOnce(static call => call.Write(new byte[1_000_000])),
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Reads = false;
            bench.Send(caller, caller.Request("/large"));
            bench.Pass(TimeSpan.FromSeconds(9));
            Assert.Equal(1, bench.Connections);
            bench.Pass(TimeSpan.FromSeconds(2));
            Assert.Equal(0, bench.Connections);
            bench.Reads = true;
        },
        static options => options.SendTimeout = TimeSpan.FromSeconds(10));

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
                await gate.Task;
                call.WriteText("whole");
            },
            bench =>
            {
                Caller idle = bench.Connect();
                Caller busy = bench.Connect();
                bench.Send(busy, busy.Request("/busy"));
                bench.Pass(TimeSpan.FromSeconds(1));
                bench.Drain();
                Assert.True(idle.IsAtEnd);
                Assert.False(busy.IsAtEnd);
                gate.SetResult();
                bench.Settle();
                Assert.Equal("whole", Assert.Single(busy.Answers).BodyText);
                Assert.True(busy.IsAtEnd);
                idle.Socket.ClientClose();
                busy.Socket.ClientClose();
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
}

public sealed class FastCgiLifetimeTests() : LifetimeTests(Way.FastCgiToPlain);

public sealed class HttpLifetimeTests() : LifetimeTests(Way.HttpToPlain);

public sealed class FastCgiHostedLifetimeTests() : LifetimeTests(Way.FastCgiToHosted);

public sealed class HttpHostedLifetimeTests() : LifetimeTests(Way.HttpToHosted);
