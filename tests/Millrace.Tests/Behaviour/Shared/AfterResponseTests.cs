// What an ASP.NET Core application does when its response has ended: OnCompleted callbacks, among them the disposal of the
// request's services, and the end of the hosting layer's context. The response does not wait for any of it.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class AfterResponseTests(Way way) : SharedTests(way)
{
    private const int Size = 700_000;

    [Theory]
    [InlineData("at once")]
    [InlineData("after a pause")]
    [InlineData("in pieces")]
    public void A_response_that_its_socket_did_not_take_at_once_leaves_while_OnCompleted_runs(string how)
    {
        var completing = new TaskCompletionSource();
        var pause = new TaskCompletionSource();
        bool completed = false;
        Run(
            async call =>
            {
                if (call.Path == "/first")
                {
                    ((HostedCall)call).Context.Response.OnCompleted(async () =>
                    {
                        await completing.Task;
                        completed = true;
                    });
                }

                if (how == "after a pause")
                {
                    await pause.Task;
                }

                if (how == "in pieces")
                {
                    for (int at = 0; at < Size; at += 10_000)
                    {
                        await call.WriteAsync(Plan.Bytes("after", at, 10_000));
                    }
                }
                else
                {
                    call.Write(Plan.Bytes("after", 0, Size));
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/first"));
                pause.SetResult();
                bench.Settle();
                Assert.Equal(Plan.Bytes("after", 0, Size), Assert.Single(caller.Answers).Body);
                Assert.False(completed);

                // The next request of the connection waits, as on Kestrel; others do not.
                bench.Send(caller, caller.Request("/second"));
                Assert.Single(caller.Answers);
                bench.OthersAreServed();
                completing.SetResult();
                bench.Settle();
                Assert.True(completed);
                Assert.Equal(2, caller.Answers.Count);
            });
    }

    [Fact]
    public void A_peer_that_takes_nothing_of_a_response_is_cut_while_OnCompleted_runs_SendTimeout()
    {
        var completing = new TaskCompletionSource();
        Run(
            call =>
            {
                ((HostedCall)call).Context.Response.OnCompleted(() => completing.Task);
                call.Write(new byte[Size]);
                return default;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/first"));
                bench.Pass(TimeSpan.FromSeconds(58));
                Assert.Equal(0, bench.RefusedInAll);
                bench.Pass(TimeSpan.FromSeconds(4));
                Assert.Equal((1, 1), (bench.Refused("send-timeout"), bench.Connections));
                completing.SetResult();
                bench.Settle();
                Assert.Equal(0, bench.Connections);
                bench.Reads = true;
            });
    }

    [Fact]
    public void A_whole_response_reaches_a_slow_reader_though_OnCompleted_outlasts_the_drain_DrainTimeout()
    {
        var completing = new TaskCompletionSource();
        Run(
            call =>
            {
                ((HostedCall)call).Context.Response.OnCompleted(() => completing.Task);
                call.WriteText("all of it");
                return default;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/first"));
                bench.Drain();
                bench.Cut();
                Assert.False(caller.Socket.WasReset);
                bench.Reads = true;
                bench.Settle();
                Assert.Equal("all of it", Assert.Single(caller.Answers).BodyText);
                Assert.True(caller.IsAtEnd);
                completing.SetResult();
                bench.Settle();
                Assert.Equal(0, bench.Connections);
            });
    }

    // nginx does not repeat a POST: it must not take the connection for an idle one when it has the response.
    [Fact]
    public void In_a_drain_the_end_of_the_connection_comes_with_that_of_the_response_Unix()
    {
        var pause = new TaskCompletionSource();
        var completing = new TaskCompletionSource();
        RunOverUnix(
            async call =>
            {
                ((HostedCall)call).Context.Response.OnCompleted(() => completing.Task);
                call.WriteText("begun ");
                await call.FlushAsync();
                await pause.Task;
                call.WriteText("ended");
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/"));
                if (!IsHttp)
                {
                    caller.Socket.SpuriousEdge(lies: true);     // a look of the loop leaves nothing behind
                    bench.Settle();
                }

                bench.Drain();
                Assert.False(caller.Socket.ReceivingEnded);
                pause.SetResult();
                bench.Settle();
                Assert.Equal("begun ended", Assert.Single(caller.Answers).BodyText);
                Assert.True(caller.Socket.ReceivingEnded);
                Assert.True(caller.IsAtEnd);
                completing.SetResult();
                bench.Settle();
                Assert.Equal(0, bench.Connections);
            });
    }

    // Its next request may be on its way when the handler ends.
    [Fact]
    public void A_connection_whose_response_has_left_before_the_drain_is_closed_when_it_has_been_quiet_Unix()
    {
        var completing = new TaskCompletionSource();
        RunOverUnix(
            call =>
            {
                if (call.Path == "/first")
                {
                    ((HostedCall)call).Context.Response.OnCompleted(() => completing.Task);
                }

                call.WriteText("all of it");
                return default;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/first"));
                Assert.Single(caller.Answers);
                bench.Drain();
                completing.SetResult();
                bench.Settle();
                Assert.False(caller.Socket.ReceivingEnded || caller.IsAtEnd);
                bench.Send(caller, caller.Request("/second"));
                Assert.Equal(2, caller.Answers.Count);
                Assert.True(caller.IsAtEnd);
            });
    }

    // Over HTTP it has been told of the end, and may ask again (RFC 9112 §9.6).
    [Fact]
    public void In_a_drain_a_next_request_that_has_come_with_one_whose_response_ends_before_its_handler_is_answered_Unix()
    {
        var going = new TaskCompletionSource();
        RunOverUnix(
            async call =>
            {
                call.WriteText(call.Path);
                if (call.Path == "/first")
                {
                    await ((HostedCall)call).Context.Response.CompleteAsync();
                    await going.Task;
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Drain();
                bench.Send(caller, [.. caller.Request("/first"), .. caller.Request("/second")]);
                going.SetResult();
                bench.Settle();
                string[] answered = caller.Answers[0].Field("Connection") == "close" ? ["/first"] : ["/first", "/second"];
                Assert.Equal(answered, caller.Answers.Select(static answer => answer.BodyText));
                Assert.True(caller.IsAtEnd);
            });
    }

    [Theory]
    [InlineData("")]
    [InlineData("written")]
    public void A_writer_that_is_completed_ends_the_response_while_its_handler_goes_on(string body)
    {
        var pause = new TaskCompletionSource();
        Run(
            async call =>
            {
                if (call.Path == "/first")
                {
                    System.IO.Pipelines.PipeWriter writer = ((HostedCall)call).Context.Response.BodyWriter;
                    call.WriteText(body);
                    await writer.CompleteAsync();
                    await writer.CompleteAsync();
                    await pause.Task;
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/first"));
                Assert.Equal(body, Assert.Single(caller.Answers).BodyText);
                pause.SetResult();
                bench.Settle();
                Assert.Single(caller.Answers);
                bench.StillServes(caller);
            });
    }

    // The peer reads until the flush has left; whoever waited for it has not been told yet.
    private static void TurnUntilFlushed(SharedBench bench, Caller caller)
    {
        for (int i = 0; bench.Simulation.PoolCount == 0; i++)
        {
            Assert.InRange(i, 0, 100);
            _ = caller.End.Read();
            _ = bench.Simulation.Loops[0].Turn(0);
        }
    }

    // What waited for the flush is told by a thread of its own: until then the flush still counts as pending, and sends nothing more.
    [Fact]
    public void A_response_that_ends_between_its_last_flush_and_whoever_waited_for_it_leaves_while_OnCompleted_runs()
    {
        var completing = new TaskCompletionSource();
        var pause = new TaskCompletionSource();
        Run(
            async call =>
            {
                if (call.Path != "/first")
                {
                    return;
                }

                ((HostedCall)call).Context.Response.OnCompleted(() => completing.Task);
                call.Write(Plan.Bytes("after", 0, Size));
                _ = call.FlushAsync().AsTask();
                await pause.Task;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/first"));
                TurnUntilFlushed(bench, caller);

                pause.SetResult();
                bench.Reads = true;
                bench.Settle();
                Assert.Equal(Plan.Bytes("after", 0, Size), Assert.Single(caller.Answers).Body);
                completing.SetResult();
                bench.Settle();
                bench.StillServes(caller);
            },
            static options => options.Dispatch = DispatchMode.Workers);
    }

    // Another's flush waits for the peer, or has just been waited for and whoever waited has not been told: the completion takes its own time.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_response_that_is_completed_beside_the_flush_of_another_has_left_when_its_completion_ends(bool isFlushed)
    {
        var holding = new TaskCompletionSource();
        var pause = new TaskCompletionSource();
        bool isCompleted = false;
        Run(
            async call =>
            {
                if (call.Path != "/first")
                {
                    return;
                }

                call.Write(Plan.Bytes("beside", 0, Size));
                _ = call.FlushAsync().AsTask();
                if (isFlushed)
                {
                    await pause.Task;
                }

                await ((HostedCall)call).Context.Response.CompleteAsync();
                isCompleted = true;
                await holding.Task;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/first"));
                if (isFlushed)
                {
                    TurnUntilFlushed(bench, caller);
                }

                Assert.False(isCompleted);
                pause.SetResult();
                bench.Reads = true;
                bench.Settle();
                Assert.True(isCompleted);
                Assert.Equal(Plan.Bytes("beside", 0, Size), Assert.Single(caller.Answers).Body);
                holding.SetResult();
                bench.Settle();
                bench.StillServes(caller);
            },
            static options => options.Dispatch = DispatchMode.Workers);
    }

    // Another thread's flush has begun, or ended, between the completion's look for it and its own turn.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_completion_that_finds_the_flush_of_another_in_its_turn_sends_what_that_does_not(bool isFlushed)
    {
        var holding = new TaskCompletionSource();
        var pause = new TaskCompletionSource();
        ValueTask completing = default;
        Run(
            async call =>
            {
                if (call.Path != "/first")
                {
                    return;
                }

                call.Write(Plan.Bytes("beside", 0, Size));
                _ = call.FlushAsync().AsTask();
                if (isFlushed)
                {
                    await pause.Task;
                }

                Millrace.Exchanges.Exchange exchange = call.Exchange;
                exchange.Gate.Enter(exchange.Ticket);
                completing = exchange.Complete();
                exchange.Gate.ExitForGood(exchange.Ticket);
                await holding.Task;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/first"));
                if (isFlushed)
                {
                    TurnUntilFlushed(bench, caller);
                    pause.SetResult();
                }
                else
                {
                    Assert.False(completing.IsCompleted);
                }

                bench.Reads = true;
                bench.Settle();
                Assert.True(completing.IsCompletedSuccessfully);
                Assert.Equal(Plan.Bytes("beside", 0, Size), Assert.Single(caller.Answers).Body);
                holding.SetResult();
                bench.Settle();
                bench.StillServes(caller);
            },
            static options => options.Dispatch = DispatchMode.Workers);
    }

    [Theory]
    [InlineData(true, false)]
    [InlineData(true, true)]
    [InlineData(false, false)]
    [InlineData(false, true)]
    public void A_response_has_left_before_what_comes_after_it_has_blocked_its_thread(bool inOnCompleted, bool later)
    {
        Simulation.Simulation? simulation = null;
        SimulatedSocket? socket = null;
        long sentByThen = -1;
        void Block()
        {
            for (int i = 0; i < 5; i++)
            {
                simulation!.Block(stepsMax: 400);
            }

            sentByThen = socket!.SentByServer;
        }

        var pause = new TaskCompletionSource();
        Run(
            async call =>
            {
                if (call.Path != "/first")
                {
                    return;
                }

                Microsoft.AspNetCore.Http.HttpContext context = ((HostedCall)call).Context;
                if (inOnCompleted)
                {
                    context.Response.OnCompleted(() =>
                    {
                        Block();
                        return Task.CompletedTask;
                    });
                }
                else
                {
                    context.Items[HandlerFaces.AtDisposal] = (Action)Block;
                }

                if (later)
                {
                    await pause.Task;
                }

                call.WriteText("first");
            },
            bench =>
            {
                simulation = bench.Simulation;
                Caller caller = bench.Connect();
                socket = caller.Socket;
                bench.Send(caller, caller.Request("/first"));
                pause.SetResult();
                bench.Settle();
                Assert.Equal("first", Assert.Single(caller.Answers).BodyText);
                Assert.Equal(socket.SentByServer, sentByThen);
                bench.StillServes(caller);
            });
    }

    // Before anything of the application's runs behind it, not when the driver finds its handler slow.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_response_has_left_when_OnCompleted_begins(bool later)
    {
        var pause = new TaskCompletionSource();
        SimulatedSocket? socket = null;
        long sentByThen = -1;
        Run(
            async call =>
            {
                ((HostedCall)call).Context.Response.OnCompleted(() =>
                {
                    sentByThen = socket!.SentByServer;
                    return Task.CompletedTask;
                });
                await (later ? pause.Task : Task.CompletedTask);
                call.WriteText("first");
            },
            bench =>
            {
                Caller caller = bench.Connect();
                socket = caller.Socket;
                bench.Send(caller, caller.Request("/"));
                pause.SetResult();
                bench.Settle();
                Assert.Equal("first", Assert.Single(caller.Answers).BodyText);
                Assert.Equal(socket.SentByServer, sentByThen);
            });
    }

    // There is nobody to answer. What has come of its next request lies with the server, and nothing else tells of its end before that is run.
    [Theory]
    [InlineData("before the response is sent", false)]
    [InlineData("before the response is sent", true)]
    [InlineData("while OnCompleted runs", false)]
    [InlineData("while OnCompleted runs", true)]
    public void The_next_request_of_a_peer_that_is_known_to_have_gone_is_not_run(string when, bool later)
    {
        var pause = new TaskCompletionSource();
        var completing = new TaskCompletionSource();
        var ran = new List<string>();
        Caller? caller = null;
        Run(
            async call =>
            {
                ran.Add(call.Path);
                ((HostedCall)call).Context.Response.OnCompleted(() => completing.Task);
                call.WriteText("all of it");
                if (later)
                {
                    await pause.Task;
                }

                if (when == "before the response is sent")
                {
                    caller!.Socket.ClientReset();
                }
            },
            bench =>
            {
                caller = bench.Connect();
                bench.Send(caller, [.. caller.Request("/first"), .. caller.Request("/second")]);
                pause.SetResult();
                if (when == "while OnCompleted runs")
                {
                    bench.Settle();
                    caller.Socket.ClientReset();
                }

                bench.Settle();
                completing.SetResult();
                bench.Settle();
                Assert.Equal(["/first"], ran);
                bench.Pass(TimeSpan.FromSeconds(3));
                Assert.Equal(0, bench.Connections);
                bench.OthersAreServed();
            });
    }

    // It has all that it asked for, and aborts nothing.
    [Fact]
    public void A_peer_that_leaves_with_its_whole_response_while_the_context_is_disposed_of_cancels_nothing()
    {
        Simulation.Simulation? simulation = null;
        SimulatedSocket? socket = null;
        CancellationToken aborted = default;
        long sentByThen = -1;
        Run(
            call =>
            {
                if (call.Path != "/first")
                {
                    return default;
                }

                aborted = call.Aborted;
                ((HostedCall)call).Context.Items[HandlerFaces.AtDisposal] = (Action)(() =>
                {
                    for (int i = 0; i < 10; i++)
                    {
                        simulation!.Block(stepsMax: 400);
                        if (i == 4)
                        {
                            sentByThen = socket!.SentByServer;
                            socket.ClientClose();
                        }
                    }
                });
                call.WriteText("first");
                return default;
            },
            bench =>
            {
                simulation = bench.Simulation;
                Caller caller = bench.Connect();
                socket = caller.Socket;
                bench.Send(caller, caller.Request("/first"));
                Assert.Equal(socket.SentByServer, sentByThen);
                Assert.False(aborted.IsCancellationRequested);
                bench.OthersAreServed();
            });
    }
}

public sealed class FastCgiAfterResponseTests() : AfterResponseTests(Way.FastCgiToHosted)
{
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_request_that_is_aborted_while_its_front_server_reads_nothing_ends_while_OnCompleted_runs_FastCGI_5_4(bool abortsFirst)
    {
        var ends = new TaskCompletionSource();
        var completing = new TaskCompletionSource();
        Run(
            async call =>
            {
                if (call.Path == "/first")
                {
                    ((HostedCall)call).Context.Response.OnCompleted(() => completing.Task);
                    call.Write(Plan.Bytes("after", 0, 700_000));
                    _ = call.FlushAsync().AsTask();
                    await ends.Task;
                }
            },
            bench =>
            {
                var caller = (FastCgiCaller)bench.Connect();
                byte[] abort = Wire.Record(Wire.Abort, 1, []);
                bench.Reads = false;
                bench.Send(caller, caller.Request("/first"));
                if (abortsFirst)
                {
                    bench.Send(caller, abort);
                    ends.SetResult();
                }
                else
                {
                    ends.SetResult();
                    bench.Send(caller, abort);
                }

                bench.Settle();
                bench.Reads = true;
                bench.Settle();
                Assert.Equal(1, Assert.Single(caller.Front.Ended).Id);
                completing.SetResult();
                bench.Settle();
                bench.StillServes(caller);
            });
    }

    [Fact]
    public void A_request_that_is_aborted_before_its_end_finds_room_ends_while_OnCompleted_runs_FastCGI_5_4()
    {
        var completing = new TaskCompletionSource();
        Run(
            call =>
            {
                if (call.Path == "/first")
                {
                    ((HostedCall)call).Context.Response.OnCompleted(() => completing.Task);
                    call.Write(Plan.Bytes("after", 0, 700_000));
                }

                return default;
            },
            bench =>
            {
                var caller = (FastCgiCaller)bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/first"));
                bench.Send(caller, Wire.Record(Wire.Abort, 1, []));
                bench.Reads = true;
                bench.Settle();
                Assert.Equal(1, Assert.Single(caller.Front.Ended).Id);
                completing.SetResult();
                bench.Settle();
                bench.StillServes(caller);
            });
    }
}

public sealed class HttpAfterResponseTests() : AfterResponseTests(Way.HttpToHosted);
