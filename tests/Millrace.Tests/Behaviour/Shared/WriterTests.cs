// The response of an ASP.NET Core application as a PipeWriter: what it gives, how much of it counts, and that all of it arrives.

using System.IO.Pipelines;
using System.Runtime.InteropServices;
using Microsoft.AspNetCore.Http;
using Millrace.Tests.Simulation;
using HttpResponse = Microsoft.AspNetCore.Http.HttpResponse;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class WriterTests(Way way) : SharedTests(way)
{
    private static HttpResponse ResponseOf(Call call) => ((HostedCall)call).Context.Response;

    // What is sent has its memory from what was sent before.
    [Theory]
    [InlineData(16, true, 1)]
    [InlineData(16, true, 3)]
    [InlineData(3_000, false, 1)]
    [InlineData(3_000, true, 1)]
    [InlineData(3_000, true, 3)]
    [InlineData(20_000, false, 3)]
    [InlineData(20_000, true, 3)]
    [InlineData(100_000, false, 1)]
    [InlineData(100_000, true, 3)]
    public void A_span_holds_nothing_of_another_response_read_or_advanced_over(int size, bool isStarted, int parts) => Run(
        async call =>
        {
            HttpResponse response = ResponseOf(call);
            if (call.Path == "/secret")
            {
                await response.StartAsync();
                response.BodyWriter.GetSpan(150_000)[..150_000].Fill((byte)'s');
                response.BodyWriter.Advance(150_000);
                return;
            }

            if (isStarted)
            {
                await response.StartAsync();
            }

            for (int i = 0; i < parts; i++)
            {
                Assert.True(response.BodyWriter.GetSpan(i == 0 ? 0 : size).IndexOfAnyExcept((byte)0) < 0);
                Assert.True(response.BodyWriter.GetSpan(size).IndexOfAnyExcept((byte)0) < 0);
                response.BodyWriter.Advance(size);
            }
        },
        bench =>
        {
            for (int i = 0; i < 5; i++)
            {
                Assert.Equal(150_000, bench.Get("/secret").Body.Length);
                Assert.Equal(new byte[size * parts], bench.Get("/look").Body);
            }
        });

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Nothing_is_unflushed_behind_a_write_or_a_flush(bool writes) => Run(
        async call =>
        {
            PipeWriter writer = ResponseOf(call).BodyWriter;
            for (int i = 0; i < 2; i++)
            {
                writer.GetSpan(20_000)[..20_000].Fill((byte)'a');
                writer.Advance(20_000);
                Assert.Equal(20_000, writer.UnflushedBytes);
                _ = writes ? await writer.WriteAsync("b"u8.ToArray()) : await writer.FlushAsync();
                Assert.Equal(0, writer.UnflushedBytes);
            }
        },
        bench => Assert.Equal(writes ? 40_002 : 40_000, bench.Get("/").Body.Length));

    // Who writes without end looks at nothing else. A peer that has only finished sending still takes it; of one that has closed this is not known before bytes have gone to it.
    [Theory]
    [InlineData("reset", false)]
    [InlineData("reset", true)]
    [InlineData("close", true)]
    [InlineData("finish", false)]
    [InlineData("finish", true)]
    public void A_flush_says_when_nobody_takes_what_is_written(string end, bool writes)
    {
        var told = new List<bool>();
        Run(
            async call =>
            {
                PipeWriter writer = ResponseOf(call).BodyWriter;
                for (int i = 0; i < 3; i++)
                {
                    ValueTask<FlushResult> flushing = writes ? writer.WriteAsync("some"u8.ToArray()) : writer.FlushAsync();
                    told.Add((await flushing).IsCompleted);
                    await Bench.Cancelled(call.Aborted);
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/"));
                Action leave = end switch { "reset" => caller.Socket.ClientReset, "close" => caller.Socket.ClientClose, _ => caller.Socket.ClientFinish };
                leave();
                bench.Settle();
                Assert.Equal((3, false, end != "finish"), (told.Count, told[0], told[2]));
                Assert.Equal(end == "finish" ? [writes ? "somesomesome" : ""] : [], caller.Answers.Select(static answer => answer.BodyText));
                Assert.Equal(0, bench.Connections);
            });
    }

    // Written where it will be sent from: one record or chunk of the usual kind does not hold it.
    [Theory]
    [InlineData(65_535)]
    [InlineData(65_536)]
    [InlineData(70_000)]
    [InlineData(200_000)]
    public void A_span_larger_than_a_record_or_a_short_chunk_arrives_whole_FastCGI_3_3_RFC9112_7_1(int size) => Run(
        async call =>
        {
            await ResponseOf(call).StartAsync();
            PipeWriter writer = ResponseOf(call).BodyWriter;
            Plan.Bytes("span", 0, size).CopyTo(writer.GetSpan(size));
            writer.Advance(size);
            call.WriteText("end");
        },
        bench => Assert.Equal([.. Plan.Bytes("span", 0, size), .. "end"u8], bench.Get("/").Body));

    [Fact]
    public void A_span_that_is_not_written_into_is_no_end_of_the_body_RFC9112_7_1() => Run(
        static async call =>
        {
            HttpResponse response = ResponseOf(call);
            await response.StartAsync();
            _ = response.BodyWriter.GetSpan(16).Length;
            _ = await response.BodyWriter.FlushAsync();
            call.WriteText("whole");
            _ = response.BodyWriter.GetSpan(16).Length;
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            Assert.Equal("whole", bench.Get(caller, "/").BodyText);
            bench.StillServes(caller);
        });

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_span_is_advanced_over_once(bool started)
    {
        int given = 0;
        Run(
            async call =>
            {
                HttpResponse response = ResponseOf(call);
                if (started)
                {
                    await response.StartAsync();
                }

                Span<byte> span = response.BodyWriter.GetSpan(16);
                span.Fill((byte)'x');
                given = span.Length;
                response.BodyWriter.Advance(given - 10);
                Assert.Throws<ArgumentOutOfRangeException>(() => response.BodyWriter.Advance(11));
                response.BodyWriter.Advance(10);
                Assert.Throws<ArgumentOutOfRangeException>(() => response.BodyWriter.Advance(1));
            },
            bench =>
            {
                string body = bench.Get("/").BodyText;
                Assert.Equal(new string('x', given), body);
            });
    }

    [Fact]
    public void Memory_may_be_advanced_over_in_parts() => Run(
        static async call =>
        {
            PipeWriter writer = ResponseOf(call).BodyWriter;
            for (int i = 0; i < 3; i++)
            {
                "abcd"u8.CopyTo(writer.GetMemory(4).Span);
                writer.Advance(1);
                writer.Advance(2);
                writer.Advance(0);
                writer.Advance(1);
                _ = await writer.FlushAsync();
            }
        },
        static bench => Assert.Equal("abcdabcdabcd", bench.Get("/").BodyText));

    // It may write there for ever.
    [Fact]
    public void Memory_that_a_request_was_given_is_given_to_no_other()
    {
        var given = new List<byte[]>();
        Run(
            AtOnce(call =>
            {
                Assert.True(MemoryMarshal.TryGetArray<byte>(ResponseOf(call).BodyWriter.GetMemory(16), out ArraySegment<byte> array));
                given.Add(array.Array!);
            }),
            bench =>
            {
                Caller caller = bench.Connect();
                for (int i = 0; i < 5; i++)
                {
                    _ = bench.Get(caller, "/");
                }

                Assert.Equal(5, given.Distinct(ReferenceEqualityComparer.Instance).Count());
            });
    }

    [Fact]
    public void Nothing_is_advanced_over_once_the_response_is_complete()
    {
        var refused = new List<Exception?>();
        Run(
            async call =>
            {
                HttpResponse response = ResponseOf(call);
                call.WriteText("whole");
                await response.CompleteAsync();
                refused.Add(Record.Exception(() => response.BodyWriter.Advance(0)));
            },
            bench =>
            {
                Caller caller = bench.Connect();
                Assert.Equal("whole", bench.Get(caller, "/").BodyText);
                Assert.IsType<InvalidOperationException>(Assert.Single(refused));
                bench.StillServes(caller);
            });
    }
}

public sealed class FastCgiWriterTests() : WriterTests(Way.FastCgiToHosted);

public sealed class HttpWriterTests() : WriterTests(Way.HttpToHosted);
