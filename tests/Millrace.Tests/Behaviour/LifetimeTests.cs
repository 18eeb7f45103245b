// How requests and connections end: aborts, half-closed and silent peers, ids that are used again, drain. FastCGI 1.0 §5.4, §5.5.

using Microsoft.AspNetCore.Connections;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour;

public sealed class LifetimeTests
{
    private static byte[] Abort(int id = 1) => Wire.Record(Wire.Abort, id, []);

    private static byte[] Post() => [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/", "POST")))];

    private static MillraceOptions Options(Action<MillraceOptions> set)
    {
        var options = new MillraceOptions { Loops = 1 };
        set(options);
        return options;
    }

    private static Task Cancelled(CancellationToken token)
    {
        var source = new TaskCompletionSource();
        token.UnsafeRegister(static state => ((TaskCompletionSource)state!).TrySetResult(), source);
        return source.Task;
    }

    // ---- ABORT_REQUEST, §5.4 ----

    [Fact]
    public void Hostile_56_ABORT_before_the_handler_runs_is_answered_with_END_FastCGI_5_4() =>
        Bench.HoweverCut([.. Wire.BeginRequest(), .. Wire.Record(Wire.Params, 1, Wire.Pairs(Wire.Get("/"))), .. Abort()], static (bench, front) =>
        {
            ReceivedResponse end = Assert.Single(front.Ended);
            Assert.Equal((0, 0L), (end.ProtocolStatus, end.Stdout.Length));
            Assert.Equal(0, bench.Simulation.Handler.Started);
            bench.StillServes(front);
        });

    [Fact]
    public void Hostile_56_ABORT_in_the_body_fails_its_reading_and_is_answered_with_END_FastCGI_5_4()
    {
        Exception? seen = null;
        Bench.Run(
            async (request, response) =>
            {
                seen ??= await Record.ExceptionAsync(() => Bench.Echo(request, response).AsTask());
            },
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, [.. Post(), .. Wire.Record(Wire.Stdin, 1, new byte[100])]);
                bench.Send(front, Abort());
                Assert.IsAssignableFrom<IOException>(seen);
                Assert.Equal(1, Assert.Single(front.Ended).Id);
                Assert.Equal(200, bench.Ask(front, Wire.Request("/next")).Status);
            });
    }

    [Fact]
    public void Hostile_56_ABORT_in_the_response_cancels_the_handler_and_its_later_bytes_vanish_FastCGI_5_4() => Bench.Run(
        static async (request, response) =>
        {
            response.WriteText("first ");
            await response.FlushAsync();
            if (request.Path == "/long")
            {
                await Cancelled(request.Aborted);
                response.WriteText("late");
                await response.FlushAsync();
            }
        },
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, Wire.Request("/long"));
            Assert.Equal("first ", front.Open[1].BodyText);
            bench.Send(front, Abort());
            Assert.Equal("first ", Assert.Single(front.Ended).BodyText);
            Assert.Equal("first ", bench.Ask(front, Wire.Request("/short")).BodyText);
        });

    [Fact]
    public void Hostile_56_ABORT_after_END_is_passed_over() => Bench.Run(static bench =>
    {
        FrontEnd front = bench.Connect();
        bench.StillServes(front);
        bench.Send(front, Abort());
        Assert.Single(front.Ended);
        bench.StillServes(front);
    });

    [Fact]
    public void Hostile_57_An_id_may_be_used_again_right_after_END() => Bench.Run(static bench =>
    {
        FrontEnd front = bench.Connect();
        for (int i = 0; i < 50; i++)
        {
            Assert.StartsWith($"GET /{i}\n", bench.Ask(front, Wire.Request($"/{i}")).BodyText, StringComparison.Ordinal);
        }
    });

    [Fact]
    public void Hostile_57_An_id_may_be_used_again_after_ABORT_while_the_old_handler_still_writes()
    {
        var late = new TaskCompletionSource();
        Stream? kept = null;
        Bench.Run(
            async (request, response) =>
            {
                if (request.Path == "/old")
                {
                    kept = response.Body;
                    await Cancelled(request.Aborted);
                    return;
                }

                response.WriteText("new ");
                await response.FlushAsync();
                await late.Task;
                response.WriteText("end");
            },
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, [.. Wire.Request("/old"), .. Abort()]);
                Assert.Equal(1, Assert.Single(front.Ended).Id);
                bench.Send(front, Wire.Request("/new"));
                Assert.IsType<ObjectDisposedException>(Record.Exception(() => kept!.WriteAsync(new byte[] { 88, 88 }).AsTask().GetAwaiter().GetResult()));
                bench.Settle();
                late.SetResult();
                bench.Settle();
                Assert.Equal("new end", front.Ended[^1].BodyText);
            });
    }

    // ---- peers that leave, stop or stay silent ----

    [Fact]
    public void Hostile_58_A_peer_that_has_only_finished_sending_gets_its_answer()
    {
        var gate = new TaskCompletionSource();
        Bench.Run(
            async (request, response) =>
            {
                await gate.Task;
                response.WriteText("still " + request.Aborted.IsCancellationRequested);
            },
            bench =>
            {
                FrontEnd front = bench.Connect();
                front.Send(Wire.Request("/half"));
                front.Socket.ClientFinish();
                bench.Settle();
                gate.SetResult();
                bench.Settle();
                Assert.Equal("still True", Assert.Single(front.Ended).BodyText);
                Assert.True(front.IsAtEnd);
                Assert.Equal(0, bench.Connections);
            });
    }

    [Fact]
    public void A_peer_that_goes_away_cancels_the_handler_and_frees_the_connection()
    {
        int cancelled = 0;
        Bench.Run(
            async (request, response) =>
            {
                await Cancelled(request.Aborted);
                cancelled++;
            },
            bench =>
            {
                FrontEnd[] fronts = [bench.Connect(), bench.Connect()];
                Array.ForEach(fronts, front => bench.Send(front, Wire.Request("/wait")));
                fronts[0].Socket.ClientReset();
                fronts[1].Socket.ClientClose();
                bench.Settle();
                Assert.Equal((2, 0), (cancelled, bench.Connections));
            });
    }

    [Fact]
    public void Hostile_59_A_peer_that_never_reads_holds_up_its_handler_and_is_cut_SendTimeout()
    {
        long written = 0;
        Bench.Run(
            async (request, response) =>
            {
                for (int i = 0; i < 10_000 && !request.Aborted.IsCancellationRequested; i++)
                {
                    await response.WriteAsync(new byte[10_000]);
                    await response.FlushAsync();
                    written += 10_000;
                }
            },
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Reads = false;
                bench.Send(front, Wire.Request("/endless"));
                Assert.InRange(written, 200_000, 600_000);
                bench.Pass(TimeSpan.FromSeconds(9));
                Assert.Equal(1, bench.Connections);
                bench.Pass(TimeSpan.FromSeconds(3));
                Assert.Equal(0, bench.Connections);
                Assert.InRange(written, 200_000, 700_000);
                Assert.Equal(1, bench.Refused("send-timeout"));
                bench.Reads = true;
            },
            Options(static options => options.SendTimeout = TimeSpan.FromSeconds(10)));
    }

    [Fact]
    public void Hostile_59_A_peer_that_leaves_a_finished_answer_unread_is_cut_SendTimeout() => Bench.Run(
        static (request, response) =>
        {
            response.Write(new byte[1_000_000]);
            return default;
        },
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Reads = false;
            bench.Send(front, Wire.Request("/large"));
            bench.Pass(TimeSpan.FromSeconds(9));
            Assert.Equal(1, bench.Connections);
            bench.Pass(TimeSpan.FromSeconds(2));
            Assert.Equal(0, bench.Connections);
            bench.Reads = true;
        },
        Options(static options => options.SendTimeout = TimeSpan.FromSeconds(10)));

    [Theory]
    [InlineData(10)]
    [InlineData(130)]
    public void Hostile_61_Idle_connections_are_closed_in_time_IdleTimeout(int seconds) => Bench.Run(
        bench =>
        {
            FrontEnd[] fronts = [.. Enumerable.Range(0, 100).Select(_ => bench.Connect())];
            Array.ForEach(fronts, front => bench.StillServes(front));
            bench.Pass(TimeSpan.FromSeconds(seconds - 1));
            Assert.Equal(100, bench.Connections);
            bench.StillServes(fronts[7]);
            bench.Pass(TimeSpan.FromSeconds(2));
            Assert.Equal(1, bench.Connections);
            bench.StillServes(fronts[7]);
        },
        Options(options => options.IdleTimeout = TimeSpan.FromSeconds(seconds)));

    [Fact]
    public void Hostile_62_Requests_in_progress_end_before_the_server_does()
    {
        var gate = new TaskCompletionSource();
        Bench.Run(
            async (request, response) =>
            {
                await gate.Task;
                response.WriteText("whole");
            },
            bench =>
            {
                FrontEnd idle = bench.Connect();
                FrontEnd busy = bench.Connect();
                bench.Send(busy, Wire.Request("/busy"));
                bench.Pass(TimeSpan.FromSeconds(1));
                _ = bench.Simulation.BeginDrain();
                bench.Settle();
                Assert.True(idle.IsAtEnd);
                Assert.False(busy.IsAtEnd);
                gate.SetResult();
                bench.Settle();
                Assert.Equal("whole", Assert.Single(busy.Ended).BodyText);
                Assert.True(busy.IsAtEnd);
                Assert.Equal(0, bench.Connections);
            });
    }

    [Fact]
    public void Hostile_62_What_outlasts_the_drain_time_is_cut_DrainTimeout()
    {
        var gate = new TaskCompletionSource();
        Bench.Run(
            async (request, response) => await Cancelled(request.Aborted),
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, Wire.Request("/stubborn"));
                _ = bench.Simulation.BeginDrain();
                bench.Settle();
                Assert.Equal(1, bench.Connections);
                bench.Simulation.Post(static loop => loop.Cut());
                bench.Settle();
                Assert.Equal(0, bench.Connections);
                Assert.True(front.IsAtEnd);
                Assert.Empty(front.Ended);
            });
    }

    [Fact]
    public void Hostile_63_Without_the_keep_flag_the_connection_ends_behind_END_FastCGI_5_1() =>
        Bench.HoweverCut(Wire.Request("/once", keep: false), static (bench, front) =>
        {
            Assert.Equal(200, Assert.Single(front.Ended).Status);
            Assert.True(front.IsAtEnd);
        });

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Hostile_64_The_next_request_may_come_before_the_end_of_this_one(bool asynchronous)
    {
        byte[] three = [.. Wire.Request("/one"), .. Wire.Request("/two", "POST", new byte[300]), .. Wire.Request("/three")];
        var pauses = new Queue<TaskCompletionSource>();
        Bench.HoweverCut(
            three,
            (bench, front) =>
            {
                while (pauses.TryDequeue(out TaskCompletionSource? pause))
                {
                    pause.SetResult();
                    bench.Settle();
                }

                Assert.Equal(["GET /one", "POST /two", "GET /three"], front.Ended.Select(static response => response.BodyText.Split('\n')[0]));
                bench.Simulation.Settle();
            },
            async (request, response) =>
            {
                if (asynchronous)
                {
                    var pause = new TaskCompletionSource();
                    pauses.Enqueue(pause);
                    await pause.Task;
                }

                await Bench.Echo(request, response);
            });
    }

    [Fact]
    public void The_next_request_under_another_id_waits_where_Content_Length_says_that_the_response_is_whole()
    {
        var pause = new TaskCompletionSource();
        Bench.Run(
            async (request, response) =>
            {
                if (request.Path == "/first")
                {
                    response.ContentLength = 2;
                    await response.WriteAsync("ab"u8.ToArray());
                    await response.FlushAsync();
                    await pause.Task;
                    return;
                }

                await Bench.Echo(request, response);
            },
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, Wire.Request("/first", id: 1));
                Assert.Equal("ab", front.Open[1].BodyText);

                // As HAProxy does: the next id before END_REQUEST of this one.
                bench.Send(front, Wire.Request("/second", id: 3));
                Assert.Empty(front.Ended);
                pause.SetResult();
                bench.Settle();
                Assert.Equal([(1, 0), (3, 0)], front.Ended.Select(static response => (response.Id, response.ProtocolStatus)));
                Assert.StartsWith("GET /second", front.Ended[1].BodyText, StringComparison.Ordinal);
            });
    }

    // ---- limits of requests and connections ----

    [Fact]
    public void Connections_over_the_limit_are_closed_and_the_others_served_MaxConnections() => Bench.Run(
        static bench =>
        {
            FrontEnd first = bench.Connect();
            FrontEnd second = bench.Connect();
            Assert.True(bench.Connect().IsAtEnd);
            Assert.Equal(1, bench.Refused("too-many-connections"));
            bench.StillServes(first);
            second.Socket.ClientClose();
            bench.Settle();
            bench.OthersAreServed();
        },
        Options(static options => options.MaxConnections = 2));

    [Fact]
    public void Requests_over_the_limit_wait_their_turn_in_order_MaxConcurrentRequests()
    {
        var running = new Queue<(string Path, TaskCompletionSource Gate)>();
        Bench.Run(
            async (request, response) =>
            {
                var gate = new TaskCompletionSource();
                running.Enqueue((request.Path, gate));
                await gate.Task;
                response.WriteText(request.Path);
            },
            bench =>
            {
                FrontEnd[] fronts = [.. Enumerable.Range(0, 5).Select(_ => bench.Connect())];
                for (int i = 0; i < fronts.Length; i++)
                {
                    bench.Send(fronts[i], Wire.Request($"/{i}"));
                }

                Assert.Equal(2, Assert.Single(fronts[4].Ended).ProtocolStatus);
                for (int i = 0; i < 4; i++)
                {
                    Assert.Equal(Math.Min(2, 4 - i), running.Count);
                    (string path, TaskCompletionSource gate) = running.Dequeue();
                    Assert.Equal($"/{i}", path);
                    gate.SetResult();
                    bench.Settle();
                    Assert.Equal($"/{i}", Assert.Single(fronts[i].Ended).BodyText);
                }
            },
            Options(static options =>
            {
                options.MaxConcurrentRequests = 2;
                options.RequestQueueLimit = 2;
            }));
    }

    [Fact]
    public void A_request_that_takes_too_long_is_cancelled_RequestTimeout() => Bench.Run(
        static async (request, response) =>
        {
            await Cancelled(request.Aborted);
            response.WriteText("gave up");
        },
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, Wire.Request("/forever"));
            bench.Pass(TimeSpan.FromSeconds(4));
            Assert.Empty(front.Ended);
            bench.Pass(TimeSpan.FromSeconds(2));
            Assert.Equal("gave up", Assert.Single(front.Ended).BodyText);
            Assert.Equal(1, bench.Refused("request-timeout"));
        },
        Options(static options => options.RequestTimeout = TimeSpan.FromSeconds(5)));

    [Fact]
    public void Descriptors_may_run_out_and_come_back() => Bench.Run(static bench =>
    {
        bench.Simulation.World.DescriptorsMax = bench.Simulation.World.Open + 2;
        FrontEnd first = bench.Connect();
        FrontEnd second = bench.Connect();
        FrontEnd waiting = bench.Connect();
        bench.Send(waiting, Wire.Request("/waits"));
        Assert.Empty(waiting.Ended);
        bench.StillServes(first);
        second.Socket.ClientClose();
        bench.Pass(TimeSpan.FromMilliseconds(300));
        Assert.Equal(200, Assert.Single(waiting.Ended).Status);
        Assert.True(bench.Refused("descriptors-exhausted") > 0);
    });
}
