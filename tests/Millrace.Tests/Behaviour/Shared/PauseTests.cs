// A process that was stopped for a while and goes on (SIGSTOP, a frozen container, a machine that is moved): everybody's time is
// over then, and what came in time lies in the sockets. Nobody is given up before that has been looked at.

namespace Millrace.Tests.Behaviour.Shared;

public abstract class PauseTests(Way way) : SharedTests(way)
{
    private static readonly TimeSpan s_pause = TimeSpan.FromSeconds(90);      // more than each limit that it could run into

    private static async ValueTask Count(Call call)
    {
        long count = 0;
        byte[] buffer = new byte[4_096];
        for (int read; (read = await call.ReadAsync(buffer)) > 0;)
        {
            count += read;
        }

        call.WriteText($"{count} bytes");
    }

    // Each handler takes so long when it has its body.
    private void RunSlowly(int workMs, Action<SharedBench> test, Action<MillraceOptions>? options = null)
    {
        Action work = static () => { };
        Run(
            async call =>
            {
                await Count(call);
                work();
            },
            bench =>
            {
                work = () => bench.Simulation.World.NowMs += workMs;
                test(bench);
            },
            options);
    }

    // 600: more than one wait tells of. A handler that takes 10 ms: before all of them are heard time passes; and others who leave are heard before them.
    [Theory]
    [InlineData(1, true, 0)]
    [InlineData(600, true, 0)]
    [InlineData(600, true, 10)]
    [InlineData(1, false, 0)]
    [InlineData(600, false, 0)]
    [InlineData(600, false, 10)]
    public void What_came_while_the_process_was_stopped_came_in_time(int callers, bool inTheHead, int workMs) => RunSlowly(
        workMs,
        bench =>
        {
            List<(Caller Caller, byte[] Left)> waiting = [];
            for (int i = 0; i < callers; i++)
            {
                waiting.Add(Begun(bench, inTheHead));
            }

            List<Caller> leaving = [.. Enumerable.Range(0, workMs > 0 ? 300 : 0).Select(_ => bench.Connect())];
            leaving.ForEach(static one =>
            {
                one.Socket.ClientClose();
                one.Socket.Deliver(int.MaxValue);
            });
            waiting.ForEach(static one => Arrive(one.Caller, one.Left));

            bench.Simulation.World.NowMs += (long)s_pause.TotalMilliseconds;
            bench.Simulation.World.Faults.WaitsBrokenOff = 1;
            bench.Settle();
            Assert.All(waiting, static one => Assert.Equal((200, "100 bytes"), (Assert.Single(one.Caller.Answers).Status, one.Caller.Answers[0].BodyText)));
            Assert.Equal(0, bench.RefusedInAll);
        });

    // Three and a half batches, of which each takes 2.8 s, and behind the mark that tells when these have been heard others, who have sent in time as well.
    [Fact]
    public void What_comes_while_full_batches_are_worked_off_comes_in_time_HeadTimeout() => RunSlowly(
        workMs: 11,
        bench =>
        {
            (Caller Caller, byte[] Left)[] first = [.. Enumerable.Range(0, 900).Select(_ => Begun(bench, inTheHead: true))];
            (Caller Caller, byte[] Left)[] behind = [.. Enumerable.Range(0, 300).Select(_ => Begun(bench, inTheHead: true))];
            bench.Pass(TimeSpan.FromSeconds(5));
            Array.ForEach(first, static one => Arrive(one.Caller, one.Left));
            bench.Simulation.World.BehindWait = () =>
                bench.Simulation.World.BehindWait = () => Array.ForEach(behind, static one => Arrive(one.Caller, one.Left));
            bench.Settle();
            Assert.All(first.Concat(behind), static one => Assert.Equal(200, Assert.Single(one.Caller.Answers).Status));
            Assert.Equal(0, bench.RefusedInAll);
        },
        static options => options.HeadTimeout = TimeSpan.FromSeconds(10));

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void What_came_while_the_process_was_stopped_with_the_events_of_others_in_its_hands_came_in_time(bool inTheHead) => Run(
        Count,
        bench =>
        {
            (Caller Caller, byte[] Left) first = Begun(bench, inTheHead);
            (Caller Caller, byte[] Left) second = Begun(bench, inTheHead);
            bench.Simulation.World.BehindWait = () =>
            {
                Arrive(second.Caller, second.Left);
                bench.Simulation.World.NowMs += (long)s_pause.TotalMilliseconds;
            };
            Arrive(first.Caller, first.Left);
            bench.Settle();

            Assert.Equal("100 bytes", Assert.Single(first.Caller.Answers).BodyText);
            Assert.Equal("100 bytes", Assert.Single(second.Caller.Answers).BodyText);
            Assert.Equal(0, bench.RefusedInAll);
        });

    // A handler in whose first part the process is stopped: what is read, begun and accepted behind it in the same turn is as young as that.
    [Fact]
    public void What_is_read_begun_and_accepted_in_a_turn_in_which_the_process_was_stopped_is_of_the_time_behind_that()
    {
        SharedBench? current = null;
        Run(
            call =>
            {
                if (call.Path == "/stops")
                {
                    current!.Simulation.World.NowMs += (long)s_pause.TotalMilliseconds;
                    call.WriteText("went on");
                    return default;
                }

                return Count(call);
            },
            bench =>
            {
                current = bench;
                Caller stops = bench.Connect();
                (Caller Caller, byte[] Left) reading = Begun(bench, inTheHead: false);
                Caller begins = bench.Connect();
                byte[] request = begins.Request("/", "POST", new byte[100]);
                int head = begins.Head("/", "POST", 100).Length;
                Arrive(stops, stops.Request("/stops"));
                Arrive(reading.Caller, reading.Left[..^1]);
                Arrive(begins, request[..(head + 1)]);
                Caller accepted = bench.ConnectOnly();
                bench.Settle();
                Assert.Equal("went on", Assert.Single(stops.Answers).BodyText);
                Assert.Equal(0, bench.RefusedInAll);

                bench.Send(reading.Caller, reading.Left[^1..]);
                bench.Send(begins, request[(head + 1)..]);
                bench.Send(accepted, accepted.Request("/", "POST", new byte[100]));
                Assert.All((Caller[])[reading.Caller, begins, accepted], static caller => Assert.Equal("100 bytes", Assert.Single(caller.Answers).BodyText));
                Assert.Equal(0, bench.RefusedInAll);
            });
    }

    private static (Caller Caller, byte[] Left) Begun(SharedBench bench, bool inTheHead)
    {
        Caller caller = bench.Connect();
        byte[] request = caller.Request("/", "POST", new byte[100]);
        int cut = inTheHead ? 20 : caller.Head("/", "POST", 100).Length;
        bench.Send(caller, request[..cut]);
        return (caller, request[cut..]);
    }

    private static void Arrive(Caller caller, byte[] bytes)
    {
        caller.Socket.ClientSend(bytes);
        caller.Socket.Deliver(int.MaxValue);
    }

    [Fact]
    public void Who_sent_nothing_while_the_process_was_stopped_is_late_all_the_same_BodyTimeout() => Run(
        Count,
        bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Head("/", "POST", 100));
            bench.Simulation.World.NowMs += (long)s_pause.TotalMilliseconds;
            bench.Simulation.World.Faults.WaitsBrokenOff = 1;
            bench.Settle();
            Assert.Equal(408, Assert.Single(caller.Answers).Status);
            Assert.Equal(1, bench.Refused("body-too-slow"));
        });

    [Fact]
    public void Who_is_late_is_given_up_although_more_than_one_wait_tells_of_always_have_something_to_say_HeadTimeout() => Run(
        Count,
        static bench =>
        {
            Caller late = bench.Connect();
            bench.Send(late, late.Request("/", "POST", new byte[100])[..20]);
            List<Caller> others = [];       // so many that a full batch is left when one has been read
            for (int i = 0; i < 600; i++)
            {
                others.Add(bench.Connect());
                bench.Send(others[i], others[i].Head("/", "POST", 1_000_000));
            }

            for (int tenths = 0; tenths < 320; tenths++)
            {
                Assert.True(bench.Refused("head-timeout") == 1 || tenths < 315);
                foreach (Caller caller in others)
                {
                    caller.Socket.ClientSend(caller.Part([1]));
                    caller.Socket.Deliver(int.MaxValue);
                }

                bench.Simulation.World.NowMs += 100;
                _ = bench.Simulation.Loops[0].Turn(0);
            }
        },
        static options => options.MinBodyBytesPerSecond = 0);
}

public sealed class FastCgiPauseTests() : PauseTests(Way.FastCgiToPlain);

public sealed class HttpPauseTests() : PauseTests(Way.HttpToPlain);

public sealed class FastCgiHostedPauseTests() : PauseTests(Way.FastCgiToHosted);

public sealed class HttpHostedPauseTests() : PauseTests(Way.HttpToHosted);
