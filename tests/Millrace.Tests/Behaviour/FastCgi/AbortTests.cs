// ABORT_REQUEST, at every moment of a request, and ids that are used again. FastCGI 1.0 §5.4.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class AbortTests
{
    private static byte[] Abort(int id = 1) => Wire.Record(Wire.Abort, id, []);

    private static byte[] Post() => [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/", "POST")))];

    [Fact]
    public void Hostile_56_ABORT_before_the_handler_runs_is_answered_with_END_FastCGI_5_4() =>
        FastCgiBench.HoweverCut([.. Wire.BeginRequest(), .. Wire.Record(Wire.Params, 1, Wire.Pairs(Wire.Get("/"))), .. Abort()], static (bench, front) =>
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
        FastCgiBench.Run(
            async (request, response) =>
            {
                seen ??= await Record.ExceptionAsync(() => PlainCall.Echo(request, response).AsTask());
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
    public void Hostile_56_ABORT_in_the_response_cancels_the_handler_and_its_later_bytes_vanish_FastCGI_5_4() => FastCgiBench.Run(
        static async (request, response) =>
        {
            response.WriteText("first ");
            await response.FlushAsync();
            if (request.Path == "/long")
            {
                await Bench.Cancelled(request.Aborted);
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
    public void Hostile_56_ABORT_after_END_is_passed_over() => FastCgiBench.Run(static bench =>
    {
        FrontEnd front = bench.Connect();
        bench.StillServes(front);
        bench.Send(front, Abort());
        Assert.Single(front.Ended);
        bench.StillServes(front);
    });

    [Fact]
    public void Hostile_57_An_id_may_be_used_again_after_ABORT_while_the_old_handler_still_writes()
    {
        var late = new TaskCompletionSource();
        Stream? kept = null;
        FastCgiBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/old")
                {
                    kept = response.Body;
                    await Bench.Cancelled(request.Aborted);
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

    // HAProxy 2.6 with keep-conn: a client goes away, no ABORT_REQUEST follows, and the connection is used for the next one.
    [Theory]
    [InlineData(null)]
    [InlineData("body to come")]
    public void Another_request_on_a_connection_known_to_carry_one_gives_the_running_one_up_FastCGI_5_4(string? unfinished)
    {
        byte[] next = Wire.Request("/next", id: 3);
        for (int cut = 0; cut <= next.Length; cut++)
        {
            bool cancelled = false;
            RunTwo(() => cancelled = true, bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, Ask("FCGI_MPXS_CONNS"));
                bench.Send(front, Running(unfinished));
                bench.Send(front, next.AsSpan(0, cut));
                bench.Send(front, next.AsSpan(cut));
                Assert.True(cancelled);
                Assert.Equal([(1, 0), (3, 0)], front.Ended.Select(static ended => (ended.Id, ended.ProtocolStatus)));
                Assert.Equal("next", front.Ended[1].BodyText);
                Assert.Equal(0, bench.Refused("multiplexed"));
                Assert.Equal("next", bench.Ask(front, Wire.Request("/more")).BodyText);
            });
        }
    }

    [Theory]
    [InlineData(null)]
    [InlineData("body to come")]
    public void Another_request_may_follow_ABORT_before_the_END_FastCGI_5_4(string? unfinished)
    {
        byte[] bytes = [.. Running(unfinished), .. Abort(), .. Wire.Request("/next", id: 3)];
        for (int cut = 0; cut <= bytes.Length; cut++)
        {
            RunTwo(static () => { }, bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, bytes.AsSpan(0, cut));
                bench.Send(front, bytes.AsSpan(cut));
                Assert.Equal([(1, 0), (3, 0)], front.Ended.Select(static ended => (ended.Id, ended.ProtocolStatus)));
                Assert.Equal("next", front.Ended[1].BodyText);
            });
        }
    }

    // Two requests in one piece, or from a front server that does not know better: the second is one too many, and the first goes on.
    [Theory]
    [InlineData("FCGI_MPXS_CONNS", true)]
    [InlineData("FCGI_MAX_CONNS", false)]
    [InlineData(null, false)]
    public void Another_request_beside_the_running_one_is_CANT_MPX_CONN_and_the_first_goes_on_FastCGI_5_5(string? asked, bool together)
    {
        bool cancelled = false;
        RunTwo(() => cancelled = true, bench =>
        {
            FrontEnd front = bench.Connect();
            if (asked is not null)
            {
                bench.Send(front, Ask(asked));
            }

            byte[][] both = [Running(null), Wire.Request("/next", id: 3)];
            foreach (byte[] bytes in together ? [[.. both[0], .. both[1]]] : both)
            {
                bench.Send(front, bytes);
            }

            Assert.Equal((3, 1), (Assert.Single(front.Ended).Id, front.Ended[0].ProtocolStatus));
            Assert.False(cancelled);
            bench.Send(front, Abort());
            Assert.Equal((1, 0), (front.Ended[1].Id, front.Ended[1].ProtocolStatus));
        });
    }

    private static byte[] Ask(string name) => Wire.Record(Wire.GetValues, 0, Wire.Pairs((name, "")));

    private static byte[] Running(string? unfinished) => unfinished is null
        ? Wire.Request("/runs")
        : [.. Wire.Request("/runs", "POST", [])[..^8], .. Wire.Record(Wire.Stdin, 1, System.Text.Encoding.ASCII.GetBytes(unfinished))];

    // /runs ends when it is cancelled, everything else at once.
    private static void RunTwo(Action cancelled, Action<FastCgiBench> test) => FastCgiBench.Run(
        async (request, response) =>
        {
            if (request.Path == "/runs")
            {
                await Bench.Cancelled(request.Aborted);
                cancelled();
                return;
            }

            response.WriteText("next");
        },
        test);
}
