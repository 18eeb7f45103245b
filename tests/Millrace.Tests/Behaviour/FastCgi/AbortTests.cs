// ABORT_REQUEST, at every moment of a request, and ids that are used again. FastCGI 1.0 §5.4.

using Millrace.Exchanges;
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

    [Theory]
    [InlineData("aborted")]
    [InlineData("refused")]
    [InlineData("one too many")]
    public void A_head_that_came_to_nothing_takes_nothing_from_the_idle_time_of_its_connection(string how)
    {
        var gate = new TaskCompletionSource();
        FastCgiBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/waits")
                {
                    await gate.Task;
                }

                await PlainCall.Echo(request, response);
            },
            bench =>
            {
                FrontEnd other = bench.Connect();
                bench.Send(other, Wire.Request("/waits"));
                FrontEnd front = bench.Connect();
                switch (how)
                {
                    case "aborted":
                        bench.Send(front, [.. Wire.BeginRequest(), .. Wire.Record(Wire.Params, 1, Wire.Pairs(Wire.Get("/")))]);
                        bench.Send(front, Abort());
                        break;
                    case "refused":
                        bench.Send(front, [.. Wire.BeginRequest(), .. Wire.Record(Wire.Params, 1, Wire.Pairs(Wire.Get("/")))]);
                        bench.Send(front, [.. Wire.Record(Wire.Params, 1, Wire.Pairs(("CONTENT_LENGTH", "+5"))), .. Wire.Record(Wire.Params, 1, [])]);
                        break;
                    default:
                        byte[] request = Wire.Request("/");
                        bench.Send(front, request.AsSpan(0, 50));
                        bench.Send(front, request.AsSpan(50));
                        break;
                }

                Assert.Single(front.Ended);
                gate.SetResult();
                bench.Pass(TimeSpan.FromSeconds(100));
                bench.StillServes(front);
                bench.Pass(TimeSpan.FromSeconds(135));
                Assert.True(front.IsAtEnd);
            },
            Bench.Options(static options =>
            {
                options.MaxConcurrentRequests = 1;
                options.RequestQueueLimit = 0;
            }));
    }

    [Fact]
    public void Hostile_56_ABORT_after_END_is_passed_over() => FastCgiBench.Run(static bench =>
    {
        FrontEnd front = bench.Connect();
        bench.StillServes(front);
        bench.Send(front, Abort());
        Assert.Single(front.Ended);
        bench.StillServes(front);
    });

    // The connection ends with the last request, which is answered before its abort arrives: closed by then, the abort would be met by a
    // reset, which overtakes what is still unread of the answers before.
    [Fact]
    public void ABORT_behind_the_last_of_several_requests_takes_no_earlier_answer_along_FastCGI_3_5_and_5_4() => FastCgiBench.Run(
        static (request, response) =>
        {
            response.Write(Plan.Bytes(request.Path, 0, 50_000));
            return default;
        },
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Reads = false;
            bench.Send(front, Wire.Request("/first"));
            bench.Send(front, Wire.Request("/last", keep: false));
            bench.Send(front, Abort());
            bench.Reads = true;
            bench.Settle();
            Assert.False(front.Socket.WasReset);
            Assert.Collection(
                front.Ended,
                static first => Assert.Equal(Plan.Bytes("/first", 0, 50_000), first.Body.ToArray()),
                static last => Assert.Equal(Plan.Bytes("/last", 0, 50_000), last.Body.ToArray()));
            Assert.True(front.IsAtEnd);
        });

    [Fact]
    public void The_only_request_of_a_connection_is_answered_and_closed_in_one_turn_FastCGI_3_5() => FastCgiBench.Run(static bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, Wire.Request("/", keep: false));
        Assert.Single(front.Ended);
        Assert.True(front.Socket.ServerClosed);
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

    // HAProxy 2.6 with keep-conn: a client goes away, no ABORT_REQUEST follows, and the connection is used for the next one. Nor
    // does the front server mind how much of the first response it has.
    [Theory]
    [InlineData("/silent", false)]
    [InlineData("/silent", true)]
    [InlineData("/begun", false)]
    [InlineData("/begun", true)]
    [InlineData("/declared", false)]
    [InlineData("/declared", true)]
    [InlineData("/fails", false)]
    public void Another_request_on_a_connection_known_to_carry_one_gives_the_running_one_up_FastCGI_5_4(string running, bool isBodyOpen)
    {
        byte[] next = Wire.Request("/next", id: 3);
        for (int cut = 0; cut <= next.Length; cut++)
        {
            bool cancelled = false;
            RunTwo(() => cancelled = true, bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, Ask("FCGI_MPXS_CONNS"));
                bench.Send(front, Running(running, isBodyOpen));
                bench.Send(front, next.AsSpan(0, cut));
                bench.Send(front, next.AsSpan(cut));
                Assert.True(cancelled);
                Assert.Equal(0, bench.Refused("multiplexed"));
                AssertBothEnded(front);
                Assert.Equal("next", bench.Ask(front, Wire.Request("/more")).BodyText);
            });
        }
    }

    [Theory]
    [InlineData("/silent", false)]
    [InlineData("/silent", true)]
    [InlineData("/begun", false)]
    [InlineData("/begun", true)]
    [InlineData("/declared", true)]
    [InlineData("/fails", false)]
    public void Another_request_may_follow_ABORT_before_the_END_FastCGI_5_4(string running, bool isBodyOpen)
    {
        byte[] bytes = [.. Running(running, isBodyOpen), .. Abort(), .. Wire.Request("/next", id: 3)];
        for (int cut = 0; cut <= bytes.Length; cut++)
        {
            RunTwo(static () => { }, bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, bytes.AsSpan(0, cut));
                bench.Send(front, bytes.AsSpan(cut));
                AssertBothEnded(front);
            });
        }
    }

    [Fact]
    public void The_id_itself_may_follow_its_ABORT_before_the_END_FastCGI_5_4()
    {
        foreach (bool isBodyOpen in (bool[])[false, true])
        {
            RunTwo(static () => { }, bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, [.. Running("/silent", isBodyOpen), .. Abort(), .. Wire.Request("/next")]);
                Assert.Equal([(1, 0), (1, 0)], front.Ended.Select(static ended => (ended.Id, ended.ProtocolStatus)));
                Assert.Equal("next", front.Ended[1].BodyText);
            });
        }
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_drain_waits_for_the_request_that_gave_the_running_one_up(bool isBodyOpen) => RunTwo(static () => { }, bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, Ask("FCGI_MPXS_CONNS"));
        bench.Send(front, Running("/begun", isBodyOpen));
        bench.Drain();
        bench.Send(front, Wire.Request("/next", id: 3));
        AssertBothEnded(front);
        Assert.True(front.IsAtEnd);
    });

    // HAProxy, whose clients have left while their requests waited to be read.
    [Theory]
    [InlineData(1)]
    [InlineData(5)]
    public void Of_requests_in_one_piece_a_front_server_that_knows_better_waits_for_the_last_FastCGI_4_1(int left)
    {
        byte[] bytes = [.. Enumerable.Range(1, left).SelectMany(static id => Wire.Request("/silent", id: id)), .. Wire.Request("/next", id: left + 1)];
        for (int cut = 0; cut <= bytes.Length; cut += left)
        {
            RunTwo(static () => { }, bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, Ask("FCGI_MPXS_CONNS"));
                bench.Send(front, bytes.AsSpan(0, cut));
                bench.Send(front, bytes.AsSpan(cut));
                Assert.Equal(Enumerable.Range(1, left + 1), front.Ended.Select(static ended => ended.Id));
                Assert.Equal((0, "next"), (front.Ended[^1].ProtocolStatus, front.Ended[^1].BodyText));
                Assert.Equal(0, bench.Refused("multiplexed"));
            });
        }
    }

    // ... but one that has not had the answer when it sends them waits for each.
    [Fact]
    public void What_has_not_been_told_is_not_known_FastCGI_4_1() => RunTwo(static () => { }, static bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, [.. Ask("FCGI_MPXS_CONNS"), .. Enumerable.Range(1, 3).SelectMany(static id => Wire.Request("/next", id: id))]);
        Assert.Equal([(1, "next"), (2, "next"), (3, "next")], front.Ended.Select(static ended => (ended.Id, ended.BodyText)));
    });

    // ... while the handler of the first one went on and heeded nothing. One after the other they would hold up whoever waits for the last.
    [Theory]
    [InlineData(false, false)]
    [InlineData(false, true)]
    [InlineData(true, false)]
    [InlineData(true, true)]
    public void Of_requests_that_were_given_up_before_they_could_be_read_none_is_run_FastCGI_4_1(bool isBodyOpen, bool isBehindAnother)
    {
        var held = new TaskCompletionSource();
        int run = 0;
        FastCgiBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/next")
                {
                    response.WriteText("next");
                    return;
                }

                run++;
                await held.Task;
            },
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, Ask("FCGI_MPXS_CONNS"));
                if (isBehindAnother)
                {
                    bench.Send(front, Wire.Request("/held", id: 1));
                }

                bench.Send(front, [.. Enumerable.Range(2, 5).SelectMany(id => Running("/held", isBodyOpen, id)), .. Wire.Request("/next", id: 7)]);
                Assert.Equal(isBehindAnother, front.Ended.Count == 0);
                held.SetResult();
                bench.Settle();
                Assert.Equal(Enumerable.Range(isBehindAnother ? 1 : 2, isBehindAnother ? 7 : 6), front.Ended.Select(static ended => ended.Id));
                Assert.All(front.Ended, static ended => Assert.Equal(0, ended.ProtocolStatus));
                Assert.Equal("next", front.Ended[^1].BodyText);
                Assert.Equal(isBehindAnother ? 1 : 0, run);
                Assert.Equal(0, bench.Refused("multiplexed"));
            });
    }

    // A front server that does not know better, or did not when it sent the first; a connection that
    // is closed behind the first in any case: the second is one too many, and the first goes on.
    [Theory]
    [InlineData("FCGI_MPXS_CONNS", "runs", "asks next")]
    [InlineData("FCGI_MPXS_CONNS", "asks runs", "next")]
    [InlineData("FCGI_MPXS_CONNS", "asks", "runs", "next-filter")]
    [InlineData("FCGI_MAX_CONNS", "asks", "runs", "next")]
    [InlineData("FCGI_MPXS_CONNS", "asks", "runs-last", "next")]
    [InlineData("FCGI_MPXS_CONNS", "runs", "next")]
    public void Another_request_beside_the_running_one_is_CANT_MPX_CONN_and_the_first_goes_on_FastCGI_5_5(string name, params string[] reads)
    {
        bool cancelled = false;
        RunTwo(() => cancelled = true, bench =>
        {
            FrontEnd front = bench.Connect();
            foreach (string read in reads)
            {
                bench.Send(front, [.. read.Split(' ').SelectMany(word => word switch
                {
                    "asks" => Ask(name),
                    "runs" => Running("/silent", isBodyOpen: false),
                    "runs-last" => Wire.Request("/silent", keep: false),
                    "next-filter" => Wire.BeginRequest(id: 3, role: 3),
                    _ => Wire.Request("/next", id: 3),
                })]);
            }

            Assert.Equal((3, 1), (Assert.Single(front.Ended).Id, front.Ended[0].ProtocolStatus));
            Assert.Equal(1, bench.Refused("multiplexed"));
            Assert.False(cancelled);
            bench.Send(front, Abort());
            Assert.Equal((1, 0), (front.Ended[1].Id, front.Ended[1].ProtocolStatus));
        });
    }

    [Fact]
    public void Of_a_request_that_gave_the_running_one_up_the_head_is_waited_for_as_of_any() => RunTwo(static () => { }, bench =>
    {
        FrontEnd front = bench.Connect();
        bench.Send(front, Ask("FCGI_MPXS_CONNS"));
        bench.Send(front, Running("/silent", isBodyOpen: false));
        bench.Send(front, Wire.BeginRequest(id: 3));
        Assert.Equal(1, Assert.Single(front.Ended).Id);
        bench.Pass(TimeSpan.FromSeconds(29));
        Assert.False(front.IsAtEnd);
        bench.Pass(TimeSpan.FromSeconds(2));
        Assert.True(front.IsAtEnd);
        Assert.Equal(1, bench.Refused("head-timeout"));
    });

    // The response, as its handler completes it before it ends itself.
    private static ValueTask CompleteResponse(Exchange exchange)
    {
        exchange.Gate.Enter(exchange.Ticket);
        ValueTask sent = exchange.Complete();
        exchange.Gate.ExitForGood(exchange.Ticket);
        return sent;
    }

    // Nothing has shown by then that it is broken, and nobody waits for it any more.
    [Fact]
    public void A_response_that_ended_too_short_has_an_end_when_ABORT_follows_before_the_end_of_its_handler_FastCGI_5_4()
    {
        FastCgiBench? current = null;
        FastCgiBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/next")
                {
                    return;
                }

                Exchange exchange = current!.Simulation.Handler.Current!;
                response.ContentLength = 1_000;
                response.WriteText("half");
                await response.FlushAsync();
                ValueTask sent = CompleteResponse(exchange);
                await sent;
                await Bench.Cancelled(request.Aborted);
                throw new OperationCanceledException();
            },
            bench =>
            {
                current = bench;
                FrontEnd front = bench.Connect();
                bench.Send(front, [.. Wire.Request("/"), .. Abort(), .. Wire.Request("/next")]);
                bench.Pass(TimeSpan.FromMilliseconds(200));
                Assert.Equal([("half", 1), ("", 1)], front.Ended.Select(static ended => (ended.BodyText, ended.Id)));
                Assert.False(front.IsAtEnd);
            });
    }

    // Its end finds no room, and waits for some as well: what has come meanwhile is read when that has left.
    [Theory]
    [InlineData("fastcgi://127.0.0.1:9000")]
    [InlineData("fastcgi://unix:/run/simulated.sock")]
    public void Where_the_end_of_a_request_that_was_given_up_finds_no_room_the_next_one_waits_for_it_FastCGI_5_4(string address)
    {
        const int Room = 500;
        for (int size = 1; size <= 4 * Room; size++)        // of some of them the rest fills the socket
        {
            FastCgiBench? current = null;
            FastCgiBench.Run(
                async (request, response) =>
                {
                    if (request.Path != "/")
                    {
                        response.WriteText("GET " + request.Path);
                        return;
                    }

                    response.ContentLength = 1_000_000;
                    _ = response.WriteAsync(Plan.Bytes("half", 0, size)).AsTask();
                    _ = CompleteResponse(current!.Simulation.Handler.Current!).AsTask();
                    await Bench.Cancelled(request.Aborted);
                    throw new OperationCanceledException();
                },
                bench =>
                {
                    current = bench;
                    bench.Simulation.World.SendCapacityMax = Room;
                    FrontEnd front = bench.Connect();
                    bench.Reads = false;
                    bench.Send(front, Wire.Request("/"));
                    bench.Send(front, Abort());
                    bench.Send(front, Wire.Request("/next"));
                    for (int i = 0; i < 8; i++)
                    {
                        _ = front.Read(10 * Room);
                        bench.Pass(TimeSpan.FromMilliseconds(1));
                    }

                    bench.Reads = true;
                    bench.Pass(TimeSpan.FromMilliseconds(200));
                    Assert.Equal(["GET /next"], front.Ended.Skip(1).Select(static ended => ended.BodyText));
                    Assert.Equal(Plan.Bytes("half", 0, size), front.Ended[0].Body.ToArray());
                    bench.StillServes(front);
                },
                address: address);
        }
    }

    // The application completes the response and goes on for long: whoever has aborted it has its END_REQUEST as soon as it takes it.
    [Theory]
    [InlineData("silent", true, true)]
    [InlineData("silent", true, false)]
    [InlineData("silent", false, false)]
    [InlineData("half sent", true, true)]
    [InlineData("half sent", true, false)]
    [InlineData("half sent", false, false)]
    [InlineData("much written", true, true)]
    [InlineData("much written", true, false)]
    [InlineData("much written", false, false)]
    public void An_aborted_request_that_is_completed_ends_before_its_handler_FastCGI_5_4(string what, bool isAbortedFirst, bool reads)
    {
        FastCgiBench? current = null;
        var over = new TaskCompletionSource();
        bool isOver = false;
        FastCgiBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/next")
                {
                    response.WriteText("next");
                    return;
                }

                if (what != "silent")
                {
                    response.Write(new byte[what == "half sent" ? 4 : 50_000]);
                }

                if (what == "half sent")
                {
                    await response.FlushAsync();
                }

                if (isAbortedFirst)
                {
                    await Bench.Cancelled(request.Aborted);
                }

                ValueTask sent = CompleteResponse(current!.Simulation.Handler.Current!);
                await sent;
                await over.Task;
                isOver = true;
            },
            bench =>
            {
                current = bench;
                bench.Simulation.World.SendCapacityMax = 10;
                FrontEnd front = bench.Connect();
                bench.Reads = reads;
                bench.Send(front, Wire.Request("/"));
                bench.Send(front, Abort());
                bench.Reads = true;
                bench.Pass(TimeSpan.FromMilliseconds(200));
                Assert.Equal((1, 0), (Assert.Single(front.Ended).Id, front.Ended[0].ProtocolStatus));
                Assert.False(isOver);
                bench.Send(front, Wire.Request("/next"));
                over.SetResult();
                bench.Settle();
                Assert.Equal("next", front.Ended[^1].BodyText);
            });
    }

    // A file that a handler leaves half sent ends in the middle of a record: nothing can follow it.
    [Fact]
    public void A_file_left_half_sent_ends_the_connection_even_of_a_request_that_was_given_up()
    {
        const int File = 77;
        FastCgiBench? current = null;
        Task? sending = null;
        FastCgiBench.Run(
            async (request, response) =>
            {
                Exchange exchange = current!.Simulation.Handler.Current!;
                sending = exchange.SendSimulatedFileAsync(File, 1_000_000);
                await Bench.Cancelled(request.Aborted);
            },
            bench =>
            {
                current = bench;
                bench.Simulation.World.Files[File] = new byte[1_000_000];
                bench.Simulation.World.SendCapacityMax = 10_000;
                FrontEnd front = bench.Connect();
                bench.Reads = false;
                bench.Send(front, Wire.Request("/"));
                bench.Send(front, [.. Abort(), .. Wire.Request("/next", id: 3)]);
                bench.Reads = true;
                bench.Pass(TimeSpan.FromMilliseconds(200));
                Assert.True(front.IsAtEnd);
                Assert.Empty(front.Ended);
                Assert.NotNull(sending);
            });
    }

    // What waits for the front server to read is given up with the request, as ASP.NET Core does with files. The front server goes on
    // reading to END_REQUEST, and has sent another client's request by then.
    [Theory]
    [InlineData("file")]
    [InlineData("write")]
    [InlineData("flush")]
    [InlineData("abort")]
    [InlineData("write, abort")]
    public void What_an_application_gives_up_of_a_request_that_was_aborted_takes_no_other_along_FastCGI_5_4(string how)
    {
        const int File = 78;
        FastCgiBench? current = null;
        Exception? thrown = null;
        FastCgiBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/next")
                {
                    response.WriteText("next");
                    return;
                }

                Exchange exchange = current!.Simulation.Handler.Current!;
                CancellationToken aborted = request.Aborted;
                if (how.EndsWith("abort", StringComparison.Ordinal))
                {
                    aborted.Register(() => exchange.AbortByApplication(exchange.Ticket));
                }

                thrown = await Record.ExceptionAsync(async () =>
                {
                    switch (how)
                    {
                        case "file":
                            await exchange.Writes.While(new ValueTask(exchange.SendSimulatedFileAsync(File, 1_000_000)), exchange.Ticket, aborted);
                            break;
                        case "flush":
                            response.Write(new byte[100_000]);
                            await response.Body.FlushAsync(aborted);
                            break;
                        case "abort":
                            await Bench.Cancelled(aborted);
                            break;
                        default:
                            await response.Body.WriteAsync(new byte[1_000_000], aborted);
                            break;
                    }
                });
            },
            bench =>
            {
                current = bench;
                bench.Simulation.World.Files[File] = new byte[1_000_000];
                bench.Simulation.World.SendCapacityMax = 10_000;
                FrontEnd front = bench.Connect();
                bench.Reads = false;
                bench.Send(front, Wire.Request("/"));
                bench.Send(front, Abort());
                bench.Pass(TimeSpan.FromMilliseconds(200));
                bench.Send(front, Wire.Request("/next", id: 3));
                bench.Reads = true;
                bench.Pass(TimeSpan.FromMilliseconds(200));
                AssertBothEnded(front);
                Assert.Equal(how == "abort", thrown is null);
                Assert.Equal("next", bench.Ask(front, Wire.Request("/next")).BodyText);
            });
    }

    private static byte[] Ask(string name) => Wire.Record(Wire.GetValues, 0, Wire.Pairs((name, "")));

    private static byte[] Running(string target, bool isBodyOpen, int id = 1) => isBodyOpen
        ? [.. Wire.Request(target, "POST", [], id)[..^8], .. Wire.Record(Wire.Stdin, id, "body to come"u8.ToArray())]
        : Wire.Request(target, id: id);

    private static void AssertBothEnded(FrontEnd front)
    {
        Assert.Equal([(1, 0), (3, 0)], front.Ended.Select(static ended => (ended.Id, ended.ProtocolStatus)));
        Assert.Equal("next", front.Ended[1].BodyText);
    }

    // All but /next wait until they are cancelled, with some of their response sent or none; /next ends at once.
    private static void RunTwo(Action cancelled, Action<FastCgiBench> test) => FastCgiBench.Run(
        async (request, response) =>
        {
            if (request.Path is "/next" or "/more")
            {
                response.WriteText("next");
                return;
            }

            if (request.Path != "/silent")
            {
                response.ContentLength = request.Path == "/declared" ? 1_000 : null;
                response.WriteText("half");
                await response.FlushAsync();
            }

            await Bench.Cancelled(request.Aborted);
            cancelled();
            switch (request.Path)
            {
                case "/begun":
                    throw new OperationCanceledException();
                case "/fails":
                    throw new InvalidOperationException("fails behind its cancellation");
            }
        },
        test);
}
