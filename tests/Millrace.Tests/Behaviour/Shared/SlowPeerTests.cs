// Peers that take their answers slowly, over either protocol: what is cut is a peer that takes nothing, not one that takes its
// time. How slow an HTTP client may be at all is in Http1/RateTests.

using Millrace.Exchanges;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class SlowPeerTests(Way way) : SharedTests(way)
{
    private const int File = 77;
    private const int Size = 5_000_000;

    // What lies between the two on a fast network: room is told of when a third of it is free.
    private const int SystemBuffers = 4 * 1024 * 1024;

    // A peer's system on loopback tells its sender of room in steps of one packet.
    private const int Step = 64 * 1024;

    private static async ValueTask Answer(Call call, string how, SharedBench bench)
    {
        call.Length = Size;
        switch (how)
        {
            case "at once":
                call.Write(Plan.Bytes("slow", 0, Size));
                break;
            case "in pieces":
                for (int at = 0; at < Size; at += 50_000)
                {
                    await call.WriteAsync(Plan.Bytes("slow", at, 50_000));
                }

                break;
            case "file":
                bench.Simulation.World.Files[File] = Plan.Bytes("slow", 0, Size);
                await bench.Simulation.Handler.Current!.SendSimulatedFileAsync(File, Size);
                break;
        }
    }

    [Theory]
    [InlineData("at once")]
    [InlineData("in pieces")]
    [InlineData("file")]
    public void A_peer_that_takes_16_KB_a_second_gets_everything_SendTimeout(string how)
    {
        SharedBench? current = null;
        Run(
            call => Answer(call, how, current!),
            bench =>
            {
                current = bench;
                bench.Simulation.World.SendCapacityMax = SystemBuffers;
                bench.Simulation.World.UnsentStep = Step;
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/slow"));
                for (int seconds = 0; seconds < 400 && caller.Answers.Count == 0; seconds++)
                {
                    Assert.False(caller.Socket.WasReset, $"cut after {seconds} s");
                    _ = caller.End.Read(16 * 1024);
                    bench.Pass(TimeSpan.FromSeconds(1));
                }

                Assert.True(Assert.Single(caller.Answers).Body.AsSpan().SequenceEqual(Plan.Bytes("slow", 0, Size)));
                Assert.Equal(0, bench.RefusedInAll);
                bench.Reads = true;
            });
    }

    [Theory]
    [InlineData("at once")]
    [InlineData("in pieces")]
    [InlineData("file")]
    public void A_peer_that_takes_nothing_any_more_is_cut_however_much_it_took_before_SendTimeout(string how)
    {
        SharedBench? current = null;
        Run(
            call => Answer(call, how, current!),
            bench =>
            {
                current = bench;
                bench.Simulation.World.SendCapacityMax = SystemBuffers;
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/slow"));
                for (int seconds = 0; seconds < 40; seconds++)
                {
                    _ = caller.End.Read(16 * 1024);
                    bench.Pass(TimeSpan.FromSeconds(1));
                }

                bench.Pass(TimeSpan.FromSeconds(58));
                Assert.Equal((1, 0), (bench.Connections, bench.RefusedInAll));
                bench.Pass(TimeSpan.FromSeconds(4));
                Assert.Equal((0, 1), (bench.Connections, bench.Refused("send-timeout")));
                bench.Reads = true;
            });
    }

    // Room is told of when there is much of it; what had to wait may be in the socket before that.
    [Fact]
    public void A_peer_that_takes_nothing_while_nothing_waits_for_it_is_not_cut_SendTimeout()
    {
        var goesOn = new TaskCompletionSource();
        var ends = new TaskCompletionSource();
        Run(
            async call =>
            {
                call.Length = 12_100;
                call.Write(Plan.Bytes("slow", 0, 12_000));
                ValueTask flush = call.FlushAsync();
                await goesOn.Task;
                await flush;
                call.Write(Plan.Bytes("slow", 12_000, 100));
                await call.FlushAsync();
                await ends.Task;
            },
            bench =>
            {
                bench.Simulation.World.SendCapacityMax = 10_000;
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/slow"));
                bench.Pass(TimeSpan.FromSeconds(1));
                Assert.Equal(10_000, caller.Socket.SentByServer);
                _ = caller.End.Read(2_900);
                goesOn.SetResult();
                bench.Pass(TimeSpan.FromSeconds(1));
                Assert.InRange(caller.Socket.SentByServer, 12_100, 12_900);
                bench.Pass(TimeSpan.FromSeconds(200));
                Assert.Equal((1, 0), (bench.Connections, bench.RefusedInAll));
                ends.SetResult();
                bench.Reads = true;
                bench.Settle();
                Assert.True(Assert.Single(caller.Answers).Body.AsSpan().SequenceEqual(Plan.Bytes("slow", 0, 12_100)));
            });
    }

    [Fact]
    public void The_end_of_a_handler_gives_a_peer_that_takes_nothing_no_more_time_SendTimeout()
    {
        var gate = new TaskCompletionSource();
        Run(
            async call =>
            {
                call.Length = 100_000;
                call.Write(Plan.Bytes("slow", 0, 100_000));
                ValueTask flush = call.FlushAsync();
                await gate.Task;
            },
            bench =>
            {
                bench.Simulation.World.SendCapacityMax = 10_000;
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/slow"));
                bench.Pass(TimeSpan.FromSeconds(50));
                gate.SetResult();
                bench.Pass(TimeSpan.FromSeconds(8));
                Assert.Equal((1, 0), (bench.Connections, bench.RefusedInAll));
                bench.Pass(TimeSpan.FromSeconds(4));
                Assert.Equal((0, 1), (bench.Connections, bench.Refused("send-timeout")));
                bench.Reads = true;
            });
    }

    // Nothing of an answer has been taken, and more comes to wait behind it or beside it.
    [Fact]
    public void What_waits_besides_gives_a_peer_that_takes_nothing_no_more_time_SendTimeout()
    {
        Exchange? current = null;
        Run(
            async call =>
            {
                current = call.Exchange;
                call.Length = 100_000;
                await call.WriteAsync(Plan.Bytes("slow", 0, 100_000));
            },
            bench =>
            {
                bench.Simulation.World.SendCapacityMax = 10_000;
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/slow"));
                for (int seconds = 0; seconds < 58; seconds += 2)
                {
                    using (current!.Sending.Hold())
                    {
                        current.Connection.WantWritable(current);
                    }

                    bench.Pass(TimeSpan.FromSeconds(2));
                }

                Assert.Equal((1, 0), (bench.Connections, bench.RefusedInAll));
                bench.Pass(TimeSpan.FromSeconds(4));
                Assert.Equal((0, 1), (bench.Connections, bench.Refused("send-timeout")));
                bench.Reads = true;
            });
    }

    // What a web server lets its clients do is its own matter.
    [Fact]
    public void A_byte_a_second_is_too_slow_for_a_client_and_fast_enough_for_a_web_server_MinResponseBytesPerSecond()
    {
        SharedBench? current = null;
        Run(
            call => Answer(call, "in pieces", current!),
            bench =>
            {
                current = bench;
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/slow"));
                int seconds = 0;
                for (; seconds < 300 && !caller.Socket.ServerClosed; seconds++)
                {
                    _ = caller.End.Read(1);
                    bench.Pass(TimeSpan.FromSeconds(1));
                }

                Assert.InRange(seconds, IsHttp ? 10 : 300, IsHttp ? 14 : 300);
                Assert.Equal(IsHttp ? 1 : 0, bench.Refused("response-too-slow"));
                Assert.Equal(0, bench.Refused("send-timeout"));
                bench.Reads = true;
            });
    }

    [Fact]
    public void A_peer_that_pauses_for_less_than_the_time_and_then_goes_on_gets_everything_SendTimeout()
    {
        SharedBench? current = null;
        Run(
            call => Answer(call, "in pieces", current!),
            bench =>
            {
                current = bench;
                bench.Simulation.World.SendCapacityMax = SystemBuffers;
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/slow"));
                bench.Pass(TimeSpan.FromSeconds(55));
                for (int seconds = 0; seconds < 400 && caller.Answers.Count == 0; seconds++)
                {
                    _ = caller.End.Read(16 * 1024);
                    bench.Pass(TimeSpan.FromSeconds(1));
                }

                Assert.Equal(Size, Assert.Single(caller.Answers).Body.Length);
                Assert.Equal(0, bench.RefusedInAll);
                bench.Reads = true;
            });
    }

    // Each byte that a peer takes would wake the loop.
    [Fact]
    public void The_kernel_is_not_asked_to_tell_of_room_any_more_when_nobody_waits_for_it() => Run(
        AtOnce(static call => call.Write(new byte[call.Path == "/large" ? 700_000 : 7])),
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Reads = false;
            bench.Send(caller, caller.Request("/large"));
            Assert.True(caller.Socket.Registration!.Writing);
            bench.Reads = true;
            bench.Settle();
            Assert.Single(caller.Answers);
            bench.StillServes(caller);
            Assert.False(caller.Socket.Registration!.Writing);
        });

    // Another thread begins to wait for room while the loop has the connection watched for the first time.
    [Fact]
    public void Room_is_told_of_that_somebody_waits_for_since_his_connection_was_being_registered()
    {
        var writing = new TaskCompletionSource();
        Run(
            async call =>
            {
                await writing.Task;
                await call.WriteAsync(Plan.Bytes("slow", 0, 700_000));
            },
            bench =>
            {
                bench.Reads = false;
                Caller caller = bench.ConnectOnly("/");
                bench.Simulation.World.InWatch = () =>
                {
                    bench.Simulation.World.InWatch = null;
                    writing.SetResult();
                };
                bench.Settle();
                Assert.True(writing.Task.IsCompleted);
                bench.Reads = true;
                bench.Settle();
                Assert.Equal(Plan.Bytes("slow", 0, 700_000), Assert.Single(caller.Answers).Body);
            });
    }

    // The loop has just found that nobody waits for room, and another thread begins to.
    [Fact]
    public void Room_is_told_of_that_somebody_waits_for_since_nobody_did()
    {
        var writing = new TaskCompletionSource();
        Run(
            async call =>
            {
                call.Length = 1_400_000;
                await call.WriteAsync(Plan.Bytes("slow", 0, 700_000));
                await writing.Task;
                await call.WriteAsync(Plan.Bytes("slow", 700_000, 700_000));
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/"));
                bench.Reads = true;
                bench.Settle();
                Assert.True(caller.Socket.Registration!.Writing);
                bench.Reads = false;
                bench.Simulation.World.InRewatch = () =>
                {
                    bench.Simulation.World.InRewatch = null;
                    writing.SetResult();
                };
                caller.Socket.SpuriousEdge(lies: false);
                bench.Settle();
                Assert.True(writing.Task.IsCompleted);
                bench.Reads = true;
                bench.Settle();
                Assert.Equal(Plan.Bytes("slow", 0, 1_400_000), Assert.Single(caller.Answers).Body);
            });
    }
}

public sealed class FastCgiSlowPeerTests() : SlowPeerTests(Way.FastCgiToPlain);

public sealed class HttpSlowPeerTests() : SlowPeerTests(Way.HttpToPlain);

public sealed class FastCgiHostedSlowPeerTests() : SlowPeerTests(Way.FastCgiToHosted);

public sealed class HttpHostedSlowPeerTests() : SlowPeerTests(Way.HttpToHosted);
