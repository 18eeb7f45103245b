// Request bodies that lie about their length, are too large, too slow or unwanted. FastCGI 1.0 §5.3, RFC 3875 §4.1.2.

using System.Globalization;
using System.Text;
using Microsoft.AspNetCore.Http;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour;

public sealed class BodyTests
{
    private static byte[] Post(params (string, string)[] more) =>
        [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/", "POST", more)))];

    private static MillraceOptions Options(Action<MillraceOptions> set)
    {
        var options = new MillraceOptions { Loops = 1 };
        set(options);
        return options;
    }

    [Fact]
    public void Hostile_50_A_body_shorter_than_its_length_is_400_and_never_an_end_RFC3875_4_2() =>
        Bench.HoweverCut([.. Post(("CONTENT_LENGTH", "9")), .. Wire.Stream(Wire.Stdin, 1, new byte[8])], static (bench, front) =>
        {
            Assert.Equal(400, Assert.Single(front.Ended).Status);
            Assert.Equal(1, bench.Refused("body-short"));
            bench.StillServes(front);
        });

    [Fact]
    public void Hostile_50_A_body_longer_than_its_length_is_400_RFC3875_4_2() =>
        Bench.HoweverCut([.. Post(("CONTENT_LENGTH", "7")), .. Wire.Stream(Wire.Stdin, 1, new byte[8])], static (bench, front) =>
        {
            Assert.Equal(400, Assert.Single(front.Ended).Status);
            Assert.Equal(1, bench.Refused("body-long-or-over-limit"));
            bench.StillServes(front);
        });

    [Fact]
    public void Hostile_51_A_huge_length_makes_no_room_before_bytes_come() => Bench.Run(
        static bench =>
        {
            FrontEnd front = bench.Connect();
            long before = GC.GetAllocatedBytesForCurrentThread();
            bench.Send(front, Post(("CONTENT_LENGTH", "9223372036854775807")));
            Assert.True(GC.GetAllocatedBytesForCurrentThread() - before < 1_000_000);
            front.Socket.ClientReset();
            bench.Settle();
            Assert.Equal(0, bench.Connections);
        },
        Options(static options => options.MaxRequestBodySize = null));

    [Fact]
    public void Hostile_52_Without_a_length_the_body_goes_to_the_end_of_STDIN_FastCGI_5_3() =>
        Bench.HoweverCut([.. Post(), .. Wire.Stream(Wire.Stdin, 1, Encoding.ASCII.GetBytes("unannounced"), recordMax: 4)], static (bench, front) =>
        {
            Assert.Contains("\nbody 11 ", Assert.Single(front.Ended).BodyText, StringComparison.Ordinal);
            bench.StillServes(front);
        });

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Hostile_53_A_body_over_the_limit_is_413_counted_by_its_bytes(bool announced) => Bench.Run(
        bench =>
        {
            FrontEnd front = bench.Connect();
            Assert.Equal(200, bench.Ask(front, Wire.Request("/", "POST", new byte[10_000], withLength: announced)).Status);
            Assert.Equal(413, bench.Ask(front, Wire.Request("/", "POST", new byte[10_001], withLength: announced)).Status);
            Assert.Equal(1, bench.Refused("body-long-or-over-limit"));
            bench.StillServes(front);
        },
        Options(static options => options.MaxRequestBodySize = 10_000));

    [Theory]
    [InlineData(true, 100)]
    [InlineData(false, 100)]
    [InlineData(true, 3_000_000)]
    [InlineData(false, 3_000_000)]
    public void Hostile_54_A_body_nobody_reads_is_passed_over_and_no_reset_overtakes_the_answer(bool keep, int size) => Bench.Run(
        static (request, response) =>
        {
            response.WriteText("early " + request.Path);
            return default;
        },
        bench =>
        {
            FrontEnd front = bench.Connect();
            byte[] request = Wire.Request("/unread", "POST", new byte[size], keep: keep);
            bench.Send(front, request[..^9]);
            bench.Send(front, request[^9..]);
            Assert.Equal("early /unread", Assert.Single(front.Ended).BodyText);
            Assert.False(front.Socket.AnswersLost);
            if (keep)
            {
                Assert.Equal("early /next", bench.Ask(front, Wire.Request("/next")).BodyText);
                return;
            }

            front.Socket.ClientClose();
            bench.Settle();
            Assert.Equal(0, bench.Connections);
        });

    [Fact]
    public void Hostile_54_An_unread_body_without_end_ends_the_connection() => Bench.Run(
        static (request, response) => default,
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, Post());
            bench.Send(front, Wire.Stream(Wire.Stdin, 1, new byte[200_000], ends: false));
            Assert.True(front.IsAtEnd);
            Assert.True(bench.Refused("discard-limit") > 0);
            bench.Settle();
        },
        Options(static options => options.MaxDiscardBytes = 100_000));

    [Fact]
    public void Hostile_55_Bodies_of_every_critical_size_arrive_whole() => Bench.Run(static bench =>
    {
        FrontEnd front = bench.Connect();
        foreach (int size in (int[])[0, 1, 8_192, 16_384, 32_768, 46 * 1024, 65_535, 65_536, 98_304, 131_072, 1_048_576])
        {
            for (int length = Math.Max(0, size - 1); length <= size + 1; length++)
            {
                byte[] body = Plan.Bytes("sweep", 0, length);
                uint sum = body.Aggregate(0u, static (sum, b) => (sum * 31) + b);
                string text = bench.Ask(front, Wire.Request("/", "POST", body, withLength: length % 2 == 0)).BodyText;
                Assert.Contains(string.Create(CultureInfo.InvariantCulture, $"\nbody {length} {sum}\n"), text, StringComparison.Ordinal);
            }
        }
    });

    [Fact]
    public void A_handler_that_does_not_read_stops_the_peer_RequestBodyBuffer()
    {
        var reads = new TaskCompletionSource();
        Bench.Run(
            async (request, response) =>
            {
                await reads.Task;
                await Bench.Echo(request, response);
            },
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Simulation.World.ReceiveCapacityMax = 16 * 1024;
                front = bench.Connect();
                bench.Send(front, Wire.Request("/", "POST", new byte[2_000_000]));
                Assert.InRange(front.Socket.TakenByServer, 10_000, 200_000);
                Assert.True(front.Socket.InFlight > 1_000_000);
                bench.Pass(TimeSpan.FromSeconds(90));
                reads.SetResult();
                bench.Settle();
                Assert.Contains("\nbody 2000000 ", Assert.Single(front.Ended).BodyText, StringComparison.Ordinal);
            },
            Options(static options => options.RequestBodyBuffer = 64 * 1024));
    }

    // ---- time, with the clock in the test's hands ----

    [Fact]
    public void Hostile_60_A_head_that_does_not_end_is_given_up_HeadTimeout() => Bench.Run(
        static bench =>
        {
            FrontEnd[] slow = [bench.Connect(), bench.Connect(), bench.Connect()];
            bench.Send(slow[0], [1]);
            bench.Send(slow[1], Wire.BeginRequest());
            byte[] head = Post();
            for (int i = 0; i < 11; i++)
            {
                bench.Send(slow[2], head[i..(i + 1)]);
                bench.Pass(TimeSpan.FromSeconds(1));
                Assert.Equal(i < 10 ? 0 : 2, slow[..2].Count(static front => front.IsAtEnd));
            }

            Assert.True(slow[2].IsAtEnd);
            Assert.Equal(3, bench.Refused("head-timeout"));
            bench.OthersAreServed();
        },
        Options(static options => options.HeadTimeout = TimeSpan.FromSeconds(10)));

    [Fact]
    public void Hostile_60_A_body_that_stops_is_408_BodyTimeout() => Bench.Run(
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, [.. Post(), .. Wire.Record(Wire.Stdin, 1, new byte[5_000])]);
            bench.Pass(TimeSpan.FromSeconds(9));
            Assert.Empty(front.Ended);
            bench.Pass(TimeSpan.FromSeconds(4));
            Assert.Equal(408, Assert.Single(front.Ended).Status);
            Assert.Equal(1, bench.Refused("body-too-slow"));
            bench.OthersAreServed();
        },
        Options(static options =>
        {
            options.BodyTimeout = TimeSpan.FromSeconds(10);
            options.MinBodyBytesPerSecond = 0;
        }));

    [Fact]
    public void Hostile_60_A_body_that_trickles_is_408_MinBodyBytesPerSecond() => Bench.Run(
        static bench =>
        {
            FrontEnd slow = bench.Connect();
            FrontEnd fast = bench.Connect();
            bench.Send(slow, Post());
            bench.Send(fast, Post());
            for (int i = 0; i < 20; i++)
            {
                bench.Send(slow, Wire.Record(Wire.Stdin, 1, new byte[50]));
                bench.Send(fast, Wire.Record(Wire.Stdin, 1, new byte[150]));
                bench.Pass(TimeSpan.FromSeconds(1));
            }

            Assert.Equal(408, Assert.Single(slow.Ended).Status);
            Assert.Contains("\nbody 3000 ", bench.Ask(fast, Wire.Record(Wire.Stdin, 1, [])).BodyText, StringComparison.Ordinal);
        },
        Options(static options => options.MinBodyBytesPerSecond = 100));
}
