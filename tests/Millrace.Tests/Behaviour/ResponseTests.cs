// Responses that handlers get wrong: what goes out must never be a silently wrong answer. RFC 3875 §6, RFC 9110, FastCGI 1.0 §5.5.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour;

public sealed class ResponseTests
{
    private static void Answers(Action<Request, Response> handler, Action<Bench, FrontEnd> check, string method = "GET") => Bench.Run(
        (request, response) =>
        {
            handler(request, response);
            return default;
        },
        bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, Wire.Request("/", method));
            check(bench, front);
        });

    [Fact]
    public void Hostile_65_An_exception_before_the_first_byte_is_500_and_a_line_of_STDERR() => Answers(
        static (request, response) =>
        {
            response.WriteText("never seen");
            throw new InvalidOperationException("a secret of the application");
        },
        static (bench, front) =>
        {
            ReceivedResponse response = Assert.Single(front.Ended);
            Assert.Equal((500, 0), (response.Status, response.Body.Length));
            Assert.Contains("System.InvalidOperationException", response.ErrorText, StringComparison.Ordinal);
            Assert.DoesNotContain("secret", response.ErrorText, StringComparison.Ordinal);
            Assert.Equal(500, bench.Ask(front, Wire.Request("/again")).Status);
        });

    [Fact]
    public void The_line_of_STDERR_comes_before_a_head_that_ends_the_reading_of_some_front_ends() => Bench.Run(
        static (_, _) => throw new InvalidOperationException(),
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Reads = false;
            bench.Send(front, Wire.Request("/"));
            byte[] answer = new byte[4_096];
            int length = front.Socket.ClientRead(answer);
            Assert.True(length > 8);
            Assert.Equal(Wire.Stderr, answer[1]);
            bench.Reads = true;
        });

    [Fact]
    public void Hostile_65_An_exception_after_the_first_byte_ends_the_connection_without_END() => Bench.Run(
        static async (request, response) =>
        {
            response.WriteText("begun");
            await response.FlushAsync();
            throw new InvalidOperationException();
        },
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, Wire.Request("/"));
            Assert.Empty(front.Ended);
            Assert.True(front.IsAtEnd);
            bench.Settle();
        });

    [Theory]
    [InlineData("a\r\nSet-Cookie: evil=1")]
    [InlineData("a\nb")]
    [InlineData("a\0b")]
    public void Hostile_66_Header_values_cannot_end_a_line_RFC9110_5_5(string value) => Answers(
        (request, response) => response.AddHeader("X-A", value),
        static (bench, front) =>
        {
            ReceivedResponse response = Assert.Single(front.Ended);
            Assert.Equal(500, response.Status);
            Assert.DoesNotContain("evil", response.Head, StringComparison.Ordinal);
        });

    [Theory]
    [InlineData("X A")]
    [InlineData("X:A")]
    [InlineData("")]
    [InlineData("X\r\nA")]
    public void Hostile_66_Header_names_are_tokens_RFC9110_5_1(string name) => Answers(
        (request, response) => response.AddHeader(name, "v"),
        static (bench, front) => Assert.Equal(500, Assert.Single(front.Ended).Status));

    [Fact]
    public void Hostile_66_Hop_by_hop_fields_never_go_out_RFC9110_7_6_1() => Answers(
        static (request, response) =>
        {
            foreach (string name in (string[])["Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "Trailer", "Proxy-Connection", "Status"])
            {
                response.AddHeader(name, "999 evil");
            }

            response.WriteText("x");
        },
        static (bench, front) => Assert.DoesNotContain("evil", Assert.Single(front.Ended).Head, StringComparison.Ordinal));

    [Fact]
    public void Hostile_67_More_bytes_than_Content_Length_are_an_error_RFC9112_6_3() => Answers(
        static (request, response) =>
        {
            response.ContentLength = 3;
            response.WriteText("four");
        },
        static (bench, front) => Assert.Equal(500, Assert.Single(front.Ended).Status));

    [Fact]
    public void Hostile_67_Fewer_bytes_than_Content_Length_are_an_error_RFC9112_6_3() => Answers(
        static (request, response) =>
        {
            response.ContentLength = 5;
            response.WriteText("four");
        },
        static (bench, front) => Assert.Equal(500, Assert.Single(front.Ended).Status));

    [Fact]
    public void Hostile_67_Fewer_bytes_than_a_Content_Length_that_is_out_end_the_connection_RFC9112_6_3() => Bench.Run(
        static async (request, response) =>
        {
            response.ContentLength = 5;
            response.WriteText("four");
            await response.FlushAsync();
        },
        static bench =>
        {
            FrontEnd front = bench.Connect();
            bench.Send(front, Wire.Request("/"));
            Assert.Empty(front.Ended);
            Assert.True(front.IsAtEnd);
        });

    [Fact]
    public void Hostile_68_HEAD_has_the_length_and_not_the_body_RFC9110_9_3_2() => Answers(
        static (request, response) =>
        {
            response.ContentLength = 4;
            response.WriteText("four");
        },
        static (bench, front) =>
        {
            ReceivedResponse response = Assert.Single(front.Ended);
            Assert.Equal((200, 0, "4"), (response.Status, response.Body.Length, response.Field("Content-Length")));
        },
        "HEAD");

    [Theory]
    [InlineData(204)]
    [InlineData(304)]
    public void Hostile_68_A_status_without_a_body_has_none_RFC9110_15(int status) => Answers(
        (request, response) =>
        {
            response.StatusCode = status;
            try
            {
                response.Write("four"u8);
            }
            catch (InvalidOperationException)
            {
            }
        },
        (bench, front) =>
        {
            ReceivedResponse response = Assert.Single(front.Ended);
            Assert.Equal((status, 0), (response.Status, response.Body.Length));
            bench.Settle();
        });

    [Fact]
    public void Hostile_69_Bytes_written_after_the_end_reach_nobody()
    {
        Stream? kept = null;
        Answers(
            (request, response) =>
            {
                response.WriteText("end");
                kept ??= response.Body;
            },
            (bench, front) =>
            {
                Assert.Equal("end", Assert.Single(front.Ended).BodyText);
                Assert.IsType<ObjectDisposedException>(Record.Exception(() => kept!.WriteAsync(new byte[] { 88 }).AsTask().GetAwaiter().GetResult()));
                bench.Settle();
                Assert.Equal("end", bench.Ask(front, Wire.Request("/next")).BodyText);
            });
    }

    [Fact]
    public void Hostile_70_STDERR_is_one_line_without_controls()
    {
        Bench? current = null;
        Bench.Run(
            (request, response) =>
            {
                current!.Simulation.Handler.Current!.TraceIdentifier = "a\r\n[error] forged\u001b[31m\0";
                throw new InvalidOperationException();
            },
            bench =>
            {
                current = bench;
                string line = bench.Ask(Wire.Request("/")).ErrorText;
                Assert.Contains("forged", line, StringComparison.Ordinal);
                Assert.DoesNotContain(line, static c => c is < ' ' or > '~');
            });
    }

    [Fact]
    public void Hostile_71_END_REQUEST_is_eight_bytes_and_leaks_nothing_FastCGI_5_5() => Answers(
        static (request, response) => response.WriteText("x"),
        static (bench, front) =>
        {
            // FrontEnd faults on any END_REQUEST that is not 8 bytes with three zeros, and on padding that is not zero.
            Assert.Null(front.Fault);
            Assert.Equal((0u, 0), (Assert.Single(front.Ended).AppStatus, front.Ended[0].ProtocolStatus));
            Assert.False(front.EndsInsideRecord);
        });

    [Theory]
    [InlineData("203.0.113.5", true)]
    [InlineData("::ffff:203.0.113.5", true)]
    [InlineData("203.0.113.6", false)]
    [InlineData("::ffff:203.0.113.6", false)]
    [InlineData("2001:db8::1", false)]
    public void Hostile_73_Only_peers_on_the_allow_list_are_served(string peer, bool served) => Bench.Run(
        static (request, response) => default,
        bench =>
        {
            FrontEnd front = bench.Connect(System.Net.IPAddress.Parse(peer));
            Assert.Equal(!served, front.IsAtEnd);
            Assert.Equal(served ? 0 : 1, bench.Refused("peer-not-allowed"));
            if (served)
            {
                Assert.Equal(200, bench.Ask(front, Wire.Request("/")).Status);
            }
        },
        address: "fastcgi://0.0.0.0:9000?allow=203.0.113.5");
}
