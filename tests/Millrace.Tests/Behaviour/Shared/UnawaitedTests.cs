// Writes that an application does not await while its peer does not read: they follow one another as they were made, with
// what they were given at the time. Writes that wait and are given up: PatienceTests.cs.

using Millrace.Exchanges;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class UnawaitedTests(Way way) : SharedTests(way)
{
    private const int File = 77;
    private const int Size = 1_000_000;

    private const int Mebibyte = 1024 * 1024;
    private const int Besides = 256;        // what a write that waits takes besides its bytes
    private const int Room = WriteOrder.BehindMax / Mebibyte;

    private static byte[] Large => Plan.Bytes("large", 0, Size);

    /// <summary>The peer reads when everything has been written, or given up. The handler runs for its first request.</summary>
    private void Writes(Func<Call, SharedBench, Task> handler, Action<SharedBench, Caller> check)
    {
        SharedBench? current = null;
        Run(
            async call =>
            {
                if (call.Path == "/")
                {
                    await handler(call, current!);
                }
            },
            bench =>
            {
                current = bench;
                bench.Simulation.World.Files[File] = Plan.Bytes("file", 0, Size);
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/"));
                bench.Reads = true;
                bench.Settle();
                bench.Pass(TimeSpan.FromMilliseconds(400));
                check(bench, caller);
            });
    }

    // A driver that has taken the loop over may be sending that when the handler, which has kept its thread, comes back.
    [Fact]
    public void The_end_of_a_response_waits_for_whoever_is_sending_a_flush_that_is_not_awaited() => Writes(
        static (call, bench) =>
        {
            call.Write(Large);
            Task flushed = call.FlushAsync().AsTask();
            Assert.False(flushed.IsCompleted);
            Exchange exchange = call.Exchange;
            using var isHeld = new ManualResetEventSlim();
            using var isSent = new ManualResetEventSlim();
            Task sends = Task.Run(() =>
            {
                using (exchange.Sending.Hold())
                {
                    isHeld.Set();
                    isSent.Wait();
                }
            });
            isHeld.Wait();
            if (Record.Exception(() => Exchanges.ExchangeGuardsTests.MustWait(exchange.End, isSent.Set)) is not null)
            {
                bench.Simulation.Violated("The end does not wait.");    // whatever a handler throws behind its end is lost
            }

            isSent.Set();
            sends.Wait();
            return Task.CompletedTask;
        },
        static (bench, caller) =>
        {
            Assert.Equal(Large, Assert.Single(caller.Answers).Body);
            bench.StillServes(caller);
        });

    [Fact]
    public void Writes_that_are_not_awaited_one_by_one_arrive_in_their_order() => Writes(
        static async (call, bench) =>
        {
            Task[] writes = [call.WriteAsync(Large).AsTask(), .. Enumerable.Range(0, 20).Select(i => call.WriteAsync(new[] { (byte)('a' + i) }).AsTask())];
            Assert.All(writes, static write => Assert.False(write.IsCompleted));
            await Task.WhenAll(writes);
        },
        static (bench, caller) =>
        {
            Assert.Equal([.. Large, .. "abcdefghijklmnopqrst"u8], Assert.Single(caller.Answers).Body);
            bench.StillServes(caller);
        });

    [Fact]
    public void Flushes_and_kept_bytes_follow_a_write_that_is_not_awaited() => Writes(
        static async (call, bench) =>
        {
            Task first = call.WriteAsync(Large).AsTask();
            call.WriteText("kept, ");
            Task flushed = call.FlushAsync().AsTask();
            call.WriteText("more, ");
            Task second = call.Body.WriteAsync("end"u8.ToArray()).AsTask();
            Assert.False(flushed.IsCompleted);
            await Task.WhenAll(first, flushed, second);
        },
        static (bench, caller) =>
        {
            Assert.Equal([.. Large, .. "kept, more, end"u8], Assert.Single(caller.Answers).Body);
            bench.StillServes(caller);
        });

    [Fact]
    public void A_file_follows_a_write_that_is_not_awaited_and_a_write_the_file() => Writes(
        static async (call, bench) =>
        {
            Task[] all =
            [
                call.WriteAsync(Large).AsTask(),
                bench.Simulation.Handler.Current!.SendSimulatedFileAsync(File, Size),
                call.WriteAsync("end"u8.ToArray()).AsTask(),
            ];
            await Task.WhenAll(all);
        },
        static (_, caller) => Assert.Equal([.. Large, .. Plan.Bytes("file", 0, Size), .. "end"u8], Assert.Single(caller.Answers).Body));

    [Fact]
    public void Memory_of_a_write_that_waits_for_another_may_be_used_again_at_once() => Writes(
        static async (call, bench) =>
        {
            Task first = call.WriteAsync(Large).AsTask();
            byte[] buffer = new byte[3];
            foreach (byte letter in "abc"u8.ToArray())
            {
                Array.Fill(buffer, letter);
                _ = call.WriteAsync(buffer).AsTask();
            }

            Array.Clear(buffer);
            await first;
            await call.WriteAsync("end"u8.ToArray());
        },
        static (_, caller) => Assert.Equal([.. Large, .. "aaabbbcccend"u8], Assert.Single(caller.Answers).Body));

    [Fact]
    public void A_handler_that_ends_before_its_writes_leaves_no_response_that_looks_whole_RFC9112_8() => Writes(
        static (call, bench) =>
        {
            _ = call.WriteAsync(Large).AsTask();
            _ = call.WriteAsync("end"u8.ToArray()).AsTask();
            return Task.CompletedTask;
        },
        static (bench, caller) =>
        {
            Assert.Empty(caller.Answers);
            Assert.True(caller.IsAtEnd);
            bench.OthersAreServed();
        });

    [Fact]
    public void What_was_copied_behind_a_flush_is_in_the_response_of_a_handler_that_awaits_nothing() => Writes(
        static (call, bench) =>
        {
            call.Write(Large);
            Task flushed = call.FlushAsync().AsTask();
            Task written = call.WriteAsync("written, "u8.ToArray()).AsTask();
            Task again = call.FlushAsync().AsTask();
            call.WriteText("kept");
            Assert.All([flushed, written, again], static task => Assert.False(task.IsCompleted));
            return Task.CompletedTask;
        },
        static (bench, caller) =>
        {
            Assert.Equal([.. Large, .. "written, kept"u8], Assert.Single(caller.Answers).Body);
            bench.StillServes(caller);
        });

    [Fact]
    public void What_was_copied_behind_a_write_is_in_the_response_of_a_handler_that_awaits_the_write_alone() => Writes(
        static async (call, bench) =>
        {
            Task first = call.WriteAsync(Large).AsTask();
            _ = call.WriteAsync("written, "u8.ToArray()).AsTask();
            _ = call.FlushAsync().AsTask();
            call.Write(Large);
            call.WriteText("kept");
            await first;
        },
        static (bench, caller) =>
        {
            Assert.Equal([.. Large, .. "written, "u8, .. Large, .. "kept"u8], Assert.Single(caller.Answers).Body);
            bench.StillServes(caller);
        });

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Bytes_beyond_the_Content_Length_behind_a_write_leave_no_response_that_looks_whole_RFC9112_6_3(bool awaits)
    {
        Exception? refused = null;
        Writes(
            async (call, bench) =>
            {
                call.Length = Size + 3;
                Task first = call.WriteAsync(Large).AsTask();
                call.WriteText("a");
                call.WriteText("four");
                Task last = call.WriteAsync("more"u8.ToArray()).AsTask();
                await first;
                refused = awaits ? await Record.ExceptionAsync(() => last) : new InvalidOperationException();
            },
            (bench, caller) =>
            {
                Assert.Empty(caller.Answers);
                Assert.True(caller.IsAtEnd);
                Assert.IsType<InvalidOperationException>(refused);
                bench.OthersAreServed();
            });
    }

    // As of a handler that throws behind all that it has announced: nothing of the response is missing, and its connection goes on.
    [Fact]
    public void Bytes_beyond_the_Content_Length_behind_a_flush_are_never_sent_and_take_nothing_along_RFC9112_6_3() => Writes(
        static (call, bench) =>
        {
            call.Length = Size + 4;
            call.Write(Large);
            Task flushed = call.FlushAsync().AsTask();
            call.WriteText("four");
            call.WriteText("more");
            Assert.False(flushed.IsCompleted);
            return Task.CompletedTask;
        },
        static (bench, caller) =>
        {
            Assert.Equal([.. Large, .. "four"u8], Assert.Single(caller.Answers).Body);
            bench.StillServes(caller);
        });

    [Fact]
    public void Bytes_that_are_missing_behind_a_flush_leave_no_response_that_looks_whole_RFC9112_6_3() => Writes(
        static (call, bench) =>
        {
            call.Length = Size + 4;
            call.Write(Large);
            _ = call.FlushAsync().AsTask();
            call.WriteText("too many");
            return Task.CompletedTask;
        },
        static (bench, caller) =>
        {
            Assert.Empty(caller.Answers);
            Assert.True(caller.IsAtEnd);
            bench.OthersAreServed();
        });

    // Nobody waits for what is kept: the end of the response tells of it.
    [Fact]
    public void A_failure_of_bytes_that_were_kept_behind_a_write_is_not_forgotten()
    {
        bool isWhole = false;
        bool hasFailed = false;
        Writes(
            async (call, bench) =>
            {
                call.Length = Size + 1;
                Task first = call.WriteAsync(Large).AsTask();
                call.WriteText("a");
                call.WriteText("more");
                Task last = call.FlushAsync().AsTask();
                await first;
                await last;
                (isWhole, hasFailed) = (call.Exchange.Answer.IsWholeToPeer, call.Exchange.HasFailed);
            },
            (bench, caller) =>
            {
                Assert.Equal((true, true), (isWhole, hasFailed));
                bench.OthersAreServed();
            });
    }

    [Fact]
    public void Sixteen_MiB_wait_for_a_peer_that_does_not_read_and_arrive() => Writes(
        static async (call, bench) =>
        {
            byte[] part = Plan.Bytes("part", 0, Mebibyte - Besides);
            Task[] writes = [call.WriteAsync(Large).AsTask(), .. Enumerable.Range(0, Room).Select(_ => call.WriteAsync(part).AsTask())];
            Assert.All(writes, static write => Assert.False(write.IsCompleted));
            await Task.WhenAll(writes);
        },
        static (bench, caller) =>
        {
            byte[] part = Plan.Bytes("part", 0, Mebibyte - Besides);
            byte[] body = Assert.Single(caller.Answers).Body;
            Assert.Equal(Size + (Room * part.Length), body.Length);
            Assert.True(Enumerable.Range(0, Room).All(i => body.AsSpan(Size + (i * part.Length), part.Length).SequenceEqual(part)));
            bench.StillServes(caller);
        });

    // Only what waits counts, and not what has waited.
    [Fact]
    public void Ten_MiB_may_wait_again_once_the_peer_has_taken_those_before() => Writes(
        static async (call, bench) =>
        {
            byte[] part = Plan.Bytes("part", 0, Mebibyte);
            for (int round = 0; round < 3; round++)
            {
                Task[] writes = [call.WriteAsync(Large).AsTask(), .. Enumerable.Range(0, 10).Select(_ => call.WriteAsync(part).AsTask())];
                Assert.False(writes[^1].IsCompleted);
                await Task.WhenAll(writes);
            }
        },
        static (bench, caller) =>
        {
            Assert.Equal(3 * (Size + (10 * Mebibyte)), Assert.Single(caller.Answers).Body.Length);
            bench.StillServes(caller);
        });

    [Theory]
    [InlineData("writes")]
    [InlineData("kept bytes")]
    [InlineData("flushes")]
    public void What_comes_while_sixteen_MiB_wait_breaks_the_connection_off(string what)
    {
        Task? last = null;
        CancellationToken aborted = default;
        Writes(
            async (call, bench) =>
            {
                aborted = call.Aborted;
                byte[] part = Plan.Bytes("part", 0, Mebibyte - Besides);
                Task first = call.WriteAsync(Large).AsTask();
                for (int i = 0; i < (what == "flushes" ? WriteOrder.BehindMax / Besides : Room); i++)
                {
                    if (what == "kept bytes")
                    {
                        call.Write(part);
                    }
                    else
                    {
                        _ = what == "flushes" ? call.FlushAsync().AsTask() : call.WriteAsync(part).AsTask();
                    }
                }

                Assert.False(aborted.IsCancellationRequested);
                last = what == "flushes" ? call.FlushAsync().AsTask() : call.WriteAsync(part).AsTask();
                await first;
                _ = await Record.ExceptionAsync(() => last);
            },
            (bench, caller) =>
            {
                Assert.Contains("await each write", Assert.IsType<InvalidOperationException>(last!.Exception?.InnerException).Message, StringComparison.Ordinal);
                Assert.True(aborted.IsCancellationRequested);
                Assert.Empty(caller.Answers);
                Assert.True(caller.IsAtEnd);
                bench.OthersAreServed();
            });
    }

    [Fact]
    public void A_write_whose_memory_goes_away_while_it_waits_leaves_no_response_that_looks_whole_RFC9112_8()
    {
        Exception? failure = null;
        var memory = new GoingMemory(Large);
        Writes(
            async (call, bench) =>
            {
                Task first = call.WriteAsync(memory.Memory).AsTask();
                _ = call.WriteAsync("end"u8.ToArray()).AsTask();
                memory.IsGone = true;
                failure = await Record.ExceptionAsync(() => first);
            },
            (bench, caller) =>
            {
                Assert.IsType<ObjectDisposedException>(failure);
                Assert.Empty(caller.Answers);
                Assert.True(caller.IsAtEnd);
                bench.OthersAreServed();
            });
    }

    // The write goes on in the moment between the end of its handler and the end of its response.
    [Fact]
    public void A_write_that_finds_its_handler_just_ending_leaves_no_response_that_looks_whole_RFC9112_8()
    {
        var ends = new TaskCompletionSource();
        Exchange? exchange = null;
        Task? first = null;
        Run(
            async call =>
            {
                if (call.Path == "/")
                {
                    exchange = call.Exchange;
                    first = call.WriteAsync(Large).AsTask();
                    await ends.Task;
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/"));
                exchange!.Gate.Close();
                bench.Reads = true;
                bench.Settle();
                Assert.IsType<InvalidOperationException>(first!.Exception?.InnerException);
                ends.SetResult();
                bench.Settle();
                bench.Pass(TimeSpan.FromMilliseconds(400));
                Assert.Empty(caller.Answers);
                Assert.True(caller.IsAtEnd);
                bench.OthersAreServed();
            });
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Writes_that_wait_for_another_end_with_their_request(bool byAbort)
    {
        Call? current = null;
        int ended = 0;
        Run(
            async call =>
            {
                if (call.Path == "/")
                {
                    current = call;
                    Task[] writes = [call.WriteAsync(Large).AsTask(), .. Enumerable.Range(0, 5).Select(_ => call.WriteAsync(Large).AsTask()), call.FlushAsync().AsTask()];
                    foreach (Task write in writes)
                    {
                        _ = await Record.ExceptionAsync(() => write);
                        ended++;
                    }
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Reads = false;
                bench.Send(caller, caller.Request("/"));
                bench.Pass(TimeSpan.FromSeconds(1));
                Assert.Equal(0, ended);
                if (byAbort)
                {
                    current!.Abort();
                }
                else
                {
                    caller.Socket.ClientClose();
                }

                bench.Settle();
                Assert.Equal(7, ended);
                bench.Reads = true;
                bench.OthersAreServed();
            });
    }
}

public sealed class FastCgiUnawaitedTests() : UnawaitedTests(Way.FastCgiToPlain);

public sealed class HttpUnawaitedTests() : UnawaitedTests(Way.HttpToPlain);

public sealed class FastCgiHostedUnawaitedTests() : UnawaitedTests(Way.FastCgiToHosted);

public sealed class HttpHostedUnawaitedTests() : UnawaitedTests(Way.HttpToHosted);
