// A response that is complete, and has left, while its handler goes on: it stays whole, whatever becomes of the handler.

using Microsoft.AspNetCore.Http;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class CompletedTests(Way way) : SharedTests(way)
{
    private const int Size = 700_000;
    private const int SimulatedFile = 78;

    // It has all that it has asked for, and what the handler does yet it does for whoever has it: as Kestrel, which does not look either.
    [Theory]
    [InlineData("one piece", false)]
    [InlineData("pieces", false)]
    [InlineData("longer than the socket takes", false)]
    [InlineData("one piece, as long as announced", false)]
    [InlineData("one piece, as long as announced", true)]
    [InlineData("pieces, as long as announced", true)]
    [InlineData("longer than the socket takes, as long as announced", true)]
    [InlineData("a file, as long as announced", false)]
    [InlineData("a file, as long as announced", true)]
    public void A_peer_that_leaves_with_its_whole_answer_has_aborted_nothing_of_what_its_handler_does_yet(string how, bool later)
    {
        var before = new TaskCompletionSource();
        var going = new TaskCompletionSource();
        CancellationToken token = default;
        string path = Path.GetTempFileName();
        File.WriteAllBytes(path, BodyOf("a file"));
        string[] parts = how.Split(", ");
        foreach (bool isReset in (bool[])[false, true])
        {
            (before, going) = (new(), new());
            Run(
                async call =>
                {
                    if (call.Path != "/first")
                    {
                        return;
                    }

                    token = call.Aborted;
                    if (later)
                    {
                        await before.Task;
                    }

                    call.Length = parts.Length > 1 ? BodyOf(parts[0]).Length : null;
                    if (parts[0] == "a file")
                    {
                        await ((HostedCall)call).Context.Response.SendFileAsync(path);
                    }
                    else
                    {
                        await WriteAsync(call, parts[0]);
                        await (parts.Length > 1 ? call.FlushAsync().AsTask() : ((HostedCall)call).Context.Response.CompleteAsync());
                    }

                    await going.Task;
                },
                bench =>
                {
                    Caller caller = bench.Connect();
                    bench.Send(caller, caller.Request("/first"));
                    before.SetResult();
                    bench.Settle();
                    Assert.Equal(BodyOf(parts[0]), (caller.Begun ?? Assert.Single(caller.Answers)).Body);
                    Leave(caller, isReset);

                    bench.Settle();
                    Assert.False(token.IsCancellationRequested);
                    going.SetResult();
                    bench.Settle();
                    Assert.Equal(0, bench.Connections);
                    bench.OthersAreServed();
                });
        }

        File.Delete(path);
    }

    [Theory]
    [InlineData("completed", false)]
    [InlineData("completed", true)]
    [InlineData("as long as announced", false)]
    [InlineData("as long as announced", true)]
    [InlineData("a file, as long as announced", false)]
    [InlineData("a file, as long as announced", true)]
    [InlineData("the rest is not flushed", false)]
    [InlineData("the rest is not flushed", true)]
    public void A_peer_that_leaves_with_a_part_of_its_answer_has_aborted_it(string how, bool isReset)
    {
        var going = new TaskCompletionSource();
        CancellationToken token = default;
        Run(
            async call =>
            {
                token = call.Aborted;
                call.Length = how == "completed" ? null : Size;
                if (how.StartsWith("a file", StringComparison.Ordinal))
                {
                    try
                    {
                        await call.Exchange.SendSimulatedFileAsync(SimulatedFile, Size);
                    }
                    catch (OperationCanceledException)
                    {
                        // As it may.
                    }
                }
                else if (how == "the rest is not flushed")
                {
                    await call.WriteAsync(new byte[1_000]);
                    await call.FlushAsync();
                    call.Write(new byte[Size - 1_000]);
                }
                else
                {
                    Task writing = WriteAsync(call, "longer than the socket takes");
                    await (how == "completed" ? ((HostedCall)call).Context.Response.CompleteAsync() : writing);
                }

                await going.Task;
            },
            bench =>
            {
                bench.Simulation.World.Files[SimulatedFile] = new byte[Size];
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/first"));
                Assert.False(token.IsCancellationRequested);
                Leave(caller, isReset);

                bench.Settle();
                Assert.True(token.IsCancellationRequested);
                going.SetResult();
                bench.Settle();
                Assert.Equal(0, bench.Connections);
            });
    }

    // It may have left, and has not all of it: the socket waits for it.
    [Fact]
    public void A_peer_that_finishes_sending_while_its_whole_answer_waits_in_the_socket_cancels_its_handler()
    {
        var going = new TaskCompletionSource();
        CancellationToken token = default;
        Run(
            async call =>
            {
                if (call.Path == "/first")
                {
                    token = call.Aborted;
                    call.Length = Size;
                    await WriteAsync(call, "longer than the socket takes");
                    await going.Task;
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/first"));
                caller.Socket.ClientFinish();
                bench.Settle();
                Assert.True(token.IsCancellationRequested);
                bench.Reads = true;
                going.SetResult();
                bench.Settle();
                bench.OthersAreServed();
            });
    }

    // A handler that tells what happens for as long as somebody listens knows no other end: of HEAD its client has all there is with the head.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_peer_of_HEAD_that_leaves_ends_a_handler_that_goes_on_until_then(bool isReset)
    {
        var pulse = new TaskCompletionSource();
        Run(
            async call =>
            {
                while (call.Method == "HEAD" && !call.Aborted.IsCancellationRequested)
                {
                    await call.WriteAsync(new byte[10]);
                    await call.FlushAsync();
                    await pulse.Task;
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/first", "HEAD"));
                GoOn();
                Leave(caller, isReset);

                bench.Settle();
                GoOn();
                GoOn();
                Assert.Equal(0, bench.Connections);

                void GoOn()
                {
                    TaskCompletionSource its = pulse;
                    pulse = new();
                    its.SetResult();
                    bench.Settle();
                }
            });
    }

    // Nothing of it is missing: whatever came behind it would be taken for the answer to the next request on the connection, which may be somebody else's.
    [Theory]
    [InlineData("one piece")]
    [InlineData("pieces")]
    [InlineData("longer than the socket takes")]
    public void An_answer_that_has_left_whole_is_not_broken_off_by_an_abort_and_the_next_request_is_answered(string how)
    {
        var pause = new TaskCompletionSource();
        var aborted = new TaskCompletionSource();
        CancellationToken token = default;
        Run(
            async call =>
            {
                if (call.Path == "/first")
                {
                    token = call.Aborted;
                    await WriteAsync(call, how);
                    await ((HostedCall)call).Context.Response.CompleteAsync();
                    await pause.Task;
                    call.Abort();
                    await aborted.Task;
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/first"));
                Assert.Equal(BodyOf(how), Assert.Single(caller.Answers).Body);
                bench.Send(caller, caller.Request("/second"));
                pause.SetResult();
                bench.Settle();
                Assert.True(token.IsCancellationRequested);
                Assert.Single(caller.Answers);
                aborted.SetResult();
                bench.Settle();
                Assert.Equal(2, caller.Answers.Count);
                Assert.False(caller.IsAtEnd);
                bench.StillServes(caller);
            });
    }

    [Theory]
    [InlineData("one piece")]
    [InlineData("pieces")]
    [InlineData("longer than the socket takes")]
    public void An_answer_that_has_left_whole_stays_so_when_its_handler_outlives_the_drain_DrainTimeout(string how)
    {
        var never = new TaskCompletionSource();
        Run(
            async call =>
            {
                await WriteAsync(call, how);
                await ((HostedCall)call).Context.Response.CompleteAsync();
                await never.Task;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/first"));
                Assert.Equal(BodyOf(how), Assert.Single(caller.Answers).Body);
                bench.Drain();
                bench.Cut();
                Assert.True(caller.IsAtEnd);
                Assert.False(caller.Socket.WasReset);
                Assert.Single(caller.Answers);
                Assert.Null(caller.Begun);
                Assert.Equal(0, caller.Socket.Unread);
                never.SetResult();
                bench.Settle();
            });
    }

    // nginx would try its next POST on a connection that looks idle.
    [Fact]
    public void In_a_drain_the_connection_ends_with_a_response_that_ends_before_its_handler_Unix()
    {
        var going = new TaskCompletionSource();
        RunOverUnix(
            async call =>
            {
                await WriteAsync(call, "pieces");
                await ((HostedCall)call).Context.Response.CompleteAsync();
                await going.Task;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Drain();
                bench.Send(caller, caller.Request("/first"));
                Assert.Equal(BodyOf("pieces"), Assert.Single(caller.Answers).Body);
                Assert.True(caller.IsAtEnd || caller.Answers[0].Field("Connection") == "close");
                going.SetResult();
                bench.Settle();
                Assert.Single(caller.Answers);
            });
    }

    private static void Leave(Caller caller, bool isReset)
    {
        if (isReset)
        {
            caller.Socket.ClientReset();
        }
        else
        {
            caller.Socket.ClientClose();
        }
    }

    private protected static async Task WriteAsync(Call call, string how)
    {
        foreach (byte[] part in how == "pieces" ? BodyOf(how).Chunk(1_000) : [BodyOf(how)])
        {
            await call.WriteAsync(part);
            await call.FlushAsync();
        }
    }

    private protected static byte[] BodyOf(string how) => Plan.Bytes("whole", 0, how == "longer than the socket takes" ? Size : 3_000);
}

public sealed class FastCgiCompletedTests() : CompletedTests(Way.FastCgiToHosted)
{
    // Section 3.3 knows one version. Where records end is not known any more, but the answer has been there before.
    [Theory]
    [InlineData(new byte[] { 9, 9, 9, 9, 9, 9, 9, 9 })]
    public void An_answer_that_has_left_whole_stays_so_when_what_follows_it_is_no_record(byte[] noRecord)
    {
        var going = new TaskCompletionSource();
        Run(
            async call =>
            {
                await WriteAsync(call, "pieces");
                await ((HostedCall)call).Context.Response.CompleteAsync();
                await going.Task;
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/first"));
                Assert.Equal(BodyOf("pieces"), Assert.Single(caller.Answers).Body);
                bench.Send(caller, noRecord);
                Assert.True(caller.IsAtEnd);
                Assert.False(caller.Socket.WasReset);
                Assert.False(((FrontEnd)caller.End).IsBrokenOff);
                going.SetResult();
                bench.Settle();
                Assert.Single(caller.Answers);
                Assert.Equal(0, caller.Socket.Unread);
                bench.StillServes(bench.Connect());
            });
    }
}

public sealed class HttpCompletedTests() : CompletedTests(Way.HttpToHosted);
