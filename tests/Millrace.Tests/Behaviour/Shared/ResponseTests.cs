// Responses over either protocol, and those that handlers get wrong: what goes out must never be a silently wrong answer.
// RFC 9110, RFC 9112 §6, RFC 3875 §6.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class ResponseTests(Way way) : SharedTests(way)
{
    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(4_096)]
    [InlineData(65_535)]
    [InlineData(65_536)]
    [InlineData(1_000_000)]
    public void A_body_of_any_size_arrives_whole_with_its_length_when_it_was_all_there(int size) => Answers(
        call => call.Write(Plan.Bytes("out", 0, size)),
        (_, caller) =>
        {
            Answer answer = Assert.Single(caller.Answers);
            Assert.Equal((200, size.ToString(System.Globalization.CultureInfo.InvariantCulture)), (answer.Status, answer.Field("Content-Length")));
            Assert.Equal(Plan.Bytes("out", 0, size), answer.Body);
        });

    [Theory]
    [InlineData(1, 1)]
    [InlineData(3, 5_000)]
    [InlineData(40, 10_000)]
    [InlineData(2, 70_000)]
    [InlineData(1, 1_000_000)]
    public void A_streamed_body_arrives_whole(int parts, int size) => Run(
        async call =>
        {
            for (int i = 0; i < parts; i++)
            {
                await call.WriteAsync(Plan.Bytes("stream", i * size, size));
                if (i % 3 == 0)
                {
                    await call.FlushAsync();
                }
            }
        },
        bench => Assert.Equal(Plan.Bytes("stream", 0, parts * size), bench.Get("/").Body));

    [Fact]
    public void What_is_flushed_arrives_before_the_rest_is_written()
    {
        var gates = new Queue<TaskCompletionSource>();
        Run(
            async call =>
            {
                for (int i = 0; i < 3; i++)
                {
                    call.WriteText($"part {i} ");
                    await call.FlushAsync();
                    var gate = new TaskCompletionSource();
                    gates.Enqueue(gate);
                    await gate.Task;
                }
            },
            bench =>
            {
                Caller caller = bench.Connect();
                bench.Send(caller, caller.Request("/"));
                for (int i = 0; i < 3; i++)
                {
                    Assert.EndsWith($"part {i} ", caller.Begun!.BodyText, StringComparison.Ordinal);
                    gates.Dequeue().SetResult();
                    bench.Settle();
                }

                Assert.Equal("part 0 part 1 part 2 ", Assert.Single(caller.Answers).BodyText);
            });
    }

    [Fact]
    public void Fields_are_sent_as_they_were_set_and_repeated_ones_apart_RFC9110_5_3() => Answers(
        static call =>
        {
            call.Status = 201;
            call.AddHeader("Set-Cookie", "a=1");
            call.AddHeader("Set-Cookie", "b=2");
            call.AddHeader("X-Odd", "\"quoted\"\tand ~tilde");
            call.AddHeader("Location", "/new?x=%20");
        },
        static (_, caller) =>
        {
            Answer answer = Assert.Single(caller.Answers);
            Assert.Equal(201, answer.Status);
            Assert.Equal(["Set-Cookie: a=1", "Set-Cookie: b=2"], answer.Head.Split("\r\n").Where(static line => line.StartsWith("Set-Cookie", StringComparison.Ordinal)));
            Assert.Equal(("\"quoted\"\tand ~tilde", "/new?x=%20"), (answer.Field("X-Odd"), answer.Field("Location")));
        });

    [Theory]
    [InlineData(200)]
    [InlineData(299)]
    [InlineData(404)]
    [InlineData(503)]
    [InlineData(999)]
    public void Every_final_status_goes_out_as_it_is_RFC9110_15(int status) => Answers(
        call => call.Status = status,
        (_, caller) => Assert.Equal(status, Assert.Single(caller.Answers).Status));

    [Fact]
    public void Every_status_has_the_reason_phrase_that_ASP_NET_Core_gives_it() => Run(
        static call =>
        {
            call.Status = int.Parse(call.Target[1..], System.Globalization.CultureInfo.InvariantCulture);
            return default;
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            for (int status = 200; status <= 999; status++)
            {
                string line = bench.Get(caller, "/" + status).Head.Split("\r\n")[0];
                string phrase = Microsoft.AspNetCore.WebUtilities.ReasonPhrases.GetReasonPhrase(status);
                Assert.Equal($"{status} {phrase}".TrimEnd(), line[(line.IndexOf(' ', StringComparison.Ordinal) + 1)..].TrimEnd());
            }
        });

    [Fact]
    public void A_reset_of_the_content_says_that_it_is_empty_RFC9110_15_3_6() => Answers(
        static call => call.Status = 205,
        static (_, caller) => Assert.Equal((205, "0"), (Assert.Single(caller.Answers).Status, caller.Answers[0].Field("Content-Length"))));

    [Theory]
    [InlineData(100)]
    [InlineData(101)]
    [InlineData(103)]
    [InlineData(199)]
    public void An_interim_status_is_no_answer_and_goes_out_as_500_RFC9110_15_2(int status) => Answers(
        call => call.Status = status,
        static (_, caller) => Assert.Equal(500, Assert.Single(caller.Answers).Status));

    // ---- handlers that fail ----

    [Fact]
    public void Hostile_65_An_exception_before_the_first_byte_is_500_and_tells_nothing() => Answers(
        static call =>
        {
            call.AddHeader("X-Secret", "of the application");
            call.WriteText("never seen");
            throw new InvalidOperationException("a secret of the application");
        },
        static (bench, caller) =>
        {
            Answer answer = Assert.Single(caller.Answers);
            Assert.Equal((500, 0), (answer.Status, answer.Body.Length));
            Assert.DoesNotContain("secret", answer.Head, StringComparison.OrdinalIgnoreCase);
            Assert.Equal(500, bench.Get(caller, "/again").Status);
        });

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Hostile_65_An_exception_after_the_first_byte_ends_the_connection_and_not_the_answer(bool withLength) => Run(
        async call =>
        {
            call.Length = withLength ? 100 : null;
            call.WriteText("begun");
            await call.FlushAsync();
            throw new InvalidOperationException();
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Request("/"));
            bench.Pass(TimeSpan.FromMilliseconds(200));
            Assert.Empty(caller.Answers);
            Assert.True(caller.IsAtEnd);
        });

    [Fact]
    public void An_application_may_cut_its_own_answer_Abort() => Run(
        static async call =>
        {
            call.WriteText("begun");
            await call.FlushAsync();
            call.Abort();
            Assert.True(call.Aborted.IsCancellationRequested);
            await call.WriteAsync(new byte[100_000]);
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Request("/"));
            Assert.Empty(caller.Answers);
            Assert.True(caller.IsAtEnd);
        });

    [Theory]
    [InlineData("a\r\nSet-Cookie: evil=1")]
    [InlineData("a\nb")]
    [InlineData("a\rb")]
    [InlineData("a\0b")]
    [InlineData("caf\u00e9")]
    [InlineData("\u010d\u010a")]
    public void Hostile_66_Header_values_cannot_end_a_line_RFC9110_5_5(string value) => Answers(
        call => call.AddHeader("X-A", value),
        static (bench, caller) =>
        {
            Answer answer = Assert.Single(caller.Answers);
            Assert.Equal(500, answer.Status);
            Assert.DoesNotContain("evil", answer.Head, StringComparison.Ordinal);
        });

    [Theory]
    [InlineData("X A")]
    [InlineData("X:A")]
    [InlineData("")]
    [InlineData("X\r\nA")]
    public void Hostile_66_Header_names_are_tokens_RFC9110_5_1(string name) => Answers(
        call => call.AddHeader(name, "v"),
        static (bench, caller) => Assert.Equal(500, Assert.Single(caller.Answers).Status));

    [Fact]
    public void Hostile_66_Hop_by_hop_fields_are_the_servers_own_RFC9110_7_6_1() => Answers(
        static call =>
        {
            foreach (string name in (string[])["Connection", "Keep-Alive", "Transfer-Encoding", "Trailer", "Proxy-Connection"])
            {
                call.AddHeader(name, "evil");
            }

            call.WriteText("x");
        },
        static (bench, caller) =>
        {
            Answer answer = Assert.Single(caller.Answers);
            Assert.DoesNotContain("evil", answer.Head, StringComparison.Ordinal);
            Assert.Equal("x", answer.BodyText);
            bench.StillServes(caller);
        });

    // ---- Content-Length, RFC 9112 §6.3 ----

    [Fact]
    public void Hostile_67_More_bytes_than_Content_Length_are_an_error_RFC9112_6_3() => Answers(
        static call =>
        {
            call.Length = 3;
            call.WriteText("four");
        },
        static (_, caller) => Assert.Equal(500, Assert.Single(caller.Answers).Status));

    [Fact]
    public void Hostile_67_Fewer_bytes_than_Content_Length_are_an_error_RFC9112_6_3() => Answers(
        static call =>
        {
            call.Length = 5;
            call.WriteText("four");
        },
        static (_, caller) => Assert.Equal(500, Assert.Single(caller.Answers).Status));

    [Fact]
    public void Hostile_67_Fewer_bytes_than_a_Content_Length_that_is_out_end_the_connection_RFC9112_6_3() => Run(
        static async call =>
        {
            call.Length = 5;
            call.WriteText("four");
            await call.FlushAsync();
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Request("/"));
            bench.Pass(TimeSpan.FromMilliseconds(200));
            Assert.Empty(caller.Answers);
            Assert.True(caller.IsAtEnd);
        });

    [Fact]
    public void Hostile_67_More_bytes_than_a_Content_Length_that_is_out_are_never_sent_RFC9112_6_3() => Run(
        static async call =>
        {
            call.Length = 4;
            call.WriteText("four");
            await call.FlushAsync();
            await call.WriteAsync("more"u8.ToArray());
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            bench.Send(caller, caller.Request("/"));
            bench.Pass(TimeSpan.FromMilliseconds(200));
            Assert.DoesNotContain(caller.Answers, static answer => answer.BodyText.Contains("more", StringComparison.Ordinal));
            Assert.False(caller.IsAtEnd);     // four bytes of four are a whole answer to whoever goes by the length alone
            bench.Send(caller, caller.Request("/"));
            Assert.Equal(["four", "four"], caller.Answers.Select(static answer => answer.BodyText));
        });

    // ---- responses without a body ----

    [Fact]
    public void Hostile_68_HEAD_has_the_length_and_not_the_body_RFC9110_9_3_2() => Answers(
        static call =>
        {
            call.Length = 4;
            call.WriteText("four");
        },
        static (bench, caller) =>
        {
            Answer answer = Assert.Single(caller.Answers);
            Assert.Equal((200, 0, "4"), (answer.Status, answer.Body.Length, answer.Field("Content-Length")));
            bench.StillServes(caller);
        },
        "HEAD");

    [Fact]
    public void Hostile_68_HEAD_with_a_streamed_body_has_none_RFC9110_9_3_2() => Run(
        static async call =>
        {
            for (int i = 0; i < 10; i++)
            {
                await call.WriteAsync(new byte[20_000]);
                await call.FlushAsync();
            }
        },
        static bench =>
        {
            Caller caller = bench.Connect();
            Assert.Empty(bench.Ask(caller, caller.Request("/", "HEAD")).Body);
            Assert.Equal(200_000, bench.Get(caller, "/").Body.Length);
        });

    [Theory]
    [InlineData(204)]
    [InlineData(205)]
    [InlineData(304)]
    public void Hostile_68_A_status_without_a_body_has_none_RFC9110_15(int status) => Answers(
        call =>
        {
            call.Status = status;
            try
            {
                call.Write("four"u8);
            }
            catch (InvalidOperationException)
            {
            }
        },
        (bench, caller) =>
        {
            Answer answer = Assert.Single(caller.Answers);
            Assert.Equal((status, 0), (answer.Status, answer.Body.Length));
            bench.StillServes(caller);
        });

    [Fact]
    public void Hostile_69_Bytes_written_after_the_end_reach_nobody()
    {
        Stream? kept = null;
        Answers(
            call =>
            {
                call.WriteText("end");
                kept ??= call.Body;
            },
            (bench, caller) =>
            {
                Assert.Equal("end", Assert.Single(caller.Answers).BodyText);
                Assert.IsType<ObjectDisposedException>(Record.Exception(() => kept!.WriteAsync(new byte[] { 88 }).AsTask().GetAwaiter().GetResult()));
                bench.Settle();
                Assert.Equal("end", bench.Get(caller, "/next").BodyText);
            });
    }

    // ---- who is served ----

    [Theory]
    [InlineData("203.0.113.5", true)]
    [InlineData("::ffff:203.0.113.5", true)]
    [InlineData("203.0.113.6", false)]
    [InlineData("::ffff:203.0.113.6", false)]
    [InlineData("2001:db8::1", false)]
    public void Hostile_73_Only_peers_on_the_allow_list_are_served(string peer, bool served) => Run(
        AtOnce(static _ => { }),
        bench =>
        {
            Caller caller = bench.Connect(System.Net.IPAddress.Parse(peer));
            Assert.Equal(!served, caller.IsAtEnd);
            Assert.Equal(served ? 0 : 1, bench.Refused("peer-not-allowed"));
            if (served)
            {
                Assert.Equal(200, bench.Get(caller, "/").Status);
            }
        },
        parameters: "?allow=203.0.113.5");
}

public sealed class FastCgiResponseTests() : ResponseTests(Way.FastCgiToPlain);

public sealed class HttpResponseTests() : ResponseTests(Way.HttpToPlain);

public sealed class FastCgiHostedResponseTests() : ResponseTests(Way.FastCgiToHosted);

public sealed class HttpHostedResponseTests() : ResponseTests(Way.HttpToHosted);
