// Connections that move to another server without their peers noticing: each byte of theirs is answered once, by the one or by the other.
// The two servers are two loops here, that have nothing in common but the channel.

using System.Buffers.Binary;
using Millrace.Exchanges;
using Millrace.Loops;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class MoveTests(Way way) : SharedTests(way)
{
    [Fact]
    public void An_idle_connection_moves_and_its_next_request_is_answered_there() => Move(Call.Echo, static (bench, caller) =>
    {
        _ = bench.Get(caller, "/before");
        Begin(bench);
        bench.Settle();
        Assert.Same(New(bench), caller.Socket.Reader);
        for (int i = 0; i < 3; i++)
        {
            Answer answer = bench.Get(caller, $"/after{i}");
            Assert.StartsWith($"GET /after{i}\n", answer.BodyText, StringComparison.Ordinal);
            Assert.NotEqual("close", answer.Field("Connection"));
            Assert.Same(New(bench), caller.Socket.Reader);
        }

        Assert.False(caller.IsAtEnd);
        Assert.Equal(1, bench.Connections);
    });

    [Fact]
    public void Whoever_connects_from_then_on_is_accepted_by_the_successor_alone() => Move(Call.Echo, static (bench, caller) =>
    {
        Begin(bench);
        bench.Settle();
        for (int i = 0; i < 20; i++)
        {
            Caller next = bench.Connect();
            _ = bench.Get(next, "/next");
            Assert.Same(New(bench), next.Socket.Reader);
            Assert.Equal(0, Old(bench).Loop.ConnectionCount);
        }

        Assert.Equal(1, Old(bench).Loop.Counters.Accepted);
    });

    [Fact]
    public void A_connection_that_has_asked_nothing_yet_moves() => Move(Call.Echo, static (bench, caller) =>
    {
        Begin(bench);
        Assert.StartsWith("GET /first\n", bench.Get(caller, "/first").BodyText, StringComparison.Ordinal);
        Assert.Same(New(bench), caller.Socket.Reader);
    });

    // Whatever of it has come: what is read here is answered here, what is not lies in the socket.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_request_that_is_cut_anywhere_by_the_move_is_answered_once(bool hasBody)
    {
        byte[]? body = hasBody ? "some bytes of a body"u8.ToArray() : null;
        int length = 0;
        Move(Call.Echo, (_, caller) => length = caller.Request("/cut", hasBody ? "POST" : "GET", body).Length);
        for (int cut = 0; cut <= length; cut++)
        {
            Move(Call.Echo, (bench, caller) =>
            {
                byte[] request = caller.Request("/cut", hasBody ? "POST" : "GET", body);
                bench.Send(caller, request[..cut]);
                Begin(bench);
                bench.Settle();
                bench.Send(caller, request[cut..]);
                Assert.StartsWith($"{(hasBody ? "POST" : "GET")} /cut\n", Assert.Single(caller.Answers).BodyText, StringComparison.Ordinal);

                Offer(bench);
                Assert.StartsWith("GET /next\n", bench.Get(caller, "/next").BodyText, StringComparison.Ordinal);
                Assert.Same(New(bench), caller.Socket.Reader);
                Assert.Equal(2, caller.Answers.Count);
            });
        }
    }

    [Fact]
    public void What_lies_unread_in_its_socket_goes_with_it() => Move(Call.Echo, static (bench, caller) =>
    {
        _ = bench.Get(caller, "/before");
        Begin(bench);
        caller.Socket.ClientSend(caller.Request("/unread"));
        caller.Socket.Deliver(int.MaxValue);
        bench.Settle();
        Assert.StartsWith("GET /unread\n", caller.Answers[^1].BodyText, StringComparison.Ordinal);
        Assert.Same(New(bench), caller.Socket.Reader);
    });

    [Fact]
    public void A_request_that_is_under_way_is_answered_where_it_began_and_its_connection_moves_behind_it()
    {
        var gate = new TaskCompletionSource();
        Move(
            async call =>
            {
                call.WriteText("begun ");
                await call.FlushAsync();
                await gate.Task;
                call.WriteText("ended");
            },
            (bench, caller) =>
            {
                bench.Send(caller, caller.Request("/slow"));
                Begin(bench);
                bench.Settle();
                Assert.Same(Old(bench), caller.Socket.Reader);
                gate.SetResult();
                bench.Settle();
                Assert.Equal("begun ended", Assert.Single(caller.Answers).BodyText);
                Assert.NotEqual("close", caller.Answers[0].Field("Connection"));
                Offer(bench);
                _ = bench.Get(caller, "/next");
                Assert.Same(New(bench), caller.Socket.Reader);
            });
    }

    // What became idle since the last sweep: its client may be sending the next request at this moment.
    [Fact]
    public void A_connection_that_is_idle_when_the_drain_time_is_over_moves()
    {
        var gate = new TaskCompletionSource();
        Move(
            async call =>
            {
                if (call.Path == "/long")
                {
                    await gate.Task;
                }

                await Call.Echo(call);
            },
            (bench, caller) =>
            {
                bench.Send(caller, caller.Request("/long"));
                Begin(bench);
                bench.Settle();
                gate.SetResult();
                bench.Settle();
                Assert.Same(Old(bench), caller.Socket.Reader);
                Old(bench).Loop.Post(new Action<EventLoop<SimulatedKernel>>(static loop => loop.CutConnections()));
                bench.Settle();
                Assert.False(caller.IsAtEnd);
                Assert.StartsWith("GET /next\n", bench.Get(caller, "/next").BodyText, StringComparison.Ordinal);
                Assert.Same(New(bench), caller.Socket.Reader);
            });
    }

    // No idle moment is needed: before it reads the next request it gives the connection away.
    [Fact]
    public void A_connection_that_is_never_idle_for_long_moves_before_its_next_request_is_read() => Move(Call.Echo, static (bench, caller) =>
    {
        _ = bench.Get(caller, "/before");
        bench.Simulation.BeginMove(Array.IndexOf(bench.Simulation.Loops, Old(bench)), capacity: 0);
        bench.Settle();
        _ = bench.Get(caller, "/full");
        Assert.Same(Old(bench), caller.Socket.Reader);

        bench.Simulation.Channel!.Capacity = 1;
        _ = bench.Get(caller, "/room");
        Assert.Same(New(bench), caller.Socket.Reader);
    });

    [Fact]
    public void Where_nobody_takes_it_a_connection_stays() => Move(Call.Echo, static (bench, caller) =>
    {
        _ = bench.Get(caller, "/before");
        bench.Simulation.BeginMove(Array.IndexOf(bench.Simulation.Loops, Old(bench)), capacity: 1);
        bench.Simulation.Channel!.HasEnded = true;
        bench.Settle();
        Assert.Equal(200, bench.Get(caller, "/after").Status);
        Assert.Same(Old(bench), caller.Socket.Reader);
    });

    [Fact]
    public void A_client_that_has_finished_sending_is_answered_where_it_is() => Move(Call.Echo, static (bench, caller) =>
    {
        bench.Send(caller, caller.Request("/last")[..^1]);
        Begin(bench);
        caller.Socket.ClientSend(caller.Request("/last").AsSpan()[^1..]);
        caller.Socket.ClientFinish();
        bench.Settle();
        Assert.Single(caller.Answers);
        Assert.Equal(0, bench.Connections);
    });

    // However often it moves: where processes are replaced more often than that, nothing would ever end otherwise.
    [Fact]
    public void An_idle_connection_that_moves_has_the_time_that_is_left_of_it_IdleTimeout() => Move(Call.Echo, static (bench, caller) =>
    {
        _ = bench.Get(caller, "/before");
        bench.Pass(TimeSpan.FromSeconds(100));
        Begin(bench);
        EndsThere(bench, caller, seconds: 30);
    });

    [Fact]
    public void A_connection_that_moves_has_its_idle_time_anew_behind_each_request_IdleTimeout() => Move(Call.Echo, static (bench, caller) =>
    {
        _ = bench.Get(caller, "/before");
        bench.Pass(TimeSpan.FromSeconds(100));
        Begin(bench);
        bench.Pass(TimeSpan.FromSeconds(1));
        _ = bench.Get(caller, "/after");
        EndsThere(bench, caller, seconds: 130);
    });

    [Fact]
    public void A_connection_that_has_sent_nothing_yet_has_the_time_of_its_first_head_wherever_it_moves_HeadTimeout() => Move(Call.Echo, static (bench, caller) =>
    {
        bench.Pass(TimeSpan.FromSeconds(20));
        Begin(bench);
        EndsThere(bench, caller, seconds: 10);
    });

    // Any process that has the channel may say anything.
    [Theory]
    [InlineData(0, 30, 30)]         // nobody has had it yet: the time of a first head
    [InlineData(0, 200, 200)]
    [InlineData(long.MaxValue, 30, 130)]
    [InlineData(long.MaxValue, 200, 200)]
    [InlineData(1, 30, 0)]
    [InlineData(-1, 30, 0)]
    [InlineData(long.MinValue, 30, 0)]
    public void Whatever_is_said_of_it_a_connection_that_has_come_is_idle_for_no_more_than_its_time(long saidMs, int headSeconds, int seconds) => Move(Call.Echo, (bench, caller) =>
    {
        _ = bench.Get(caller, "/before");
        bench.Simulation.World.InGive = message => BinaryPrimitives.WriteInt64LittleEndian(message.AsSpan(3), saidMs);
        Begin(bench);
        EndsThere(bench, caller, seconds);
    },
    options => options.HeadTimeout = TimeSpan.FromSeconds(headSeconds));

    // As one gives it that a version before this one has started: it says nothing of the time.
    [Fact]
    public void What_a_connection_brings_along_is_read_as_it_was_written_and_as_before()
    {
        byte[] peer = [2, 0, 0, 80, 127, 0, 0, 1];
        var its = new MovedConnection(Millrace.Listeners.ListenProtocol.Http1, IsTcp: true, Knowledge: 5, IdleUntilMs: 123_456_789_012, peer) { IsUncounted = true };
        byte[] message = new byte[MovedConnection.SizeMax];
        int length = its.Write(message);
        MovedConnection? read = MovedConnection.Read(message.AsSpan(0, length));
        Assert.Equal((its.Protocol, its.IsTcp, its.Knowledge, its.IdleUntilMs), (read!.Protocol, read.IsTcp, read.Knowledge, read.IdleUntilMs));
        Assert.Equal((true, true), (read.IsUncounted, read.Address.IsUncounted));
        Assert.Equal(peer, read.Peer);
        Assert.Null(MovedConnection.Read(message.AsSpan(0, 10)));

        read = MovedConnection.Read([1, 3, 5, .. peer]);
        Assert.Equal((its.Protocol, its.IsTcp, its.Knowledge, long.MaxValue), (read!.Protocol, read.IsTcp, read.Knowledge, read.IdleUntilMs));
        Assert.Equal(peer, read.Peer);
        Assert.False(read.IsUncounted);
        Assert.All((byte[][])[[], [1], [1, 3], [1, 4, 0], [3, 3, 5, .. peer], [2, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]], static strange => Assert.Null(MovedConnection.Read(strange)));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_connection_to_an_address_without_a_gate_stays_one_wherever_it_moves_MaxConnections(bool isUncounted) => Move(
        Call.Echo,
        (bench, caller) =>
        {
            _ = bench.Get(caller, "/before");
            New(bench).Loop.Services.Options.MaxConnections = 0;
            bench.Simulation.World.InGive = message => message[1] |= (byte)(isUncounted ? 4 : 0);
            Begin(bench);
            bench.Settle();
            Assert.Equal((!isUncounted, isUncounted ? 1 : 0), (caller.IsAtEnd, bench.Connections));
        });

    [Fact]
    public void New_connections_are_the_others() => Move(Call.Echo, static (bench, caller) =>
    {
        Begin(bench);
        bench.Settle();
        for (int i = 0; i < 10; i++)
        {
            Caller later = bench.Connect();
            Assert.Equal(200, bench.Get(later, "/").Status);
            Assert.Same(New(bench), later.Socket.Reader);
        }
    });

    // An application has what it keeps for a connection in the process that it was served by.
    [Fact]
    public void To_the_application_a_connection_ends_where_it_leaves()
    {
        ConnectionEnd? told = null;
        Move(
            call =>
            {
                told ??= call.Exchange.Connection.EndFor(call.Exchange.Services);
                return Call.Echo(call);
            },
            (bench, caller) =>
            {
                _ = bench.Get(caller, "/before");
                Assert.False(told!.Closed.IsCancellationRequested);
                Begin(bench);
                bench.Settle();
                Assert.Same(New(bench), caller.Socket.Reader);
                Assert.True(told.Closed.IsCancellationRequested);
                Assert.StartsWith("GET /after\n", bench.Get(caller, "/after").BodyText, StringComparison.Ordinal);
            });
    }

    // The others of its loop have their turn, and then it has its own, before it goes.
    [Fact]
    public void Requests_that_have_been_read_and_wait_for_the_turn_of_others_are_all_answered() => Move(AtOnce(static _ => { }), static (bench, caller) =>
    {
        caller.Socket.ClientSend([.. Enumerable.Range(0, 400).SelectMany(i => caller.Request($"/{i}"))]);
        caller.Socket.Deliver(int.MaxValue);
        _ = Old(bench).Turn(0);     // the event is there
        Begin(bench);               // and this is posted before the connection gives the others their turn
        bench.Settle();
        Assert.Equal(400, caller.Answers.Count);
        _ = bench.Get(caller, "/next");
        Assert.Same(New(bench), caller.Socket.Reader);
    });

    // It ends as it would without a successor.
    [Fact]
    public void Where_nobody_takes_it_any_more_a_connection_ends_in_the_drain() => Move(Call.Echo, static (bench, caller) =>
    {
        _ = bench.Get(caller, "/before");
        bench.Simulation.BeginMove(Array.IndexOf(bench.Simulation.Loops, Old(bench)), capacity: 1);
        bench.Simulation.Channel!.HasEnded = true;
        bench.Drain();
        bench.PassInDrain(TimeSpan.FromMilliseconds(100));
        bench.PassInDrain(TimeSpan.FromMilliseconds(400));
        Assert.True(caller.IsAtEnd);
    });

    // New connections may have taken all others by then.
    [Theory]
    [InlineData(100, true)]
    [InlineData(0, false)]
    public void A_connection_that_moves_has_a_part_of_what_is_kept_back_ReservedDescriptors(int reserve, bool isServed) => Move(Call.Echo, (bench, caller) =>
    {
        _ = bench.Get(caller, "/before");
        Begin(bench);
        bench.Simulation.Services.DescriptorCeiling = 1;
        bench.Simulation.Services.ReservePart = reserve;
        bench.Send(caller, caller.Request("/after"));
        Assert.Equal(isServed ? 2 : 1, caller.Answers.Count);
        bench.Simulation.Services.ReservePart = 100;
        bench.Pass(TimeSpan.FromMilliseconds(300));
        Assert.Equal(2, caller.Answers.Count);
    });

    // ---- two servers ----

    // With one connection, of the first.
    private protected void Move(Func<Call, ValueTask> handler, Action<SharedBench, Caller> test, Action<MillraceOptions>? set = null) => Run(
        handler,
        bench =>
        {
            Caller caller = bench.Connect();
            bench.Simulation.Loops[0].Turn(0);
            s_old = bench.Simulation.Loops[0].Loop.ConnectionCount == 1 ? 0 : 1;
            test(bench, caller);
        },
        options =>
        {
            options.Loops = 2;
            set?.Invoke(options);
        });

    [ThreadStatic]
    private static int s_old;

    private protected static DrivenLoop Old(SharedBench bench) => bench.Simulation.Loops[s_old];

    private protected static DrivenLoop New(SharedBench bench) => bench.Simulation.Loops[1 - s_old];

    private protected static void Begin(SharedBench bench) => bench.Simulation.BeginMove(s_old, capacity: 100);

    // Within a second of its time.
    private static void EndsThere(SharedBench bench, Caller caller, int seconds)
    {
        if (seconds > 0)
        {
            bench.Pass(TimeSpan.FromSeconds(seconds - 1));
            Assert.Same(New(bench), caller.Socket.Reader);
            Assert.False(caller.IsAtEnd);
        }

        bench.Pass(TimeSpan.FromSeconds(2));
        Assert.True(caller.IsAtEnd);
    }

    private protected static void Offer(SharedBench bench)
    {
        Old(bench).Loop.Post(new Action<EventLoop<SimulatedKernel>>(static loop => loop.DrainConnections()));
        bench.Settle();
    }
}

public sealed class FastCgiMoveTests() : MoveTests(Way.FastCgiToPlain)
{
    // It is as fast as it must be, there as here.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void The_rest_of_a_body_that_nobody_reads_has_its_time_where_the_connection_has_moved_MinBodyBytesPerSecond(bool moves) => Move(
        AtOnce(static call => call.WriteText("unread")),
        (bench, caller) =>
        {
            bench.Send(caller, [.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get("/", "POST", ("CONTENT_LENGTH", "40000")))), .. Wire.Record(Wire.Stdin, 1, new byte[1_000])]);
            Assert.Equal("unread", Assert.Single(caller.Answers).BodyText);
            if (moves)
            {
                Begin(bench);
                bench.Settle();
                Assert.Same(New(bench), caller.Socket.Reader);
            }

            byte[] rest = Wire.Record(Wire.Stdin, 1, new byte[39_000]);
            for (int at = 0; at < 60 * 250; at += 250)
            {
                bench.Send(caller, rest[at..(at + 250)]);
                bench.Pass(TimeSpan.FromMilliseconds(500));
                Assert.False(caller.IsAtEnd, $"at {at}");
            }
        },
        static options =>
        {
            options.HeadTimeout = TimeSpan.FromSeconds(10);
            options.IdleTimeout = TimeSpan.FromSeconds(20);
        });
}

public sealed class HttpMoveTests() : MoveTests(Way.HttpToPlain)
{
    // RFC 9112 §2.2. The half of one is known to nobody else.
    [Theory]
    [InlineData("\r\n", "", true)]
    [InlineData("\r", "\n", false)]
    public void A_connection_on_which_an_empty_line_has_come_is_idle(string before, string after, bool moves) => Move(Call.Echo, (bench, caller) =>
    {
        bench.Send(caller, [.. caller.Request("/before"), .. System.Text.Encoding.ASCII.GetBytes(before)]);
        Begin(bench);
        bench.Settle();
        Offer(bench);
        Assert.Same(moves ? New(bench) : Old(bench), caller.Socket.Reader);
        bench.Send(caller, [.. System.Text.Encoding.ASCII.GetBytes(after), .. caller.Request("/after")]);
        Assert.StartsWith("GET /after\n", caller.Answers[^1].BodyText, StringComparison.Ordinal);
    });
}

public sealed class FastCgiHostedMoveTests() : MoveTests(Way.FastCgiToHosted);

public sealed class HttpHostedMoveTests() : MoveTests(Way.HttpToHosted);
