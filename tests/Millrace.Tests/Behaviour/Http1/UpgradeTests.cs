// Switching protocols: 101, and then the bytes of both directions are the application's. RFC 9110 §7.8.

using System.IO.Pipelines;
using System.Text;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Exchanges;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Http1;

public sealed class UpgradeTests
{
    private const string Ask = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: chat/1\r\n\r\n";

    /// <summary>Answers each piece in upper case until the client has finished, and says goodbye.</summary>
    private static async Task Shout(HttpContext context)
    {
        var feature = context.Features.GetRequiredFeature<IHttpUpgradeFeature>();
        if (!feature.IsUpgradableRequest)
        {
            context.Response.ContentLength = "not upgradable".Length;
            await context.Response.WriteAsync("not upgradable");
            return;
        }

        context.Response.Headers.Upgrade = "chat/1";
        await using Stream stream = await feature.UpgradeAsync();
        Assert.False(feature.IsUpgradableRequest);
        byte[] buffer = new byte[100_000];
        for (int count; (count = await stream.ReadAsync(buffer)) > 0;)
        {
            await stream.WriteAsync(Encoding.ASCII.GetBytes(Encoding.ASCII.GetString(buffer, 0, count).ToUpperInvariant()));
        }

        await stream.WriteAsync("BYE"u8.ToArray());
    }

    private static string Text(HttpPeer peer) => Encoding.ASCII.GetString([.. peer.Tunnel]);

    [Fact]
    public void A_tunnel_does_not_keep_the_loop_from_others_however_much_comes() => HttpBench.RunHosted(
        Shout,
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            Assert.Equal(101, bench.Ask(peer, Ask).Status);
            bench.SendInTurns(peer, Encoding.ASCII.GetBytes(new string('a', 200_000)));
            Assert.Equal(new string('A', 200_000), Text(peer));
            peer.Socket.ClientFinish();
            bench.Settle();
        });

    [Fact]
    public void A_tunnel_that_waits_keeps_the_head_of_its_request_alone()
    {
        Exchange? exchange = null;
        HttpBench.RunHosted(
            context =>
            {
                exchange = new HostedCall(context).Exchange;
                return Shout(context);
            },
            bench =>
            {
                HttpPeer peer = bench.Connect();
                Assert.Equal(101, bench.Ask(peer, Ask).Status);
                Assert.InRange(exchange!.BytesHeld, 1, 1024);
                foreach (int size in (int[])[1, 5_000, 50_000, 1])
                {
                    bench.Send(peer, Encoding.ASCII.GetBytes(new string('a', size)));
                    Assert.InRange(exchange.BytesHeld, 1, 1024);
                }

                Assert.Equal(new string('A', 55_002), Text(peer));
                peer.Socket.ClientFinish();
                bench.Settle();
            });
    }

    [Fact]
    public void No_more_connections_switch_protocols_than_may_and_one_that_ends_makes_room() => HttpBench.RunHosted(
        static async context =>
        {
            try
            {
                await Shout(context);
            }
            catch (InvalidOperationException error)
            {
                Assert.Contains("(1, MaxUpgradedConnections)", error.Message, StringComparison.Ordinal);
                context.Response.ContentLength = 0;
            }
        },
        static bench =>
        {
            HttpPeer first = bench.Connect();
            Assert.Equal(101, bench.Ask(first, Ask).Status);
            HttpPeer second = bench.Connect();
            Assert.Equal(200, bench.Ask(second, Ask).Status);
            first.Socket.ClientFinish();
            bench.Settle();
            Assert.Equal("BYE", Text(first));
            Assert.Equal(101, bench.Ask(second, Ask).Status);
        },
        static options => options.MaxUpgradedConnections = 1);

    [Fact]
    public void Of_two_switches_at_the_same_time_one_is_made_and_takes_one_place_MaxUpgradedConnections() => HttpBench.RunHosted(
        static async context =>
        {
            var feature = context.Features.GetRequiredFeature<IHttpUpgradeFeature>();
            var starting = new TaskCompletionSource();
            context.Response.OnStarting(() => starting.Task);
            Task<Stream>[] both = [feature.UpgradeAsync(), feature.UpgradeAsync()];
            starting.SetResult();
            _ = await Record.ExceptionAsync(() => Task.WhenAll(both));
            await using Stream stream = await Assert.Single(both, static each => each.IsCompletedSuccessfully);
            Assert.IsType<InvalidOperationException>(Assert.Single(both, static each => each.IsFaulted).Exception!.InnerException);
            _ = await stream.ReadAsync(new byte[1]);
        },
        static bench =>
        {
            for (int round = 0; round < 3; round++)
            {
                HttpPeer[] peers = [bench.Connect(), bench.Connect()];
                Assert.All(peers, peer => Assert.Equal(101, bench.Ask(peer, Ask).Status));
                Array.ForEach(peers, static peer => peer.Socket.ClientFinish());
                bench.Settle();
                Assert.All(peers, static peer => Assert.True(peer.IsAtEnd));
            }
        },
        static options => options.MaxUpgradedConnections = 2);

    // Both have found room, and wait for what comes before a response; the second finds none any more, and answers something else.
    [Theory]
    [InlineData("sets 503", 503)]
    [InlineData("sets nothing", 200)]
    [InlineData("lets it pass", 500)]
    public void Of_two_switches_that_wait_for_the_last_place_the_second_is_answered_otherwise_MaxUpgradedConnections(string how, int status)
    {
        var starting = new Queue<TaskCompletionSource>([new(), new()]);
        TaskCompletionSource[] each = [.. starting];
        HttpBench.RunHosted(
            async context =>
            {
                if (starting.TryDequeue(out TaskCompletionSource? its))
                {
                    context.Response.OnStarting(() => its.Task);
                }

                try
                {
                    await Shout(context);
                }
                catch (InvalidOperationException) when (how != "lets it pass")
                {
                    context.Response.StatusCode = how == "sets 503" ? 503 : context.Response.StatusCode;
                }
            },
            bench =>
            {
                HttpPeer[] peers = [bench.Connect(), bench.Connect()];
                Array.ForEach(peers, peer => bench.Send(peer, Ask));
                Array.ForEach(each, static its => its.SetResult());
                bench.Settle();
                Assert.Equal([101, status], peers.Select(static peer => Assert.Single(peer.Answers).Status));
                Assert.Empty(Text(peers[1]));
                peers[0].Socket.ClientFinish();
                bench.Settle();
                Assert.Equal("BYE", Text(peers[0]));
                Assert.Equal(101, bench.Ask(peers[1], Ask).Status);
                peers[1].Socket.ClientFinish();
                bench.Settle();
            },
            static options => options.MaxUpgradedConnections = 1);
    }

    // What the application has to do before its response begins is done for the response there is.
    [Fact]
    public void A_switch_for_which_there_is_no_place_begins_no_response_MaxUpgradedConnections()
    {
        var begun = new List<int>();
        HttpBench.RunHosted(
            async context =>
            {
                context.Response.OnStarting(() =>
                {
                    begun.Add(context.Response.StatusCode);
                    return Task.CompletedTask;
                });
                try
                {
                    await Shout(context);
                }
                catch (InvalidOperationException)
                {
                    context.Response.StatusCode = 503;
                }
            },
            bench =>
            {
                HttpPeer[] peers = [bench.Connect(), bench.Connect()];
                Assert.Equal([101, 503], peers.Select(peer => bench.Ask(peer, Ask).Status));
                Assert.Equal([101, 503], begun);
                peers[0].Socket.ClientFinish();
                bench.Settle();
            },
            static options => options.MaxUpgradedConnections = 1);
    }

    [Fact]
    public void A_request_that_offers_no_switch_is_not_switched_RFC9110_7_8() => HttpBench.RunHosted(
        static async context =>
        {
            var feature = context.Features.GetRequiredFeature<IHttpUpgradeFeature>();
            Assert.False(feature.IsUpgradableRequest);
            InvalidOperationException error = await Assert.ThrowsAsync<InvalidOperationException>(feature.UpgradeAsync);
            Assert.Contains("cannot be upgraded", error.Message, StringComparison.Ordinal);
            await context.Response.WriteAsync("as ever");
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            HttpAnswer answer = bench.Ask(peer, "GET /chat HTTP/1.1\r\nHost: a\r\n\r\n");
            Assert.Equal((200, "as ever", false), (answer.Status, answer.BodyText, answer.Closes));
        });

    // Behind it comes another protocol already, or nothing.
    [Fact]
    public void A_CONNECT_is_offered_no_switch_RFC9110_9_3_6() => HttpBench.RunHosted(
        static context =>
        {
            context.Response.StatusCode = context.Features.GetRequiredFeature<IHttpUpgradeFeature>().IsUpgradableRequest ? 500 : 405;
            return Task.CompletedTask;
        },
        static bench =>
            Assert.Equal(405, bench.Ask(bench.Connect(), "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nConnection: upgrade\r\nUpgrade: chat/1\r\n\r\n").Status));

    [Fact]
    public void A_switch_that_cannot_begin_leaves_a_response_as_any_other_and_its_place_to_the_next_RFC9110_7_8() => HttpBench.RunHosted(
        static async context =>
        {
            var feature = context.Features.GetRequiredFeature<IHttpUpgradeFeature>();
            if (context.Request.Path == "/long")
            {
                "seven b"u8.CopyTo(context.Response.BodyWriter.GetSpan(7));
                context.Response.BodyWriter.Advance(7);
                await Assert.ThrowsAsync<InvalidOperationException>(feature.UpgradeAsync);
                Assert.True(feature.IsUpgradableRequest);
                await context.Response.WriteAsync("ytes");
                return;
            }

            await using Stream stream = await feature.UpgradeAsync();
            await stream.WriteAsync("one"u8.ToArray());
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            HttpAnswer answer = bench.Ask(peer, Ask.Replace("/chat", "/long", StringComparison.Ordinal));
            Assert.Equal((200, "seven bytes", false), (answer.Status, answer.BodyText, answer.Closes));
            Assert.Equal(101, bench.Ask(peer, Ask).Status);
            Assert.Equal("one", Text(peer));
        },
        static options => options.MaxUpgradedConnections = 1);

    [Fact]
    public void A_length_that_was_set_before_the_switch_is_none_of_the_new_protocol_RFC9110_15_2() => HttpBench.RunHosted(
        static async context =>
        {
            context.Response.ContentLength = 3;
            await using Stream stream = await context.Features.GetRequiredFeature<IHttpUpgradeFeature>().UpgradeAsync();
            await stream.WriteAsync("four"u8.ToArray());
            await stream.FlushAsync();
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            Assert.Equal(101, bench.Ask(peer, Ask).Status);
            Assert.Equal("four", Text(peer));
        });

    [Fact]
    public void A_connection_is_switched_once_and_whoever_asks_again_is_told_so() => HttpBench.RunHosted(
        static async context =>
        {
            var feature = context.Features.GetRequiredFeature<IHttpUpgradeFeature>();
            await using Stream stream = await feature.UpgradeAsync();
            InvalidOperationException error = await Assert.ThrowsAsync<InvalidOperationException>(feature.UpgradeAsync);
            Assert.Contains("was already called", error.Message, StringComparison.Ordinal);
            await stream.WriteAsync("one"u8.ToArray());
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            Assert.Equal(101, bench.Ask(peer, Ask).Status);
            Assert.Equal("one", Text(peer));
        });

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void OnStarting_runs_before_a_switch_and_its_fields_are_in_the_101(bool later)
    {
        var pause = new TaskCompletionSource();
        HttpBench.RunHosted(
            context =>
            {
                context.Response.OnStarting(async () =>
                {
                    await (later ? pause.Task : Task.CompletedTask);
                    context.Response.Headers["X-Started"] = "yes";
                });
                return Shout(context);
            },
            bench =>
            {
                HttpPeer peer = bench.Connect();
                bench.Send(peer, Ask);
                Assert.Equal(later ? 0 : 1, peer.Answers.Count);
                pause.SetResult();
                bench.Settle();
                HttpAnswer answer = Assert.Single(peer.Answers);
                Assert.Equal((101, "yes"), (answer.Status, answer.Field("X-Started")));
                peer.Socket.ClientFinish();
                bench.Settle();
                Assert.Equal("BYE", Text(peer));
            });
    }

    [Fact]
    public void After_101_the_bytes_of_both_sides_are_the_applications_RFC9110_7_8() => HttpBench.RunHosted(Shout, static bench =>
    {
        HttpPeer peer = bench.Connect();
        HttpAnswer answer = bench.Ask(peer, Ask);
        Assert.Equal((101, "Upgrade", "chat/1"), (answer.Status, answer.Field("Connection"), answer.Field("Upgrade")));
        Assert.Null(answer.Field("Content-Length") ?? answer.Field("Transfer-Encoding"));
        foreach (string piece in (string[])["hello", "GET / HTTP/1.1\r\n\r\n", "0\r\n\r\n", new string('x', 70_000)])
        {
            peer.Tunnel.Clear();
            bench.Send(peer, piece);
            Assert.Equal(piece.ToUpperInvariant(), Text(peer));
        }

        peer.Tunnel.Clear();
        peer.Socket.ClientFinish();
        bench.Settle();
        Assert.Equal("BYE", Text(peer));
        Assert.True(peer.IsAtEnd);
        Assert.Equal(0, bench.Connections);
        Assert.Equal(1, bench.Simulation.Handler.Started);
    });

    [Fact]
    public void Bytes_that_come_with_the_request_are_the_first_of_the_new_protocol_RFC9110_7_8() => HttpBench.RunHosted(Shout, static bench =>
    {
        byte[] bytes = Encoding.ASCII.GetBytes(Ask + "early bytes");
        for (int cut = Ask.Length - 5; cut <= bytes.Length; cut++)
        {
            HttpPeer peer = bench.Connect();
            bench.Send(peer, bytes.AsSpan(0, cut));
            bench.Send(peer, bytes.AsSpan(cut));
            Assert.Equal((101, "EARLY BYTES"), (Assert.Single(peer.Answers).Status, Text(peer)));
            peer.Socket.ClientClose();
            bench.Settle();
            Assert.Equal(0, bench.Connections);
        }
    });

    [Fact]
    public void A_tunnel_has_no_time_limit_and_no_size_limit_RFC9110_7_8() => HttpBench.RunHosted(
        Shout,
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            Assert.Equal(101, bench.Ask(peer, Ask).Status);
            for (int i = 0; i < 5; i++)
            {
                bench.Pass(TimeSpan.FromSeconds(300));
                bench.Send(peer, "still here ");
            }

            bench.Send(peer, new byte[20_000]);
            Assert.StartsWith(string.Concat(Enumerable.Repeat("STILL HERE ", 5)), Text(peer), StringComparison.Ordinal);
            Assert.Equal(20_055, peer.Tunnel.Count);
        },
        static options => options.MaxRequestBodySize = 1_000);

    [Fact]
    public void An_application_that_does_not_read_stops_the_peer_and_goes_on_later_RequestBodyBuffer()
    {
        var reads = new TaskCompletionSource();
        HttpBench.RunHosted(
            async context =>
            {
                await using Stream stream = await context.Features.GetRequiredFeature<IHttpUpgradeFeature>().UpgradeAsync();
                await reads.Task;
                long total = 0;
                byte[] buffer = new byte[10_000];
                while (total < 2_000_000)
                {
                    total += await stream.ReadAsync(buffer);
                }

                await stream.WriteAsync(Encoding.ASCII.GetBytes($"{total}"));
            },
            bench =>
            {
                bench.Simulation.World.ReceiveCapacityMax = 16 * 1024;
                HttpPeer peer = bench.Connect();
                Assert.Equal(101, bench.Ask(peer, Ask).Status);
                bench.Send(peer, new byte[2_000_000]);
                Assert.InRange(peer.Socket.TakenByServer, 10_000, 200_000);
                bench.Pass(TimeSpan.FromSeconds(200));
                reads.SetResult();
                bench.Settle();
                Assert.Equal("2000000", Text(peer));
            },
            static options => options.RequestBodyBuffer = 64 * 1024);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_client_that_goes_away_ends_the_tunnel_RFC9110_7_8(bool resets)
    {
        bool ended = false;
        HttpBench.RunHosted(
            async context =>
            {
                try
                {
                    await Shout(context);
                }
                catch (IOException)
                {
                }

                ended = true;
            },
            bench =>
            {
                HttpPeer peer = bench.Connect();
                Assert.Equal(101, bench.Ask(peer, Ask).Status);
                if (resets)
                {
                    peer.Socket.ClientReset();
                }
                else
                {
                    peer.Socket.ClientClose();
                }

                bench.Settle();
                Assert.True(ended);
                Assert.Equal(0, bench.Connections);
            });
    }

    [Theory]
    [InlineData("")]
    [InlineData("bytes that nobody reads")]
    [InlineData(null)]
    public void A_handler_that_does_not_read_hears_that_its_client_has_gone(string? unread)
    {
        bool heard = false;
        HttpBench.RunHosted(
            async context =>
            {
                await using Stream stream = await context.Features.GetRequiredFeature<IHttpUpgradeFeature>().UpgradeAsync();
                var gone = new TaskCompletionSource();
                using CancellationTokenRegistration registration = context.RequestAborted.Register(gone.SetResult);
                await gone.Task;
                heard = true;
            },
            bench =>
            {
                HttpPeer peer = bench.Connect();
                Assert.Equal(101, bench.Ask(peer, Ask).Status);
                bench.Send(peer, unread ?? new string('x', 100_000));
                peer.Socket.ClientClose();
                bench.Settle();
                Assert.True(heard);
                Assert.Equal(0, bench.Connections);
            },
            static options => options.RequestBodyBuffer = 64 * 1024);
    }

    [Fact]
    public void A_client_that_has_only_finished_sending_still_gets_what_the_handler_writes() => HttpBench.RunHosted(
        static async context =>
        {
            await using Stream stream = await context.Features.GetRequiredFeature<IHttpUpgradeFeature>().UpgradeAsync();
            var finished = new TaskCompletionSource();
            using CancellationTokenRegistration registration = context.RequestAborted.Register(finished.SetResult);
            await finished.Task;
            byte[] buffer = new byte[10];
            int count = await stream.ReadAsync(buffer);
            await stream.WriteAsync(buffer.AsMemory(0, count));
            Assert.Equal(0, await stream.ReadAsync(buffer));
            await stream.WriteAsync("BYE"u8.ToArray());
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            Assert.Equal(101, bench.Ask(peer, Ask).Status);
            bench.Send(peer, "last");
            peer.Socket.ClientFinish();
            bench.Settle();
            Assert.Equal("lastBYE", Text(peer));
            Assert.True(peer.IsAtEnd);
        });

    [Fact]
    public void An_application_that_ends_the_tunnel_ends_the_connection_RFC9110_7_8() => HttpBench.RunHosted(
        static async context =>
        {
            await using Stream stream = await context.Features.GetRequiredFeature<IHttpUpgradeFeature>().UpgradeAsync();
            await stream.WriteAsync("only this"u8.ToArray());
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            Assert.Equal(101, bench.Ask(peer, Ask).Status);
            Assert.Equal("only this", Text(peer));
            Assert.True(peer.IsAtEnd);
            Assert.False(peer.Socket.WasReset);
        });

    [Fact]
    public void A_drained_server_cuts_its_tunnels_at_the_end_of_the_drain_time_DrainTimeout() => HttpBench.RunHosted(Shout, static bench =>
    {
        HttpPeer peer = bench.Connect();
        Assert.Equal(101, bench.Ask(peer, Ask).Status);
        bench.Drain();
        bench.Send(peer, "on");
        Assert.Equal("ON", Text(peer));
        bench.Cut();
        Assert.True(peer.IsAtEnd);
        Assert.Equal(0, bench.Connections);
    });

    [Theory]
    [InlineData("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: chat/1\r\n\r\n")]
    [InlineData("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n")]
    [InlineData("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade:\r\n\r\n")]
    [InlineData("GET / HTTP/1.0\r\nHost: a\r\nConnection: upgrade, keep-alive\r\nUpgrade: chat/1\r\n\r\n")]
    [InlineData("POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: chat/1\r\nContent-Length: 2\r\n\r\nhi")]
    [InlineData("POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: chat/1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")]
    public void What_is_no_offer_to_upgrade_is_an_ordinary_request_RFC9110_7_8(string request) => HttpBench.RunHosted(Shout, bench =>
    {
        HttpPeer peer = bench.Connect();
        HttpAnswer answer = bench.Ask(peer, request);
        Assert.Equal((200, "not upgradable"), (answer.Status, answer.BodyText));
        Assert.Equal("not upgradable", bench.Ask(peer, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").BodyText);
    });

    // As on Kestrel.
    [Theory]
    [InlineData("Body.WriteAsync")]
    [InlineData("Body.Write")]
    [InlineData("Body.FlushAsync")]
    [InlineData("BodyWriter.WriteAsync")]
    [InlineData("BodyWriter.GetMemory")]
    [InlineData("BodyWriter.GetSpan")]
    [InlineData("BodyWriter.Advance")]
    [InlineData("BodyWriter.FlushAsync")]
    [InlineData("BodyWriter.Complete")]
    [InlineData("BodyWriter.CompleteAsync")]
    [InlineData("WriteAsync")]
    [InlineData("SendFileAsync")]
    public void What_is_written_into_the_response_lies_not_among_the_bytes_of_the_tunnel(string how) => HttpBench.RunHosted(
        async context =>
        {
            Microsoft.AspNetCore.Http.HttpResponse response = context.Response;
            Stream body = response.Body;
            Memory<byte> memory = how == "BodyWriter.Advance" ? response.BodyWriter.GetMemory(8) : default;
            context.Features.GetRequiredFeature<IHttpBodyControlFeature>().AllowSynchronousIO = true;
            Stream stream = await context.Features.GetRequiredFeature<IHttpUpgradeFeature>().UpgradeAsync();
            await stream.WriteAsync("one "u8.ToArray());
            await Assert.ThrowsAsync<InvalidOperationException>(async () =>
            {
                Task task = how switch
                {
                    "Body.WriteAsync" => body.WriteAsync("foreign"u8.ToArray()).AsTask(),
                    "Body.FlushAsync" => body.FlushAsync(),
                    "BodyWriter.WriteAsync" => response.BodyWriter.WriteAsync("foreign"u8.ToArray()).AsTask(),
                    "BodyWriter.FlushAsync" => response.BodyWriter.FlushAsync().AsTask(),
                    "BodyWriter.CompleteAsync" => response.BodyWriter.CompleteAsync().AsTask(),
                    "WriteAsync" => response.WriteAsync("foreign"),
                    "SendFileAsync" => response.SendFileAsync("/proc/self/status"),
                    _ => Task.CompletedTask,
                };
                await task;
                Action act = how switch
                {
                    "Body.Write" => () => body.Write("foreign"u8),
                    "BodyWriter.GetMemory" => () => response.BodyWriter.GetMemory(8),
                    "BodyWriter.GetSpan" => () => response.BodyWriter.GetSpan(8),
                    "BodyWriter.Advance" => () => response.BodyWriter.Advance(memory.Length),
                    "BodyWriter.Complete" => () => response.BodyWriter.Complete(),
                    _ => static () => { },
                };
                act();
            });
            await stream.WriteAsync("two"u8.ToArray());
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            Assert.Equal(101, bench.Ask(peer, Ask).Status);
            Assert.Equal("one two", Text(peer));
            Assert.True(peer.IsAtEnd);
        });

    // As on Kestrel: a logger of bodies that reads when the tunnel is there takes nothing out of it.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void The_body_of_the_request_stays_empty_whoever_reads_it_behind_the_switch(bool isReadBefore) => HttpBench.RunHosted(
        async context =>
        {
            if (isReadBefore)
            {
                Assert.Equal(0, await context.Request.Body.ReadAsync(new byte[8]));
                Assert.True((await context.Request.BodyReader.ReadAsync()).IsCompleted);
            }

            await using Stream stream = await context.Features.GetRequiredFeature<IHttpUpgradeFeature>().UpgradeAsync();
            await stream.WriteAsync("?"u8.ToArray());
            byte[] buffer = new byte[8];
            await stream.ReadExactlyAsync(buffer.AsMemory(0, 1));
            Assert.Equal(0, await context.Request.Body.ReadAsync(buffer));
            ReadResult result = await context.Request.BodyReader.ReadAsync();
            Assert.Equal((0, true), (result.Buffer.Length, result.IsCompleted));
            context.Request.BodyReader.AdvanceTo(result.Buffer.End);
            context.Request.BodyReader.CancelPendingRead();
            await stream.ReadExactlyAsync(buffer.AsMemory(1, 3));
            await stream.WriteAsync(buffer.AsMemory(0, 4));
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            Assert.Equal(101, bench.Ask(peer, Ask).Status);
            bench.Send(peer, "all!");
            Assert.Equal("?all!", Text(peer));
        });

    [Fact]
    public void Synchronous_use_of_a_tunnel_is_refused_unless_it_is_allowed_AllowSynchronousIO() => HttpBench.RunHosted(
        static async context =>
        {
            await using Stream stream = await context.Features.GetRequiredFeature<IHttpUpgradeFeature>().UpgradeAsync();
            Assert.Throws<InvalidOperationException>(() => stream.Write("no"u8));
            Assert.Throws<InvalidOperationException>(() => stream.Flush());
            Assert.Throws<InvalidOperationException>(() => stream.Read(new byte[1]));
            context.Features.GetRequiredFeature<IHttpBodyControlFeature>().AllowSynchronousIO = true;
            stream.Write("yes"u8);
            stream.Flush();
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            Assert.Equal(101, bench.Ask(peer, Ask).Status);
            Assert.Equal("yes", Text(peer));
        });

    [Fact]
    public void An_offer_that_is_not_taken_is_answered_like_any_request_RFC9110_7_8() => HttpBench.Run(static bench =>
    {
        HttpPeer peer = bench.Connect();
        Assert.Equal(200, bench.Ask(peer, Ask).Status);
        bench.StillServes(peer);
    });

    [Fact]
    public void A_426_may_name_the_protocol_it_wants_RFC9110_15_5_22() => HttpBench.Run(
        static (request, response) =>
        {
            response.StatusCode = 426;
            response.AddHeader("Upgrade", "websocket");
            return default;
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            HttpAnswer answer = bench.Ask(peer, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            Assert.Equal(("Upgrade", "websocket"), (answer.Field("Connection"), answer.Field("Upgrade")));
            Assert.False(peer.IsAtEnd);
        });
}
