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
    public void A_head_that_stays_half_in_the_drain_has_its_time_and_no_more_HeadTimeout() => Run(
        static bench =>
        {
            Caller caller = bench.Connect();
            byte[] request = caller.Request("/");
            bench.Send(caller, request[..(request.Length / 2)]);
            bench.Drain();
            for (int seconds = 0; seconds < 9; seconds++)
            {
                bench.PassInDrain(TimeSpan.FromSeconds(1));
            }

            Assert.Equal((1, 0), (bench.Connections, bench.RefusedInAll));
            bench.PassInDrain(TimeSpan.FromSeconds(2));
            Assert.Equal(1, bench.Refused("head-timeout"));
            Assert.True(caller.IsAtEnd);
        },
        static options => options.HeadTimeout = TimeSpan.FromSeconds(10));

    // What comes behind it would be lost with a reset, which the peer would not know from an answer: it is told at once, and its bytes are thrown away for a while.
    [Fact]
    public void An_answer_in_the_drain_ends_a_TCP_connection_whose_body_is_still_coming() => Run(
        AtOnce(static call => call.WriteText("early")),
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Drain();
            bench.Send(caller, caller.Head("/", "POST", 1_000));
            Assert.Equal("early", Assert.Single(caller.Answers).BodyText);
            Assert.True(caller.IsAtEnd);
            bench.Send(caller, caller.Part(new byte[500]));
            Assert.False(caller.Socket.WasReset);
        });

    // The answer is whole, and may lie unread at the peer, where a reset would take it away.
    [Fact]
    public void The_end_of_the_drain_time_does_not_reset_a_TCP_connection_whose_answer_is_whole_and_whose_body_is_still_coming_DrainTimeout() => Run(
        AtOnce(static call => call.WriteText("early")),
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Drain();
            bench.Send(caller, caller.Head("/", "POST", 1_000));
            Assert.Equal("early", Assert.Single(caller.Answers).BodyText);
            bench.Cut();
            Assert.True(caller.IsAtEnd);
            Assert.False(caller.Socket.WasReset);
        });

    // Whoever has sent a request without an error is answered; whoever was not let knows that it was not sent.
    [Theory]
    [InlineData("quiet in the drain", false)]
    [InlineData("quiet in the drain", true)]
    [InlineData("idle for too long", false)]
    [InlineData("idle for too long", true)]
    [InlineData("answered in its turn", false)]
    [InlineData("answered in its turn", true)]
    [InlineData("answered later", false)]
    [InlineData("answered later", true)]
    [InlineData("answered more slowly than it reads", false)]
    [InlineData("answered more slowly than it reads", true)]
    public void No_request_is_lost_that_is_sent_as_its_connection_is_closed_Unix(string when, bool atClose)
    {
        var gate = new TaskCompletionSource();
        SharedBench? on = null;
        bool isCancelled = false;
        RunOverUnix(
            async call =>
            {
                if (call.Path == "/last")
                {
                    await on!.Simulation.Pause();       // its peer can send nothing more, and is there
                    isCancelled = call.Aborted.IsCancellationRequested;
                }

                if (call.Path == "/later")
                {
                    call.WriteText("begun");
                    await call.FlushAsync();
                    await gate.Task;
                    call.Write(new byte[when.Contains("slowly", StringComparison.Ordinal) ? 3_000_000 : 3]);
                }
                else
                {
                    await Call.Echo(call);
                }
            },
            bench =>
            {
                on = bench;
                Caller caller = bench.Connect();
                _ = bench.Get(caller, "/first");
                bool isSent = false;
                void SendNow(Simulation.SimulatedSocket socket)
                {
                    if (isSent || socket.ReceivingEnded != atClose || caller.Answers[^1].Field("Connection") == "close")
                    {
                        return;
                    }

                    isSent = true;
                    socket.ClientSend(caller.Request("/last"));
                    socket.Deliver(int.MaxValue);
                }

                switch (when)
                {
                    case "quiet in the drain":
                        bench.Drain();
                        bench.Simulation.World.BeforeEnd = SendNow;
                        bench.PassInDrain(TimeSpan.FromMilliseconds(300));
                        break;
                    case "idle for too long":
                        bench.Simulation.World.BeforeEnd = SendNow;
                        bench.Pass(TimeSpan.FromSeconds(11));
                        break;
                    case "answered in its turn":
                        bench.Drain();
                        bench.Simulation.World.BeforeEnd = SendNow;
                        bench.Send(caller, caller.Request("/second"));
                        break;
                    default:
                        bench.Send(caller, caller.Request("/later"));
                        bench.Drain();
                        bench.Simulation.World.BeforeEnd = SendNow;
                        gate.SetResult();
                        bench.Settle();
                        break;
                }

                bench.Settle();
                Assert.Equal(!(IsHttp && when == "answered in its turn"), isSent);
                Assert.Equal(atClose && isSent, caller.Socket.RefusedToClient);
                Assert.Equal(!atClose && isSent, caller.Answers[^1].BodyText.StartsWith("GET /last\n", StringComparison.Ordinal));
                Assert.False(isCancelled);
                Assert.True(caller.IsAtEnd);
                bench.Pass(isSent ? TimeSpan.Zero : TimeSpan.FromSeconds(5));      // whoever is told of the end may have been sending
                Assert.Equal(0, bench.Connections);
                Assert.Equal(0, bench.RefusedInAll);
            },
            static options => options.IdleTimeout = TimeSpan.FromSeconds(10));
    }

    // What is still to come of a body that nobody reads stands before the next request of a peer that does not look for the end of the connection.
    [Theory]
    [InlineData("in its turn", "the rest, and a request")]
    [InlineData("in its turn", "the rest, and no more")]
    [InlineData("in its turn", "a part, and no more")]
    [InlineData("in its turn", "nothing")]
    [InlineData("later", "the rest, and a request")]
    [InlineData("later", "the rest, and no more")]
    [InlineData("later", "a part, and no more")]
    [InlineData("later", "nothing")]
    [InlineData("before the drain", "the rest, and a request")]
    [InlineData("before the drain", "the rest, and no more")]
    [InlineData("before the drain", "a part, and no more")]
    [InlineData("before the drain", "nothing")]
    public void No_request_is_lost_that_comes_behind_a_body_that_was_answered_before_its_end_Unix(string answered, string behind)
    {
        var gate = new TaskCompletionSource();
        RunOverUnix(
            async call =>
            {
                call.WriteText(call.Path);
                if (call.Path == "/first" && answered == "later")
                {
                    await call.FlushAsync();
                    await gate.Task;
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                if (answered == "in its turn")
                {
                    bench.Drain();
                }

                bench.Send(caller, caller.Head("/first", "POST", length: 200_000));
                if (answered != "in its turn")
                {
                    bench.Drain();
                }

                gate.SetResult();
                bench.Settle();
                Assert.Equal("/first", Assert.Single(caller.Answers).BodyText);
                bool isTold = IsHttp && answered == "in its turn";
                Assert.Equal(isTold, caller.IsAtEnd);
                Assert.False(caller.Socket.ReceivingEnded);

                byte[] part = caller.Part(new byte[60_000]);
                byte[] rest = [.. part, .. caller.Part(new byte[60_000]), .. caller.Part(new byte[60_000]), .. caller.Part(new byte[20_000]), .. caller.EndOfBody()];
                byte[] next = caller.Request("/second");
                switch (behind)
                {
                    case "the rest, and a request":
                        bench.Send(caller, [.. rest, .. next]);
                        break;
                    case "the rest, and no more":
                        bench.Send(caller, rest);
                        break;
                    case "a part, and no more":
                        bench.Send(caller, part[..50_000]);
                        break;
                }

                bool isLast = !isTold && behind.StartsWith("the rest", StringComparison.Ordinal);
                Assert.Equal(isLast || isTold, caller.IsAtEnd);
                bench.PassInDrain(TimeSpan.FromMilliseconds(300));
                Assert.Equal(!isTold && behind == "the rest, and a request" ? ["/first", "/second"] : ["/first"], caller.Answers.Select(static answer => answer.BodyText));
                Assert.True(caller.IsAtEnd);
                bench.PassInDrain(isTold ? TimeSpan.FromSeconds(5) : TimeSpan.Zero);     // whoever is told of the end may have been sending
                Assert.Equal(0, bench.Connections);
                Assert.Equal(0, bench.RefusedInAll);
            });
    }

    [Fact]
    public void Whoever_sends_on_behind_an_answer_in_a_drain_is_not_held_to_be_quiet_Unix()
    {
        var gate = new TaskCompletionSource();
        RunOverUnix(
            async call =>
            {
                call.WriteText(call.Path);
                if (call.Path == "/first")
                {
                    await call.FlushAsync();
                    await gate.Task;
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Head("/first", "POST", length: 1_000));
                bench.Drain();
                gate.SetResult();
                bench.Settle();
                for (int i = 0; i < 10; i++)
                {
                    bench.PassInDrain(TimeSpan.FromMilliseconds(200));
                    bench.Send(caller, caller.Part(new byte[100]));
                }

                bench.Send(caller, [.. caller.EndOfBody(), .. caller.Request("/second")]);
                Assert.Equal(IsHttp ? ["/first"] : ["/first", "/second"], caller.Answers.Select(static answer => answer.BodyText));
                Assert.True(caller.IsAtEnd);
            });
    }

    [Fact]
    public void Whoever_has_just_read_the_last_of_a_long_answer_in_a_drain_is_not_held_to_be_quiet_Unix() => RunOverUnix(
        static async call =>
        {
            await Call.Echo(call);
            if (call.Path == "/long")
            {
                call.Write(new byte[500_000]);
            }
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Reads = false;
            bench.Send(caller, caller.Request("/long"));
            bench.Drain();
            bench.PassInDrain(TimeSpan.FromMilliseconds(400));
            bench.Reads = true;
            bench.Settle();
            Assert.StartsWith("GET /long\n", Assert.Single(caller.Answers).BodyText, StringComparison.Ordinal);
            bench.PassInDrain(TimeSpan.FromMilliseconds(200));
            bench.Send(caller, caller.Request("/second"));
            Assert.StartsWith("GET /second\n", caller.Answers[^1].BodyText, StringComparison.Ordinal);
            Assert.True(caller.IsAtEnd);
        });

    // Over TCP nobody can end a connection so that nothing is on its way to it: what lies in the socket is served all the same.
    [Theory]
    [InlineData("quiet")]
    [InlineData("answered later")]
    public void A_request_that_lies_in_the_socket_when_its_connection_would_be_closed_in_the_drain_is_served(string when)
    {
        var gate = new TaskCompletionSource();
        Run(
            async call =>
            {
                if (call.Path == "/later")
                {
                    call.WriteText("begun");
                    await call.FlushAsync();
                    await gate.Task;
                }
                else
                {
                    await Call.Echo(call);
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                _ = bench.Get(caller, "/first");
                if (when == "answered later")
                {
                    bench.Send(caller, caller.Request("/later"));
                }

                bench.Drain();
                if (when == "quiet")
                {
                    bench.Simulation.World.NowMs += 300;
                    bench.Simulation.Post(static loop => loop.DrainConnections());
                    Assert.True(bench.Simulation.Loops[0].Turn(0));
                }
                else
                {
                    gate.SetResult();
                    while (bench.Simulation.PoolStep())
                    {
                    }
                }

                caller.Socket.ClientSend(caller.Request("/last"));
                caller.Socket.Deliver(int.MaxValue);
                bench.Settle();
                Assert.StartsWith("GET /last\n", caller.Answers[^1].BodyText, StringComparison.Ordinal);
                bench.PassInDrain(TimeSpan.FromMilliseconds(300));
                Assert.True(caller.IsAtEnd || IsHttp);
            });
    }

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

    // What is accepted one by one does not end with those of whom nothing comes.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Who_waits_behind_others_of_whom_nothing_comes_is_served_in_the_drain(bool haveGone) => Run(
        AtOnce(static _ => { }),
        bench =>
        {
            for (int i = 0; i < 5; i++)
            {
                Caller nobody = bench.ConnectOnly("/", System.Net.IPAddress.Parse(haveGone ? "10.0.0.5" : "10.0.0.6"));
                if (haveGone)
                {
                    nobody.Socket.ClientReset();
                }
            }

            Caller patient = bench.ConnectOnly("/patient", System.Net.IPAddress.Parse("10.0.0.5"));
            _ = bench.Simulation.BeginDrain();
            bench.Settle();
            Assert.Equal(200, Assert.Single(patient.Answers).Status);
            Assert.True(bench.Simulation.Listener.IsClosed);
        },
        parameters: "?allow=10.0.0.5");

    [Fact]
    public void Nobody_joins_a_queue_that_is_accepted_for_the_last_time_Unix()
    {
        SharedBench? on = null;
        bool mayJoin = true;
        RunOverUnix(
            AtOnce(_ => mayJoin = !on!.Simulation.Listener.Refuses),
            bench =>
            {
                on = bench;
                Caller last = bench.ConnectOnly("/last");
                _ = bench.Simulation.BeginDrain();
                bench.Settle();
                Assert.Single(last.Answers);
                Assert.False(mayJoin);
            });
    }

    // Its handler has ended just now, and its loop has not heard of that.
    [Fact]
    public void A_request_that_has_ended_when_the_drain_time_is_over_does_not_count_as_cut_DrainTimeout()
    {
        var gate = new TaskCompletionSource();
        Run(
            async call =>
            {
                await gate.Task;
                call.Write(Plan.Bytes("drain", 0, 700_000));
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/"));
                bench.Drain();
                bench.Simulation.Post(static loop => loop.CutConnections());
                gate.SetResult();
                bench.Settle();
                Assert.Equal((1L, 0L), (bench.Simulation.Services.OffLoop.EndedInDrain, bench.Simulation.Loops[0].Loop.Counters.CutInDrain));
                bench.Reads = true;
                bench.Settle();
                Assert.Equal(Plan.Bytes("drain", 0, 700_000), Assert.Single(caller.Answers).Body);
            });
    }

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
