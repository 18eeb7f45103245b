// How fast an HTTP client must be: when it takes its answer, when it sends a body, and when it sends the rest of a body that no
// handler reads. The server's own rates and those that an application sets for one request.

using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.AspNetCore.Server.Kestrel.Core.Features;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Http1;

public sealed class RateTests
{
    private const int Size = 3_000_000;
    private const string Get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    private static Task Large(HttpContext context)
    {
        context.Response.ContentLength = Size;
        return context.Response.Body.WriteAsync(Plan.Bytes("rate", 0, Size)).AsTask();
    }

    /// <summary>Seconds until a client that takes so many bytes a second is cut; 300 when it is not.</summary>
    private static int CutAfter(HttpBench bench, int bytesPerSecond)
    {
        HttpPeer peer = bench.Connect();
        bench.Reads = false;
        bench.Send(peer, Get);
        int seconds = 0;
        for (; seconds < 300 && !peer.Socket.ServerClosed; seconds++)
        {
            _ = peer.Read(bytesPerSecond);
            bench.Pass(TimeSpan.FromSeconds(1));
        }

        peer.Socket.ClientReset();
        bench.Settle();
        bench.Forget(peer);
        bench.Reads = true;
        return seconds;
    }

    // ---- answers ----

    [Theory]
    [InlineData(100, 14)]
    [InlineData(200, 14)]
    [InlineData(250, 300)]
    [InlineData(1_000, 300)]
    public void A_client_that_takes_less_than_240_bytes_a_second_is_cut_MinResponseBytesPerSecond(int bytesPerSecond, int secondsMax) => HttpBench.RunHosted(
        Large,
        bench =>
        {
            Assert.InRange(CutAfter(bench, bytesPerSecond), secondsMax == 300 ? 300 : 10, secondsMax);
            Assert.Equal(secondsMax == 300 ? 0 : 1, bench.Refused("response-too-slow"));
        });

    [Fact]
    public void A_client_whose_system_tells_in_large_steps_what_it_takes_is_not_cut_between_them_MinResponseBytesPerSecond() => HttpBench.RunHosted(
        Large,
        static bench =>
        {
            bench.Simulation.World.UnsentStep = 16 * 1024;
            Assert.Equal(300, CutAfter(bench, 400));
            Assert.Equal(0, bench.RefusedInAll);
        });

    // Over a Unix socket a piece counts when all of it has been read: what the client has of the second shows after nine seconds.
    [Fact]
    public void A_client_that_has_paused_and_reads_again_is_not_cut_in_the_middle_of_a_piece_MinResponseBytesPerSecond() => HttpBench.Run(
        static async (request, response) =>
        {
            response.Write("first"u8);
            await response.FlushAsync();
            await response.WriteAsync(Plan.Bytes("rate", 0, 200_000));
        },
        static bench =>
        {
            bench.Simulation.World.SendCapacityMax = 36 * 1024;
            HttpPeer peer = bench.Connect();
            bench.Reads = false;
            bench.Send(peer, Get);
            for (int seconds = 0; seconds < 100 && peer.Answers.Count == 0; seconds++)
            {
                _ = peer.Read(seconds < 6 ? 0 : 4_000);
                bench.Pass(TimeSpan.FromSeconds(1));
                Assert.False(peer.Socket.ServerClosed, $"cut after {seconds} s");
            }

            Assert.Equal((1, 0), (peer.Answers.Count, bench.RefusedInAll));
            bench.Reads = true;
        },
        address: "http://unix:/run/simulated.sock");

    [Fact]
    public void No_rate_is_asked_for_where_it_is_switched_off_MinResponseBytesPerSecond() => HttpBench.RunHosted(
        Large,
        static bench => Assert.Equal(300, CutAfter(bench, 1)),
        static options => options.MinResponseBytesPerSecond = 0);

    [Fact]
    public void The_rate_counts_after_its_grace_and_must_be_missed_for_as_long_MinResponseRateGrace() => HttpBench.RunHosted(
        Large,
        static bench => Assert.InRange(CutAfter(bench, 1), 40, 44),
        static options => options.MinResponseRateGrace = TimeSpan.FromSeconds(20));

    [Fact]
    public void An_application_sets_the_rate_of_one_answer_IHttpMinResponseDataRateFeature()
    {
        var rates = new Queue<MinDataRate?>([null, new MinDataRate(1_000, TimeSpan.FromSeconds(2))]);
        var before = new List<(double, TimeSpan)>();
        HttpBench.RunHosted(
            context =>
            {
                IHttpMinResponseDataRateFeature feature = context.Features.GetRequiredFeature<IHttpMinResponseDataRateFeature>();
                before.Add((feature.MinDataRate!.BytesPerSecond, feature.MinDataRate.GracePeriod));
                if (rates.TryDequeue(out MinDataRate? rate))
                {
                    feature.MinDataRate = rate;
                    Assert.Equal((rate?.BytesPerSecond, rate?.GracePeriod), (feature.MinDataRate?.BytesPerSecond, feature.MinDataRate?.GracePeriod));
                }

                return Large(context);
            },
            bench =>
            {
                Assert.Equal(300, CutAfter(bench, 1));
                Assert.InRange(CutAfter(bench, 600), 4, 8);
                Assert.Equal(300, CutAfter(bench, 600));
                Assert.All(before, static rate => Assert.Equal((240, TimeSpan.FromSeconds(5)), rate));
            });
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void The_rate_of_one_answer_holds_when_its_handler_has_ended_IHttpMinResponseDataRateFeature(bool outlivesItsTurn)
    {
        HttpBench? on = null;
        HttpBench.RunHosted(
            async context =>
            {
                context.Features.GetRequiredFeature<IHttpMinResponseDataRateFeature>().MinDataRate = null;
                if (outlivesItsTurn)
                {
                    await on!.Simulation.Pause();
                }

                context.Response.ContentLength = Size;
                System.Buffers.BuffersExtensions.Write(context.Response.BodyWriter, new byte[Size]);
            },
            bench =>
            {
                on = bench;
                Assert.Equal(300, CutAfter(bench, 1));
            });
    }

    // Fewer bytes than it must take in the grace it has, and then enough: it is as good as any.
    [Fact]
    public void A_client_that_was_too_slow_and_has_caught_up_is_not_cut_MinResponseBytesPerSecond() => HttpBench.RunHosted(
        Large,
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.Reads = false;
            bench.Send(peer, Get);
            for (int seconds = 0; seconds < 30; seconds++)
            {
                _ = peer.Read(seconds == 8 ? 16 * 1024 : 1);
                bench.Pass(TimeSpan.FromSeconds(1));
            }

            Assert.False(peer.Socket.ServerClosed);
            Assert.Equal(0, bench.RefusedInAll);
            peer.Socket.ClientReset();
            bench.Reads = true;
        });

    // ---- bodies ----

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void An_application_sets_the_rate_of_one_body_IHttpMinRequestBodyDataRateFeature(bool switchesOff)
    {
        var ended = new List<int>();
        HttpBench.RunHosted(
            async context =>
            {
                IHttpMinRequestBodyDataRateFeature feature = context.Features.GetRequiredFeature<IHttpMinRequestBodyDataRateFeature>();
                Assert.Equal(240, feature.MinDataRate!.BytesPerSecond);
                if (context.Request.Path == "/set")
                {
                    feature.MinDataRate = switchesOff ? null : new MinDataRate(5_000, TimeSpan.FromSeconds(2));
                }

                await context.Request.Body.CopyToAsync(Stream.Null);
                ended.Add(200);
            },
            bench =>
            {
                HttpPeer peer = bench.Connect();
                Post(bench, peer, "/set", bytesPerSecond: switchesOff ? 10 : 1_000);
                if (switchesOff)
                {
                    Post(bench, peer, "/default", bytesPerSecond: 10);
                }

                Assert.Equal(switchesOff ? [200, 408] : [408], peer.Answers.Select(static answer => answer.Status));
            });
    }

    // Nothing comes, and nothing tells of it: its time goes on.
    [Fact]
    public void A_body_that_stops_is_too_slow_when_what_has_come_is_too_little_for_the_time_MinBodyBytesPerSecond() => HttpBench.RunHosted(
        static context => context.Request.Body.CopyToAsync(Stream.Null),
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            peer.Expect("POST");
            bench.Send(peer, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n");
            bench.Send(peer, new byte[2_400]);
            bench.Pass(TimeSpan.FromSeconds(9));
            Assert.Empty(peer.Answers);
            bench.Pass(TimeSpan.FromSeconds(5));
            Assert.Equal(408, Assert.Single(peer.Answers).Status);
        },
        static options => options.BodyTimeout = TimeSpan.FromSeconds(1_000));

    // 1,000 bytes, or as many as are answered.
    private static void Post(HttpBench bench, HttpPeer peer, string path, int bytesPerSecond)
    {
        int before = peer.Answers.Count;
        peer.Expect("POST");
        bench.Send(peer, $"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {100 * bytesPerSecond}\r\n\r\n");
        for (int i = 0; i < 100 && peer.Answers.Count == before; i++)
        {
            bench.Send(peer, new byte[bytesPerSecond]);
            bench.Pass(TimeSpan.FromSeconds(1));
        }
    }

    [Fact]
    public void A_rate_that_Kestrel_would_not_take_is_shown_as_the_nearest_it_takes_IHttpMinRequestBodyDataRateFeature() => HttpBench.RunHosted(
        static context =>
        {
            MinDataRate rate = context.Features.GetRequiredFeature<IHttpMinRequestBodyDataRateFeature>().MinDataRate!;
            return context.Response.WriteAsync(rate.GracePeriod > TimeSpan.FromSeconds(1) ? "shown" : "not shown");
        },
        static bench => Assert.Contains("shown", bench.Ask(Get).BodyText, StringComparison.Ordinal),
        static options => options.MinBodyRateGrace = TimeSpan.Zero);

    [Fact]
    public void Over_FastCGI_the_client_is_the_web_servers_and_there_are_no_rate_features() => Shared.SharedBench.Run(
        Shared.Way.FastCgiToHosted,
        static call =>
        {
            IFeatureCollection features = ((HostedCall)call).Context.Features;
            call.WriteText($"{features.Get<IHttpMinResponseDataRateFeature>() is null} {features.Get<IHttpMinRequestBodyDataRateFeature>() is null}");
            return default;
        },
        static bench => Assert.Equal("True True", bench.Get("/").BodyText));

    // ---- the rest of a body that no handler reads ----

    private static ValueTask LeaveUnread(Request request, Response response)
    {
        response.Write("unread"u8);
        return default;
    }

    private static HttpPeer Begin(HttpBench bench, bool chunked)
    {
        HttpPeer peer = bench.Connect();
        peer.Expect("POST");
        bench.Send(peer, $"POST / HTTP/1.1\r\nHost: a\r\n{(chunked ? "Transfer-Encoding: chunked" : "Content-Length: 1000000")}\r\n\r\n{(chunked ? "f4240\r\n" : "")}");
        Assert.Equal((200, false), (Assert.Single(peer.Answers).Status, peer.Answers[0].Closes));
        return peer;
    }

    /// <summary>Seconds until the connection is closed, while so many bytes come at a time.</summary>
    private static int ClosedAfter(HttpBench bench, HttpPeer peer, int bytes, int everySeconds)
    {
        int seconds = 0;
        for (; seconds < 300 && !peer.Socket.ServerClosed; seconds++)
        {
            if (seconds % everySeconds == 0 && bytes > 0)
            {
                bench.Send(peer, new byte[bytes]);
            }

            bench.Pass(TimeSpan.FromSeconds(1));
        }

        Assert.Equal((1, 0L), (bench.Refused("body-too-slow"), bench.RefusedInAll - 1));
        Assert.Single(peer.Answers);
        return seconds;
    }

    // After 5 s the rate counts, and 2 s later nothing is thrown away any more.
    [Theory]
    [InlineData(false, 1, 25)]
    [InlineData(true, 1, 25)]
    [InlineData(false, 100, 1)]
    [InlineData(false, 0, 1)]
    public void The_rest_of_a_body_that_nobody_reads_must_come_as_fast_as_any_body_MinBodyBytesPerSecond(bool chunked, int bytes, int everySeconds) => HttpBench.Run(
        LeaveUnread,
        bench => Assert.InRange(ClosedAfter(bench, Begin(bench, chunked), bytes, everySeconds), 6, 10));

    // Of the two times that are left UnreadBodyTimeout is the shorter by default.
    [Fact]
    public void The_rest_of_a_body_of_which_nothing_comes_has_its_time_where_no_rate_is_asked_for_UnreadBodyTimeout() => HttpBench.Run(
        LeaveUnread,
        static bench => Assert.InRange(ClosedAfter(bench, Begin(bench, chunked: false), 0, 1), 30, 34),
        static options => options.MinBodyBytesPerSecond = 0);

    // Its connection comes back without the loop.
    [Fact]
    public void The_rest_of_a_body_whose_handler_ended_on_a_worker_before_the_loop_looked_has_its_time_UnreadBodyTimeout() => HttpBench.Run(
        LeaveUnread,
        static bench =>
        {
            bench.Simulation.Drivers.RunsAtOnce = true;
            Assert.InRange(ClosedAfter(bench, Begin(bench, chunked: false), 1_000, 1), 30, 34);
        },
        static options => options.Dispatch = DispatchMode.Workers);

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void The_rest_of_a_body_that_nobody_reads_has_its_time_however_fast_it_comes_UnreadBodyTimeout(bool chunked) => HttpBench.Run(
        LeaveUnread,
        bench => Assert.InRange(ClosedAfter(bench, Begin(bench, chunked), 1_000, 1), 30, 34));

    [Fact]
    public void The_rest_of_a_body_that_nobody_reads_may_pause_no_longer_than_any_body_BodyTimeout() => HttpBench.Run(
        LeaveUnread,
        static bench => Assert.InRange(ClosedAfter(bench, Begin(bench, chunked: false), 1, 50), 20, 24),
        static options =>
        {
            options.MinBodyBytesPerSecond = 0;
            options.UnreadBodyTimeout = TimeSpan.FromSeconds(100);
            options.BodyTimeout = TimeSpan.FromSeconds(20);
        });

    // The handler before it in the turn has kept the loop for that long.
    [Fact]
    public void The_pause_of_a_rest_begins_when_it_has_been_heard_BodyTimeout()
    {
        Action work = static () => { };
        HttpBench.Run(
            async (request, response) =>
            {
                work();
                await LeaveUnread(request, response);
            },
            bench =>
            {
                HttpPeer another = bench.Connect();
                HttpPeer peer = Begin(bench, chunked: false);
                another.Expect("GET");
                work = () => bench.Simulation.World.NowMs += 15_000;
                another.Socket.ClientSend("GET / HTTP/1.1\r\nHost: a\r\n\r\n"u8);
                peer.Socket.ClientSend(new byte[1]);
                another.Socket.Deliver(int.MaxValue);
                peer.Socket.Deliver(int.MaxValue);
                bench.Settle();
                bench.Pass(TimeSpan.FromSeconds(19));
                Assert.False(peer.Socket.ServerClosed);
                bench.Pass(TimeSpan.FromSeconds(2));
                Assert.Equal(1, bench.Refused("body-too-slow"));
            },
            static options =>
            {
                options.MinBodyBytesPerSecond = 0;
                options.UnreadBodyTimeout = TimeSpan.FromSeconds(100);
                options.BodyTimeout = TimeSpan.FromSeconds(20);
            });
    }

    [Fact]
    public void A_rest_that_comes_in_time_leaves_the_connection_for_the_next_request_UnreadBodyTimeout() => HttpBench.Run(
        LeaveUnread,
        static bench =>
        {
            HttpPeer peer = Begin(bench, chunked: false);
            for (int i = 0; i < 25; i++)
            {
                bench.Send(peer, new byte[40_000]);
                bench.Pass(TimeSpan.FromSeconds(1));
            }

            bench.Pass(TimeSpan.FromSeconds(100));
            bench.StillServes(peer);
            Assert.Equal(0, bench.RefusedInAll);
        });

    // ---- the last answer ----

    // RFC 9112 §9.6: what is still being sent must not become a reset over an answer that is still being read.
    [Fact]
    public void A_last_answer_that_is_still_being_read_outlasts_what_is_still_being_sent_RFC9112_9_6() => HttpBench.Run(
        static (_, response) =>
        {
            response.AddHeader("Connection", "close");
            response.Write(new byte[400_000]);
            return default;
        },
        static bench =>
        {
            bench.Simulation.World.SendCapacityMax = 1_000_000;
            bench.Simulation.World.PeerCapacityMax = 16 * 1024;
            HttpPeer peer = bench.Connect();
            peer.Expect("POST");
            bench.Reads = false;
            bench.Send(peer, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
            for (int seconds = 0; seconds < 60 && peer.Answers.Count == 0; seconds++)
            {
                _ = peer.Read(16 * 1024);
                bench.Send(peer, "x"u8);
                bench.Pass(TimeSpan.FromSeconds(1));
            }

            Assert.Equal(400_000, Assert.Single(peer.Answers).Body.Length);
            Assert.False(peer.Socket.WasReset && peer.Socket.AnswersLost);
            bench.Pass(TimeSpan.FromSeconds(5));
            Assert.True(peer.Socket.ServerClosed);
            bench.Reads = true;
        });

    [Fact]
    public void A_last_answer_that_nobody_reads_is_not_waited_for_longer_than_any_other_SendTimeout() => HttpBench.Run(
        static (_, response) =>
        {
            response.AddHeader("Connection", "close");
            response.Write(new byte[900_000]);
            return default;
        },
        static bench =>
        {
            bench.Simulation.World.SendCapacityMax = 1_000_000;
            HttpPeer peer = bench.Connect();
            peer.Expect("POST");
            bench.Reads = false;
            bench.Send(peer, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
            bench.Pass(TimeSpan.FromSeconds(58));
            Assert.False(peer.Socket.ServerClosed);
            bench.Pass(TimeSpan.FromSeconds(4));
            Assert.True(peer.Socket.ServerClosed);
            bench.Reads = true;
        });
}
