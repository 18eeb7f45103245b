// What only FastCGI has to say about bodies: a STDIN that does not fit CONTENT_LENGTH, or comes without one, and heads that do
// not end. FastCGI 1.0 §5.3, RFC 3875 §4.1.2.

using System.Text;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class StdinTests
{
    private static byte[] Post(params (string, string)[] more) =>
        [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/", "POST", more)))];

    // Reads need not end where records do: what is left of a body whose request has been answered comes together with the next request.
    [Fact]
    public void A_record_that_comes_in_pieces_is_waited_for_from_its_own_beginning_HeadTimeout() => FastCgiBench.Run(static (request, response) => default, static bench =>
    {
        byte[] body = [.. Wire.Record(Wire.Stdin, 1, new byte[1_000]), .. Wire.Record(Wire.Stdin, 1, [])];
        byte[] next = Wire.Request("/still");
        FrontEnd front = bench.Connect();
        bench.Send(front, [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/at-once", "POST")))]);
        Assert.Single(front.Ended);
        bench.Send(front, body.AsSpan(0, 500));
        bench.Pass(TimeSpan.FromSeconds(25));
        bench.Send(front, [.. body[500..], .. next[..8]]);
        bench.Pass(TimeSpan.FromSeconds(25));
        bench.Send(front, next.AsSpan(8));
        Assert.Equal(2, front.Ended.Count);
    });

    [Fact]
    public void Hostile_50_A_body_shorter_than_its_length_is_400_and_never_an_end_RFC3875_4_2() =>
        FastCgiBench.HoweverCut([.. Post(("CONTENT_LENGTH", "9")), .. Wire.Stream(Wire.Stdin, 1, new byte[8])], static (bench, front) =>
        {
            Assert.Equal(400, Assert.Single(front.Ended).Status);
            Assert.Equal(1, bench.Refused("body-short"));
            bench.StillServes(front);
        });

    [Fact]
    public void Hostile_50_A_body_longer_than_its_length_is_400_RFC3875_4_2() =>
        FastCgiBench.HoweverCut([.. Post(("CONTENT_LENGTH", "7")), .. Wire.Stream(Wire.Stdin, 1, new byte[8])], static (bench, front) =>
        {
            Assert.Equal(400, Assert.Single(front.Ended).Status);
            Assert.Equal(1, bench.Refused("body-long-or-over-limit"));
            bench.StillServes(front);
        });

    [Fact]
    public void Hostile_52_Without_a_length_the_body_goes_to_the_end_of_STDIN_FastCGI_5_3() =>
        FastCgiBench.HoweverCut([.. Post(), .. Wire.Stream(Wire.Stdin, 1, Encoding.ASCII.GetBytes("unannounced"), recordMax: 4)], static (bench, front) =>
        {
            Assert.Contains("\nbody 11 ", Assert.Single(front.Ended).BodyText, StringComparison.Ordinal);
            bench.StillServes(front);
        });

    // Each may be another client's.
    [Fact]
    public void What_is_thrown_away_is_counted_for_each_refused_request_by_itself_MaxDiscardBytes() => FastCgiBench.Run(
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, [.. Wire.Request("/taken")]);
            for (int i = 0; i < 3; i++)
            {
                bench.Send(front, Wire.Request("/../refused", "POST", new byte[900]));
            }

            Assert.Equal([200, 400, 400, 400], front.Ended.Select(static answer => answer.Status));
            Assert.Equal(0, bench.Refused("discard-limit"));
            bench.StillServes(front);
        },
        new MillraceOptions { Loops = 1, MaxDiscardBytes = 1_000 });

    [Fact]
    public void The_answer_of_a_refused_request_leaves_though_too_much_comes_behind_it_MaxDiscardBytes() => FastCgiBench.Run(
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, Wire.Request("/../refused", "POST", new byte[1_100]));
            Assert.Equal(400, Assert.Single(front.Ended).Status);
            Assert.Equal(1, bench.Refused("discard-limit"));
            Assert.True(front.IsAtEnd);
        },
        new MillraceOptions { Loops = 1, MaxDiscardBytes = 1_000 });

    [Fact]
    public void The_answer_of_a_refused_request_leaves_though_what_comes_behind_it_is_no_record_FastCGI_3_3() => FastCgiBench.Run(static bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, [.. Wire.Request("/../refused"), .. new byte[100]]);
        Assert.Equal(400, Assert.Single(front.Ended).Status);
        Assert.Equal(1, bench.Refused("fastcgi-version"));
        Assert.True(front.IsAtEnd);
    });

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_request_whose_bytes_are_lost_is_not_run_though_what_was_answered_before_it_leaves_FastCGI_3_3(bool hasHead)
    {
        byte[] part = [.. Post(("CONTENT_LENGTH", "100")), .. Wire.Record(Wire.Stdin, 1, new byte[50])];
        FastCgiBench.Run(bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, [.. Wire.Record(Wire.GetValues, 0, Wire.Pairs(("FCGI_MAX_CONNS", ""))), .. hasHead ? part : part[..40], .. new byte[600]]);
            Assert.Single(front.Management);
            Assert.Empty(front.Ended);
            Assert.Equal(0, bench.Simulation.Handler.Started);
            Assert.True(front.IsAtEnd);
        });
    }

    [Fact]
    public void STDIN_that_goes_on_behind_its_end_is_thrown_away_but_not_without_bound_MaxDiscardBytes()
    {
        var gate = new TaskCompletionSource();
        FastCgiBench.Run(
            async (_, _) => await gate.Task,
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, [.. Post(("CONTENT_LENGTH", "1")), .. Wire.Stream(Wire.Stdin, 1, new byte[1])]);
                for (int i = 0; i < 10; i++)
                {
                    bench.Send(front, Wire.Record(Wire.Stdin, 1, new byte[10_000]));
                }

                Assert.Equal(0, bench.RefusedInAll);
                bench.Send(front, Wire.Record(Wire.Stdin, 1, new byte[10_000]));
                Assert.Equal(1, bench.Refused("discard-limit"));
                gate.SetResult();
                bench.Settle();
                Assert.Equal(0, bench.Connections);
            },
            new MillraceOptions { Loops = 1, MaxDiscardBytes = 105_000 });
    }

    // ---- time, with the clock in the test's hands ----

    [Fact]
    public void Hostile_60_A_head_that_does_not_end_is_given_up_HeadTimeout() => FastCgiBench.Run(
        static bench =>
        {
            FrontEnd[] slow = [bench.Connect(), bench.Connect(), bench.Connect()];
            bench.Send(slow[0], [1]);
            bench.Send(slow[1], Wire.BeginRequest());
            byte[] head = Post();
            for (int i = 0; i < 11; i++)
            {
                bench.Send(slow[2], head.AsSpan(i, 1));
                bench.Pass(TimeSpan.FromSeconds(1));
                Assert.Equal(i < 10 ? 0 : 2, slow[..2].Count(static front => front.IsAtEnd));
            }

            Assert.True(slow[2].IsAtEnd);
            Assert.Equal(3, bench.Refused("head-timeout"));
            bench.OthersAreServed();
        },
        Bench.Options(static options => options.HeadTimeout = TimeSpan.FromSeconds(10)));

    // Caddy gathers 65,500 bytes of a client's body before it passes any of them on.
    [Theory]
    [InlineData(2_000, 200, 0)]
    [InlineData(13_000, 200, 0)]
    [InlineData(1_000, 408, 1)]
    public void A_body_that_comes_in_large_blocks_is_not_too_slow_between_them_MinBodyBytesPerSecond_and_BodyTimeout(int bytesPerSecond, int status, int refused) => FastCgiBench.Run(
        static async (request, response) =>
        {
            byte[] buffer = new byte[100_000];
            long length = 0;
            for (int count; (count = await request.ReadAsync(buffer)) > 0;)
            {
                length += count;
            }

            response.WriteText($"{length}");
        },
        bench =>
        {
            const int Block = 65_500;
            FrontEnd front = bench.Connect();
            bench.Send(front, Post(("CONTENT_LENGTH", (3 * Block).ToString(System.Globalization.CultureInfo.InvariantCulture))));
            for (int blocks = 0; blocks < 3; blocks++)
            {
                bench.Pass(TimeSpan.FromSeconds((double)Block / bytesPerSecond));
                bench.Send(front, Wire.Record(Wire.Stdin, 1, new byte[Block]));
            }

            bench.Send(front, Wire.Record(Wire.Stdin, 1, []));
            Assert.Equal(status, Assert.Single(front.Ended).Status);
            Assert.Equal(refused, bench.Refused("body-too-slow"));
        });

    [Theory]
    [InlineData(100)]
    [InlineData(5_000)]
    public void A_body_that_comes_in_blocks_is_too_slow_when_they_have_come_too_late_MinBodyBytesPerSecond(int block) => FastCgiBench.Run(
        static async (request, response) =>
        {
            byte[] buffer = new byte[100_000];
            while (await request.ReadAsync(buffer) > 0)
            {
            }
        },
        bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, Post(("CONTENT_LENGTH", "1000000")));
            bench.Pass(TimeSpan.FromSeconds(30));
            Assert.Empty(front.Ended);
            bench.Send(front, Wire.Record(Wire.Stdin, 1, new byte[block]));
            bench.Pass(TimeSpan.FromSeconds(2));
            Assert.Equal(408, Assert.Single(front.Ended).Status);
            Assert.Equal(1, bench.Refused("body-too-slow"));
        });

    private static ValueTask SayPath(Request request, Response response)
    {
        response.WriteText("GET " + request.Path);
        return default;
    }

    private static FrontEnd Answered(FastCgiBench bench, bool keep = true)
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, [.. Wire.BeginRequest(keep: keep), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/", "POST", ("CONTENT_LENGTH", "1000000"))))]);
        Assert.Single(front.Ended);
        return front;
    }

    [Fact]
    public void The_rest_of_a_body_that_nobody_reads_does_not_make_its_connection_younger_IdleTimeout() => FastCgiBench.Run(
        static (_, _) => default,
        static bench =>
        {
            FrontEnd front = Answered(bench);
            int seconds = 0;
            for (; seconds < 300 && !front.IsAtEnd; seconds++)
            {
                if (seconds % 25 == 0)
                {
                    bench.Send(front, Wire.Record(Wire.Stdin, 1, [1]));
                }

                bench.Pass(TimeSpan.FromSeconds(1));
            }

            Assert.InRange(seconds, 130, 132);
        });

    // What is too slow over several looks, each within the grace, is too slow.
    [Theory]
    [InlineData(0.5, 5)]
    [InlineData(1, 5)]
    [InlineData(5, 5)]
    [InlineData(130, 300)]
    public void Nor_does_one_that_is_looked_at_more_often_than_its_grace_ends_IdleTimeout_MinBodyRateGrace(double idle, int grace) => FastCgiBench.Run(
        static (_, _) => default,
        bench =>
        {
            FrontEnd front = Answered(bench);
            double seconds = 0;
            for (double next = 0; seconds < 2_000 && !front.IsAtEnd; seconds += 0.1)
            {
                if (seconds >= next)
                {
                    bench.Send(front, Wire.Record(Wire.Stdin, 1, [1]));
                    next = seconds + (idle * 0.8);
                }

                bench.Pass(TimeSpan.FromSeconds(0.1));
            }

            Assert.InRange(seconds, idle, 2 * idle + grace + 3);
        },
        Bench.Options(options => (options.IdleTimeout, options.MinBodyRateGrace) = (TimeSpan.FromSeconds(idle), TimeSpan.FromSeconds(grace))));

    [Fact]
    public void Nor_does_one_that_was_fast_once_and_is_slow_from_then_on_IdleTimeout_MinBodyBytesPerSecond() => FastCgiBench.Run(
        static (_, _) => default,
        static bench =>
        {
            FrontEnd front = Answered(bench);
            for (int i = 0; i < 12; i++)
            {
                bench.Send(front, Wire.Record(Wire.Stdin, 1, new byte[5_000]));
                bench.Pass(TimeSpan.FromSeconds(1));
            }

            Assert.False(front.IsAtEnd);
            int seconds = 0;
            for (; seconds < 300 && !front.IsAtEnd; seconds++)
            {
                bench.Send(front, Wire.Record(Wire.Stdin, 1, [1]));
                bench.Pass(TimeSpan.FromSeconds(1));
            }

            Assert.InRange(seconds, 8, 24);
        },
        Bench.Options(static options => options.IdleTimeout = TimeSpan.FromSeconds(10)));

    // Until its last byte has come the front server is busy with the body, and can have begun no other request: idle it is from there on.
    [Theory]
    [InlineData(0)]
    [InlineData(3)]
    [InlineData(8)]
    public void A_connection_is_idle_from_the_end_of_a_body_that_comes_behind_its_answer_IdleTimeout(int ofNext)
    {
        FastCgiBench.Run(
            SayPath,
            bench =>
            {
                byte[] rest = [.. Wire.Record(Wire.Stdin, 1, new byte[1_000]), .. Wire.Record(Wire.Stdin, 1, [])];
                byte[] next = Wire.Request("/next");
                FrontEnd front = Answered(bench);
                bench.Pass(TimeSpan.FromSeconds(115));
                bench.Send(front, rest.AsSpan(0, 500));
                bench.Pass(TimeSpan.FromSeconds(20));
                bench.Send(front, [.. rest[500..], .. next[..ofNext]]);
                bench.Pass(TimeSpan.FromSeconds(ofNext == 0 ? 129 : 29));
                bench.Send(front, next.AsSpan(ofNext));
                Assert.Equal(2, front.Ended.Count);
                bench.Pass(TimeSpan.FromSeconds(129));
                Assert.False(front.IsAtEnd);
                bench.Pass(TimeSpan.FromSeconds(2));
                Assert.True(front.IsAtEnd);
                Assert.Equal(0, bench.RefusedInAll);
            });
    }

    // A front server that is still sending a body is not idle. What is too slow for a body is too slow for its rest as well, over all of the idle time.
    [Theory]
    [InlineData(232, 240, true, 0)]
    [InlineData(222, 230, false, 130)]
    [InlineData(1_000, 241, true, 0)]
    [InlineData(1_000, 190, false, 160)]    // its records do not end where pieces do
    [InlineData(65_000, 300, true, 0)]      // is looked at before its first record has ended
    [InlineData(65_000, 200, false, 30)]
    public void The_rest_of_a_body_keeps_its_connection_while_it_is_fast_enough_IdleTimeout_MinBodyBytesPerSecond(int record, int perSecond, bool keeps, int until) =>
        FastCgiBench.Run(
            SayPath,
            bench =>
            {
                FrontEnd front = Answered(bench);
                byte[] rest = [.. Enumerable.Repeat(Wire.Record(Wire.Stdin, 1, new byte[record]), 500).SelectMany(static each => each)];
                int seconds = 0;
                int sent = 0;
                for (; seconds < 400 && !front.IsAtEnd; seconds++)
                {
                    bench.Send(front, rest.AsSpan(sent, perSecond));
                    sent += perSecond;
                    bench.Pass(TimeSpan.FromSeconds(1));
                }

                if (keeps)
                {
                    int left = (sent % (record + 8)) is 0 ? 0 : record + 8 - (sent % (record + 8));
                    bench.Send(front, [.. rest.AsSpan(sent, left), .. Wire.Record(Wire.Stdin, 1, [])]);
                    bench.StillServes(front);
                    Assert.Equal(0, bench.RefusedInAll);
                }
                else
                {
                    Assert.InRange(seconds, until, until + 2);
                }
            });

    // A request that has outlived its turn gives its connection back by itself, without a look of the loop at what has come meanwhile.
    [Theory]
    [InlineData(1)]
    [InlineData(4)]
    [InlineData(12)]
    [InlineData(16)]
    [InlineData(24)]
    public void A_head_that_began_while_a_request_was_answered_has_its_time_from_the_end_of_that_one_HeadTimeout(int bytes)
    {
        var answer = new TaskCompletionSource();
        FastCgiBench.Run(
            async (request, response) => await answer.Task,
            bench =>
            {
                FrontEnd front = bench.Connect();
                byte[] next = Wire.Request("/");
                bench.Send(front, next);
                bench.Send(front, next.AsSpan(0, bytes));
                bench.Pass(TimeSpan.FromSeconds(1));
                answer.SetResult();
                bench.Settle();
                Assert.Single(front.Ended);
                bench.Pass(TimeSpan.FromSeconds(8));
                Assert.False(front.IsAtEnd);
                bench.Send(front, next.AsSpan(bytes, 1));
                bench.Pass(TimeSpan.FromSeconds(1));
                Assert.False(front.IsAtEnd);
                bench.Pass(TimeSpan.FromSeconds(3));
                Assert.True(front.IsAtEnd);
                Assert.Equal(1, bench.Refused("head-timeout"));
            },
            Bench.Options(static options => options.HeadTimeout = TimeSpan.FromSeconds(10)));
    }

    [Fact]
    public void A_record_for_nobody_that_comes_a_byte_at_a_time_has_the_time_of_a_head_HeadTimeout() => FastCgiBench.Run(
        static (_, _) => default,
        static bench =>
        {
            FrontEnd front = Answered(bench);
            byte[] record = Wire.Record(Wire.Stdin, 1, new byte[1_000]);
            int seconds = 0;
            for (; seconds < 300 && !front.IsAtEnd; seconds++)
            {
                bench.Send(front, record.AsSpan(seconds, 1));
                bench.Pass(TimeSpan.FromSeconds(1));
            }

            Assert.InRange(seconds, 30, 32);
            Assert.Equal(1, bench.Refused("head-timeout"));
        });

    [Fact]
    public void Records_for_nobody_that_drip_hold_a_connection_no_longer_than_one_beyond_its_idle_time_IdleTimeout_HeadTimeout() => FastCgiBench.Run(
        static (_, _) => default,
        static bench =>
        {
            FrontEnd front = Answered(bench);
            byte[] record = Wire.Record(Wire.Stdin, 1, new byte[8]);
            int at = 0;
            int seconds = 0;
            for (; seconds < 400 && !front.IsAtEnd; seconds++)
            {
                // Sixteen bytes are a record: each piece ends one and begins the next.
                byte[] piece = [.. record[at..], .. record[..(at = at == 5 ? 6 : 5)]];
                bench.Send(front, piece);
                bench.Pass(TimeSpan.FromSeconds(1));
            }

            Assert.InRange(seconds, 160, 162);
            Assert.Equal(1, bench.Refused("head-timeout"));
        });

    [Fact]
    public void A_record_for_nobody_that_comes_in_pieces_leaves_the_connection_as_idle_as_it_was_IdleTimeout() => FastCgiBench.Run(
        static (_, _) => default,
        static bench =>
        {
            FrontEnd front = Answered(bench);
            bench.Pass(TimeSpan.FromSeconds(10));
            byte[] record = Wire.Record(Wire.Stdin, 1, new byte[1_000]);
            bench.Send(front, record.AsSpan(0, 500));
            bench.Pass(TimeSpan.FromSeconds(5));
            bench.Send(front, record.AsSpan(500));
            bench.Pass(TimeSpan.FromSeconds(113));
            Assert.False(front.IsAtEnd);
            bench.Pass(TimeSpan.FromSeconds(4));
            Assert.True(front.IsAtEnd);
            Assert.Equal(0, bench.RefusedInAll);
        });

    [Theory]
    [InlineData(1, 8)]
    [InlineData(7, 8)]
    [InlineData(7, 3)]
    public void A_padding_that_comes_by_itself_takes_nothing_from_the_time_of_the_next_head_FastCGI_3_3_and_HeadTimeout(int id, int late) => FastCgiBench.Run(
        SayPath,
        bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, Wire.Request("/"));
            byte[] record = Wire.Record(Wire.Stdin, id, new byte[16], padding: 8);
            bench.Send(front, record.AsSpan(0, record.Length - late));
            bench.Send(front, record.AsSpan(record.Length - late));
            bench.Pass(TimeSpan.FromSeconds(31));
            byte[] request = Wire.Request("/");
            bench.Send(front, request.AsSpan(0, 20));
            bench.Pass(TimeSpan.FromSeconds(28));
            Assert.False(front.IsAtEnd);
            bench.Send(front, request.AsSpan(20));
            Assert.Equal((2, 0), (front.Ended.Count, bench.RefusedInAll));
        });

    [Fact]
    public void The_rest_of_a_body_behind_the_last_answer_is_not_waited_for_longer_because_it_drips() => FastCgiBench.Run(
        static (_, _) => default,
        static bench =>
        {
            FrontEnd front = Answered(bench, keep: false);
            for (int i = 0; i < 3; i++)
            {
                bench.Send(front, Wire.Record(Wire.Stdin, 1, [1]));
                bench.Pass(TimeSpan.FromSeconds(1));
            }

            Assert.Equal(0, bench.Connections);
        });

    // The handler did not wait for the end of its body, and a segment of the network ended in the middle of it.
    [Theory]
    [InlineData(1)]
    [InlineData(7)]
    public void The_end_of_STDIN_behind_the_answer_and_in_pieces_takes_nothing_from_the_idle_time_FastCGI_5_3_and_IdleTimeout(int late) => FastCgiBench.Run(
        SayPath,
        bench =>
        {
            byte[] request = Wire.Request("/");
            FrontEnd front = bench.Connect();
            bench.Send(front, request.AsSpan(0, request.Length - late));
            Assert.Single(front.Ended);
            bench.Pass(TimeSpan.FromSeconds(1));
            bench.Send(front, request.AsSpan(request.Length - late));
            bench.Pass(TimeSpan.FromSeconds(50));
            bench.StillServes(front);
            bench.Pass(TimeSpan.FromSeconds(62));
            Assert.Equal((0, 0), (bench.Connections, bench.RefusedInAll));
        },
        new MillraceOptions { Loops = 1, HeadTimeout = TimeSpan.FromSeconds(10), IdleTimeout = TimeSpan.FromSeconds(60) });
}
