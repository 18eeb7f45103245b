// Request bodies over either protocol: whole, in pieces, too large, too slow, unwanted. FastCGI 1.0 §5.3, RFC 9112 §6.

using System.Globalization;
using System.Text;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class BodyTests(Way way) : SharedTests(way)
{
    private static byte[] Numbered(int length) => Plan.Bytes("sweep", 0, length);

    private static string Line(byte[] body) => string.Create(CultureInfo.InvariantCulture, $"\nbody {body.Length} {Call.Sum(body)}\n");

    [Fact]
    public void Hostile_55_Bodies_of_every_critical_size_arrive_whole() => Run(static bench =>
    {
        Caller caller = bench.Connect();
        foreach (int size in (int[])[0, 1, 8_192, 16_384, 32_768, 46 * 1024, 65_535, 65_536, 98_304, 131_072, 1_048_576])
        {
            for (int length = Math.Max(0, size - 1); length <= size + 1; length++)
            {
                byte[] body = Numbered(length);
                Assert.Contains(Line(body), bench.Ask(caller, caller.Request("/", "POST", body, announced: length % 2 == 0)).BodyText, StringComparison.Ordinal);
            }
        }
    });

    [Fact]
    [System.Diagnostics.CodeAnalysis.SuppressMessage("Performance", "CA1835", Justification = "Every form is tried.")]
    [System.Diagnostics.CodeAnalysis.SuppressMessage("Reliability", "CA2022", Justification = "Nothing is read.")]
    public void Reading_a_response_and_writing_a_request_is_refused_in_every_form() => Run(
        static async call =>
        {
            byte[] bytes = new byte[3];
            await Assert.ThrowsAsync<NotSupportedException>(() => call.RequestBody.WriteAsync(bytes, 0, 3));
            await Assert.ThrowsAsync<NotSupportedException>(async () => await call.RequestBody.WriteAsync(bytes.AsMemory()));
            Assert.Throws<NotSupportedException>(() => call.RequestBody.Write(bytes, 0, 3));
            Assert.Throws<NotSupportedException>(() => call.RequestBody.WriteByte(1));
            Assert.Throws<NotSupportedException>(() => call.RequestBody.BeginWrite(bytes, 0, 3, null, null));
            await Assert.ThrowsAsync<NotSupportedException>(() => call.Body.ReadAsync(bytes, 0, 3));
            await Assert.ThrowsAsync<NotSupportedException>(async () => await call.Body.ReadAsync(bytes.AsMemory()));
            Assert.Throws<NotSupportedException>(() => call.Body.Read(bytes, 0, 3));
            Assert.Throws<NotSupportedException>(() => call.Body.ReadByte());
            Assert.Throws<NotSupportedException>(() => call.Body.BeginRead(bytes, 0, 3, null, null));
            await Assert.ThrowsAsync<NotSupportedException>(() => call.Body.CopyToAsync(Stream.Null));
            await call.Body.WriteAsync("whole"u8.ToArray(), 0, 5);
        },
        static bench => Assert.Equal("whole", bench.Get("/").BodyText));

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_body_may_be_cut_anywhere(bool announced) => Run(bench => bench.HoweverCut(
        caller => caller.Request("/cut", "POST", Encoding.ASCII.GetBytes("a body of some length"), announced),
        static caller => Assert.Contains(Line(Encoding.ASCII.GetBytes("a body of some length")), Assert.Single(caller.Answers).BodyText, StringComparison.Ordinal)));

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_handler_sees_each_part_of_a_body_as_it_comes(bool announced)
    {
        var seen = new List<int>();
        Run(
            async call =>
            {
                byte[] buffer = new byte[1_000];
                for (int count; (count = await call.ReadAsync(buffer)) > 0;)
                {
                    seen.Add(count);
                    call.WriteText(count.ToString(CultureInfo.InvariantCulture) + " ");
                    await call.FlushAsync();
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Head("/", "POST", announced ? 600 : null));
                for (int i = 1; i <= 3; i++)
                {
                    bench.Send(caller, caller.Part(new byte[i * 100]));
                    Assert.Equal(i, seen.Count);
                    Assert.Equal(string.Concat(Enumerable.Range(1, i).Select(static i => $"{i}00 ")), (caller.Begun ?? caller.Answers[0]).BodyText);
                }

                bench.Send(caller, caller.EndOfBody());
                Assert.Equal("100 200 300 ", Assert.Single(caller.Answers).BodyText);
            });
    }

    [Fact]
    public void A_handler_may_answer_while_the_body_still_comes() => Run(
        static async call =>
        {
            byte[] buffer = new byte[50_000];
            for (int count; (count = await call.ReadAsync(buffer)) > 0;)
            {
                await call.WriteAsync(buffer.AsMemory(0, count));
            }
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            byte[] body = Numbered(700_000);
            Assert.Equal(body, bench.Ask(caller, caller.Request("/echo", "POST", body)).Body);
            Assert.Equal(body[..10], bench.Ask(caller, caller.Request("/echo", "POST", body[..10], announced: false)).Body);
        });

    [Fact]
    public void A_body_may_be_read_again_after_its_end() => Run(
        static async call =>
        {
            byte[] buffer = new byte[100];
            int total = 0;
            for (int i = 0; i < 4; i++)
            {
                total += await call.ReadAsync(buffer);
            }

            call.WriteText($"{total}");
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Head("/", "POST", length: null));
            Assert.Equal("0", bench.Ask(caller, caller.EndOfBody()).BodyText);
            Assert.Equal("3", bench.Ask(caller, caller.Request("/", "POST", [1, 2, 3])).BodyText);
            Assert.Equal("0", bench.Get(caller, "/").BodyText);
        });

    // ---- limits ----

    [Fact]
    public void Hostile_51_A_huge_length_makes_no_room_before_bytes_come() => Run(
        static bench =>
        {
            Caller caller = bench.Connect();
            byte[] head = caller.Head("/", "POST", long.MaxValue);
            long before = GC.GetAllocatedBytesForCurrentThread();
            bench.Send(caller, head);
            Assert.True(GC.GetAllocatedBytesForCurrentThread() - before < 1_000_000);
            caller.Socket.ClientReset();
            bench.Settle();
            Assert.Equal(0, bench.Connections);
        },
        static options => options.MaxRequestBodySize = null);

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Hostile_53_A_body_over_the_limit_is_413_counted_by_its_bytes(bool announced) => Run(
        bench =>
        {
            Caller caller = bench.Connect();
            Assert.Equal(200, bench.Ask(caller, caller.Request("/", "POST", new byte[10_000], announced)).Status);
            Assert.Equal(413, bench.Ask(caller, caller.Request("/", "POST", new byte[10_001], announced)).Status);
            Assert.Equal(1, bench.Refused("body-long-or-over-limit"));
            Assert.True(caller.IsAtEnd || bench.Get(caller, "/").Status == 200);
            Assert.False(caller.Socket.AnswersLost);
            bench.OthersAreServed();
        },
        static options => options.MaxRequestBodySize = 10_000);

    [Theory]
    [InlineData(true, 100)]
    [InlineData(false, 100)]
    [InlineData(true, 3_000_000)]
    [InlineData(false, 3_000_000)]
    public void Hostile_54_A_body_nobody_reads_is_passed_over_and_no_reset_overtakes_the_answer(bool keep, int size) => Run(
        AtOnce(static call => call.WriteText("early " + call.Path)),
        bench =>
        {
            Caller caller = bench.Connect();
            byte[] request = caller.Request("/unread", "POST", new byte[size], keep: keep);
            bench.Send(caller, request[..^9]);
            bench.Send(caller, request[^9..]);
            Assert.Equal("early /unread", Assert.Single(caller.Answers).BodyText);
            Assert.False(caller.Socket.AnswersLost);
            if (keep)
            {
                Assert.Equal("early /next", bench.Get(caller, "/next").BodyText);
                return;
            }

            caller.Socket.ClientClose();
            bench.Settle();
            Assert.Equal(0, bench.Connections);
        });

    [Fact]
    public void Hostile_54_An_unread_body_without_end_ends_the_connection() => Run(
        AtOnce(static _ => { }),
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Head("/", "POST", length: null));
            for (int i = 0; i < 4; i++)
            {
                bench.Send(caller, caller.Part(new byte[50_000]));
            }

            Assert.True(caller.IsAtEnd);
            Assert.True(bench.Refused("discard-limit") > 0);
            bench.Settle();
        },
        static options => options.MaxDiscardBytes = 100_000);

    [Fact]
    public void A_handler_that_does_not_read_stops_the_peer_RequestBodyBuffer()
    {
        var reads = new TaskCompletionSource();
        Run(
            async call =>
            {
                await reads.Task;
                await Call.Echo(call);
            },
            bench =>
            {
                bench.Simulation.World.ReceiveCapacityMax = 16 * 1024;
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/", "POST", new byte[2_000_000]));
                Assert.InRange(caller.Socket.TakenByServer, 10_000, 200_000);
                Assert.True(caller.Socket.InFlight > 1_000_000);
                bench.Pass(TimeSpan.FromSeconds(90));
                reads.SetResult();
                bench.Settle();
                Assert.Contains("\nbody 2000000 ", Assert.Single(caller.Answers).BodyText, StringComparison.Ordinal);
            },
            static options => options.RequestBodyBuffer = 64 * 1024);
    }

    // ---- time, with the clock in the test's hands ----

    [Theory]
    [InlineData(513)]
    [InlineData(1_025)]
    [InlineData(16_385)]
    public void What_is_kept_of_a_body_takes_little_more_than_its_bytes_whatever_the_size_of_its_pieces_RequestBodyBuffer(int size)
    {
        var gate = new TaskCompletionSource();
        long length = 0;
        long room = 0;
        Run(
            async call =>
            {
                await gate.Task;
                System.IO.Pipelines.ReadResult result = await call.Exchange.Body.Reader.ReadAsync();
                length = result.Buffer.Length;
                foreach (ReadOnlyMemory<byte> part in result.Buffer)
                {
                    Assert.True(System.Runtime.InteropServices.MemoryMarshal.TryGetArray(part, out ArraySegment<byte> bytes));
                    room += bytes.Array!.Length;
                }

                call.Exchange.Body.Reader.AdvanceTo(result.Buffer.End);
                await Call.Echo(call);
            },
            bench =>
            {
                Caller caller = bench.Connect();
                byte[] body = Numbered(400_000);
                bench.Send(caller, [.. caller.Head("/", "POST", null), .. body.Chunk(size).SelectMany(caller.Part), .. caller.EndOfBody()]);
                gate.SetResult();
                bench.Settle();
                Assert.InRange(length, 200_000, 300_000);
                Assert.InRange(room, length, length + 40_000);
                Assert.Contains($"\nbody {400_000 - length} {Call.Sum(body.AsSpan((int)length))}\n", Assert.Single(caller.Answers).BodyText, StringComparison.Ordinal);
            },
            static options => options.RequestBodyBuffer = 200_000);
    }

    [Fact]
    public void Hostile_60_A_body_that_stops_is_408_BodyTimeout() => Run(
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Head("/", "POST", 100_000));
            bench.Send(caller, caller.Part(new byte[5_000]));
            bench.Pass(TimeSpan.FromSeconds(9));
            Assert.Empty(caller.Answers);
            bench.Pass(TimeSpan.FromSeconds(4));
            Assert.Equal(408, Assert.Single(caller.Answers).Status);
            Assert.Equal(1, bench.Refused("body-too-slow"));
            bench.OthersAreServed();
        },
        static options =>
        {
            options.BodyTimeout = TimeSpan.FromSeconds(10);
            options.MinBodyBytesPerSecond = 0;
        });

    [Fact]
    public void Hostile_60_A_body_that_trickles_is_408_MinBodyBytesPerSecond() => Run(
        static bench =>
        {
            Caller slow = bench.Connect();
            Caller fast = bench.Connect();
            bench.Send(slow, slow.Head("/", "POST", 3_000));
            bench.Send(fast, fast.Head("/", "POST", 3_000));
            for (int i = 0; i < 20; i++)
            {
                bench.Send(slow, slow.Part(new byte[50]));
                bench.Send(fast, fast.Part(new byte[150]));
                bench.Pass(TimeSpan.FromSeconds(1));
            }

            Assert.Equal(408, Assert.Single(slow.Answers).Status);
            bench.Send(fast, fast.EndOfBody());
            Assert.Contains("\nbody 3000 ", Assert.Single(fast.Answers).BodyText, StringComparison.Ordinal);
        },
        static options => options.MinBodyBytesPerSecond = 100);

    // While the server keeps what it may keep and the handler reads none of it, the rest waits with the peer, which cannot send it.
    [Theory]
    [InlineData("with the head")]
    [InlineData("behind the head")]
    [InlineData("in pieces")]
    [InlineData("behind one that nobody read")]
    public void Time_in_which_the_handler_does_not_read_is_not_its_peer_s_MinBodyBytesPerSecond_and_RequestBodyBuffer(string how)
    {
        var ends = new TaskCompletionSource();
        var reads = new TaskCompletionSource();
        long read = 0;
        Run(
            async call =>
            {
                if (call.Path == "/unread")
                {
                    await ends.Task;
                    return;
                }

                await reads.Task;
                byte[] buffer = new byte[1_000];
                for (int count; (count = await call.RequestBody.ReadAsync(buffer)) > 0;)
                {
                    read += count;
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bool isWithHead = how is "with the head" or "behind one that nobody read";
                byte[] before = [];
                if (how == "behind one that nobody read")
                {
                    bench.Send(caller, [.. caller.Head("/unread", "POST", 10_000), .. caller.Part(new byte[9_000])]);
                    before = [.. caller.Part(new byte[1_000]), .. caller.EndOfBody()];
                }

                byte[] head = caller.Head("/", "POST", 30_000);
                byte[] first = caller.Part(new byte[20_000]);
                bench.Send(caller, isWithHead ? [.. before, .. head, .. first] : head);
                foreach (byte[] piece in isWithHead ? [] : how == "in pieces" ? first.Chunk(3_000).ToArray() : [first])
                {
                    bench.Send(caller, piece);
                }

                ends.SetResult();
                bench.Settle();

                bench.Pass(TimeSpan.FromSeconds(120));
                reads.SetResult();
                bench.Settle();
                Assert.Equal(20_000, read);
                for (int seconds = 0; seconds < 8; seconds++)
                {
                    bench.Pass(TimeSpan.FromSeconds(1));
                    bench.Send(caller, caller.Part(new byte[1_250]));
                }

                bench.Send(caller, caller.EndOfBody());
                Assert.All(caller.Answers, static answer => Assert.Equal(200, answer.Status));
                Assert.Equal((before.Length > 0 ? 2 : 1, 30_000), (caller.Answers.Count, read));
                Assert.Equal(0, bench.RefusedInAll);
            },
            static options =>
            {
                options.RequestBodyBuffer = 4_096;
                options.MinBodyBytesPerSecond = 1_000;
            });
    }

    // Of Kestrel's clients nothing is asked either before their bytes are waited for.
    [Theory]
    [InlineData(20, 5, 200)]        // seconds before the handler reads, and behind that before something comes
    [InlineData(200, 5, 200)]
    [InlineData(20, 9, 408)]
    [InlineData(0, 9, 408)]
    public void Time_in_which_the_handler_waits_for_something_else_is_not_its_peer_s_MinBodyBytesPerSecond_and_BodyTimeout(int secondsBefore, int secondsBehind, int status)
    {
        var reads = new TaskCompletionSource();
        Run(
            async call =>
            {
                await reads.Task;
                _ = await call.RequestBody.ReadAsync(new byte[1_000]);
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Head("/", "POST", 10));
                bench.Pass(TimeSpan.FromSeconds(secondsBefore));
                reads.SetResult();
                bench.Settle();
                bench.Pass(TimeSpan.FromSeconds(secondsBehind));
                if (status == 200)
                {
                    bench.Send(caller, [.. caller.Part(new byte[10]), .. caller.EndOfBody()]);
                }

                Assert.Equal(status, Assert.Single(caller.Answers).Status);
            },
            options =>
            {
                options.MinBodyBytesPerSecond = IsHttp ? 240 : 0;
                options.BodyTimeout = TimeSpan.FromSeconds(IsHttp ? 60 : 7);
            });
    }

    [Fact]
    public void A_body_that_trickles_is_left_alone_where_the_rule_is_off_MinBodyBytesPerSecond() => Run(
        static bench =>
        {
            Caller slow = bench.Connect();
            bench.Send(slow, slow.Head("/", "POST", 60));
            for (int i = 0; i < 60; i++)
            {
                bench.Send(slow, slow.Part([1]));
                bench.Pass(TimeSpan.FromSeconds(1));
            }

            bench.Send(slow, slow.EndOfBody());
            Assert.Contains("\nbody 60 ", Assert.Single(slow.Answers).BodyText, StringComparison.Ordinal);
        },
        static options => options.MinBodyBytesPerSecond = 0);

    // Its peer is there, and may send on: nobody would tell the handler.
    [Fact]
    public void A_handler_that_waits_for_its_body_is_told_of_a_fault_of_the_server()
    {
        Exception? seen = null;
        Millrace.Loops.Connection? its = null;
        Run(
            async call =>
            {
                its = (Millrace.Loops.Connection)call.Exchange.Connection;
                byte[] buffer = new byte[100];
                seen = await Record.ExceptionAsync(async () =>
                {
                    while (await call.ReadAsync(buffer) > 0)
                    {
                    }
                });
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, [.. caller.Head("/", "POST", 100), .. caller.Part(new byte[10])]);
                Assert.Null(seen);
                bench.Simulation.Post(_ => its!.EndByFault());
                bench.Settle();
                Assert.Contains("The server failed", Assert.IsType<IOException>(seen).Message, StringComparison.Ordinal);
                Assert.Equal(0, bench.Connections);
            });
    }
}

public sealed class FastCgiBodyTests() : BodyTests(Way.FastCgiToPlain);

public sealed class HttpBodyTests() : BodyTests(Way.HttpToPlain);

public sealed class FastCgiHostedBodyTests() : BodyTests(Way.FastCgiToHosted);

public sealed class HttpHostedBodyTests() : BodyTests(Way.HttpToHosted);
