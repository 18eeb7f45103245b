// Peers that leave, reset, stop sending or stop reading in the middle of a request, over either protocol. RFC 9112 §8, §9.6.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class PeerTests(Way way) : SharedTests(way)
{
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

    [Fact]
    public void A_peer_that_goes_away_cancels_no_request_that_comes_later()
    {
        var before = new List<bool>();
        Run(
            async call =>
            {
                before.Add(call.Aborted.IsCancellationRequested);
                if (call.Path == "/wait")
                {
                    await Bench.Cancelled(call.Aborted);
                }
            },
            bench =>
            {
                Caller other = bench.Connect();
                for (int i = 0; i < 5; i++)
                {
                    Caller caller = bench.Connect();
                    bench.Send(caller, caller.Request("/wait"));
                    caller.Socket.ClientClose();
                    bench.Settle();
                    bench.StillServes(other);
                }

                Assert.Equal(10, before.Count);
                Assert.DoesNotContain(true, before);
            });
    }

    [Fact]
    public void A_peer_that_is_found_gone_when_the_handler_has_ended_cancels_nothing()
    {
        var gate = new TaskCompletionSource();
        CancellationToken aborted = default;
        Run(
            async call =>
            {
                aborted = call.Aborted;
                await gate.Task;
                call.WriteText("to nobody");
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/wait"));
                caller.Socket.ClientReset();
                gate.SetResult();       // before the loop has heard of the reset: the send fails
                bench.Settle();
                Assert.Equal((false, 0), (aborted.IsCancellationRequested, bench.Connections));
                bench.OthersAreServed();
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

    [Fact]
    public void An_answer_to_a_peer_that_has_reset_its_connection_is_for_nobody()
    {
        var gate = new TaskCompletionSource();
        Call? its = null;
        Run(
            async call =>
            {
                its = call;
                await gate.Task;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/"));
                Assert.False(its!.Exchange.Life.IsUnwanted);
                caller.Socket.ClientReset();
                bench.Settle();
                Assert.True(its.Exchange.Life.IsUnwanted);
                gate.SetResult();
                bench.Settle();
                Assert.Equal(0, bench.Connections);
            });
    }

    // The loop hears of its end later than the handler that writes to it.
    [Fact]
    public void A_handler_whose_answer_cannot_be_sent_is_told_by_that_alone()
    {
        var writing = new TaskCompletionSource();
        var ending = new TaskCompletionSource();
        CancellationToken aborted = default;
        RunOverUnix(
            async call =>
            {
                aborted = call.Aborted;
                await writing.Task;
                call.WriteText("to nobody");
                _ = await Record.ExceptionAsync(async () => await call.FlushAsync());
                await ending.Task;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/"));
                caller.Socket.ClientClose();
                writing.SetResult();
                while (bench.Simulation.PoolStep())
                {
                }

                Assert.True(aborted.IsCancellationRequested);
                ending.SetResult();
                bench.Settle();
                Assert.Equal(0, bench.Connections);
            });
    }
}

public sealed class FastCgiPeerTests() : PeerTests(Way.FastCgiToPlain);

public sealed class HttpPeerTests() : PeerTests(Way.HttpToPlain)
{
    // It has been sent before its peer went, and nobody has looked at it yet.
    [Fact]
    public void A_request_behind_one_whose_answer_cannot_be_sent_is_not_run()
    {
        var gate = new TaskCompletionSource();
        RunOverUnix(
            async call =>
            {
                await gate.Task;
                call.WriteText("to nobody");
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/first"));
                caller.Socket.ClientSend(caller.Request("/second"));
                caller.Socket.ClientClose();
                caller.Socket.Deliver(int.MaxValue);
                gate.SetResult();
                bench.Settle();
                Assert.Equal(1, bench.Simulation.Handler.Started);
                Assert.Equal(0, bench.Connections);
            });
    }
}

public sealed class FastCgiHostedPeerTests() : PeerTests(Way.FastCgiToHosted);

public sealed class HttpHostedPeerTests() : PeerTests(Way.HttpToHosted);
