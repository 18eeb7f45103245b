// What only FastCGI has to say about responses: the line of STDERR, the field Status, END_REQUEST. FastCGI 1.0 §5.3, §5.5, RFC 3875 §6.

using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.FastCgi;

public sealed class EndRequestTests
{
    private static void Answers(Action<Request, Response> handler, Action<FastCgiBench, FrontEnd> check, string method = "GET") => FastCgiBench.Run(
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
    public void Hostile_65_An_exception_is_one_line_of_STDERR_without_its_message() => Answers(
        static (request, response) => throw new InvalidOperationException("a secret of the application"),
        static (_, front) =>
        {
            ReceivedResponse response = Assert.Single(front.Ended);
            Assert.Contains("System.InvalidOperationException", response.ErrorText, StringComparison.Ordinal);
            Assert.DoesNotContain("secret", response.ErrorText, StringComparison.Ordinal);
        });

    [Fact]
    public void Hostile_66_Hop_by_hop_fields_and_Status_never_go_out_RFC9110_7_6_1() => Answers(
        static (request, response) =>
        {
            foreach (string name in (string[])["Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "Trailer", "Proxy-Connection", "Status"])
            {
                response.AddHeader(name, "999 evil");
            }

            response.WriteText("x");
        },
        static (bench, front) => Assert.DoesNotContain("evil", Assert.Single(front.Ended).Head, StringComparison.Ordinal));

    // HAProxy 2.6 answers 302 where a Location comes behind the Status; the order is free.
    [Theory]
    [InlineData(200)]
    [InlineData(201)]
    [InlineData(308)]
    public void Status_has_the_last_word_over_a_Location_RFC3875_6_3(int status) => Answers(
        (request, response) =>
        {
            response.StatusCode = status;
            response.AddHeader("X-A", "1");
            response.AddHeader("location", "/elsewhere");
            response.AddHeader("X-B", "2");
            response.WriteText("x");
        },
        (bench, front) =>
        {
            string head = Assert.Single(front.Ended).Head;
            Assert.Matches($"^location: /elsewhere\r\nStatus: {status} [A-Za-z ]+\r\nX-A: 1\r\nX-B: 2\r\n", head);
            Assert.DoesNotMatch("(?is)location:.*location:", head);
        });

    [Fact]
    public void Hostile_70_STDERR_is_one_line_without_controls()
    {
        FastCgiBench? current = null;
        FastCgiBench.Run(
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

    [Fact]
    public void The_line_of_STDERR_comes_before_a_head_that_ends_the_reading_of_some_front_ends() => FastCgiBench.Run(
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

    // A client whose handler fails there must not take the request of another one along.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void The_next_request_under_another_id_waits_where_Content_Length_says_that_the_response_is_whole_and_is_answered(bool fails)
    {
        var pause = new TaskCompletionSource();
        FastCgiBench.Run(
            async (request, response) =>
            {
                if (request.Path == "/first")
                {
                    response.ContentLength = 2;
                    await response.WriteAsync("ab"u8.ToArray());
                    await response.FlushAsync();
                    await pause.Task;
                    return;
                }

                await PlainCall.Echo(request, response);
            },
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, Wire.Request("/first", id: 1));
                Assert.Equal("ab", front.Open[1].BodyText);

                // As HAProxy does: the next id before END_REQUEST of this one.
                bench.Send(front, Wire.Request("/second", id: 3));
                Assert.Empty(front.Ended);
                if (fails)
                {
                    pause.SetException(new InvalidOperationException());
                }
                else
                {
                    pause.SetResult();
                }

                bench.Settle();
                Assert.Equal([(1, 0), (3, 0)], front.Ended.Select(static response => (response.Id, response.ProtocolStatus)));
                Assert.StartsWith("GET /second", front.Ended[1].BodyText, StringComparison.Ordinal);
            });
    }

    // HAProxy has begun to send it, for somebody else: what is missing of it still comes.
    [Theory]
    [InlineData("fastcgi://127.0.0.1:9000")]
    [InlineData("fastcgi://unix:/run/simulated.sock")]
    public void A_next_request_of_which_a_part_has_come_is_answered_in_a_drain(string address)
    {
        byte[] body = Plan.Bytes("body", 0, 100);
        byte[] next = Wire.Request("/second", "POST", body, id: 3);
        for (int cut = 1; cut < next.Length; cut += 15)
        {
            var pause = new TaskCompletionSource();
            FastCgiBench.Run(
                async (request, response) =>
                {
                    if (request.Path == "/first")
                    {
                        response.ContentLength = 2;
                        await response.WriteAsync("ab"u8.ToArray());
                        await response.FlushAsync();
                        await pause.Task;
                        return;
                    }

                    await PlainCall.Echo(request, response);
                },
                bench =>
                {
                    FrontEnd front = bench.Connect();
                    bench.Send(front, Wire.Request("/first", id: 1));
                    bench.Send(front, next.AsSpan(0, cut));
                    bench.Drain();
                    bench.Settle();
                    pause.SetResult();
                    bench.Settle();
                    Assert.Single(front.Ended);
                    bench.Send(front, next.AsSpan(cut));
                    Assert.False(front.Socket.RefusedToClient);
                    Assert.Equal([(1, 0), (3, 0)], front.Ended.Select(static response => (response.Id, response.ProtocolStatus)));
                    Assert.StartsWith("POST /second", front.Ended[1].BodyText, StringComparison.Ordinal);
                },
                address: address);
        }
    }

    [Fact]
    public void Hostile_15_A_role_that_is_refused_under_the_id_of_a_running_one_is_ended_behind_it_FastCGI_5_5()
    {
        var first = new TaskCompletionSource();
        var second = new TaskCompletionSource();
        FastCgiBench.Run(
            async (request, response) =>
            {
                await first.Task;
                await response.WriteAsync("the first, "u8.ToArray());
                await response.FlushAsync();
                await second.Task;
                await response.WriteAsync("and the rest"u8.ToArray());
            },
            bench =>
            {
                FrontEnd front = bench.Connect();
                bench.Send(front, Wire.Request("/"));
                bench.Send(front, Wire.BeginRequest(role: 2));
                first.SetResult();
                bench.Settle();
                Assert.Empty(front.Ended);
                second.SetResult();
                bench.Settle();
                Assert.Equal([0, 3], front.Ended.Select(static response => (int)response.ProtocolStatus));
                Assert.Equal("the first, and the rest", front.Ended[0].BodyText);
            });
    }
}
