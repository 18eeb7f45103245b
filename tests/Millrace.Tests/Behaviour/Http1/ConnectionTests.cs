// When a connection stays and when it ends, for HTTP/1.1 and HTTP/1.0, and how the client can tell. RFC 9112 §9.3, §9.6, §6.3.

using System.Text;
using Microsoft.AspNetCore.Http;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Http1;

public sealed class ConnectionTests
{
    [Theory]
    [InlineData("HTTP/1.1", null, true, null)]
    [InlineData("HTTP/1.1", "keep-alive", true, null)]
    [InlineData("HTTP/1.1", "close", false, "close")]
    [InlineData("HTTP/1.1", "Close", false, "close")]
    [InlineData("HTTP/1.1", "keep-alive, close", false, "close")]
    [InlineData("HTTP/1.0", null, false, "close")]
    [InlineData("HTTP/1.0", "keep-alive", true, "keep-alive")]
    [InlineData("HTTP/1.0", "Keep-Alive", true, "keep-alive")]
    [InlineData("HTTP/1.0", "close", false, "close")]
    [InlineData("HTTP/1.0", "keep-alive, close", false, "close")]
    public void The_answer_says_whether_the_connection_stays_and_so_it_does_RFC9112_9_3(string version, string? connection, bool stays, string? said) => HttpBench.Run(bench =>
    {
        HttpPeer peer = bench.Connect();
        peer.Expect("GET", is10: version == "HTTP/1.0");
        HttpAnswer answer = bench.Ask(peer, $"GET / {version}\r\nHost: a\r\n{(connection is null ? "" : $"Connection: {connection}\r\n")}\r\n");
        Assert.Equal((200, said), (answer.Status, answer.Field("Connection")));
        Assert.Equal(!stays, peer.IsAtEnd);
        if (stays)
        {
            bench.StillServes(peer);
        }
    });

    [Fact]
    public void An_application_may_end_the_connection_with_its_answer_RFC9112_9_6() => HttpBench.Run(
        static (request, response) =>
        {
            response.AddHeader("Connection", "close");
            return default;
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            Assert.Equal("close", bench.Ask(peer, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").Field("Connection"));
            Assert.True(peer.IsAtEnd);
        });

    [Fact]
    public void An_end_the_client_has_not_asked_for_does_not_reset_its_next_request_over_the_answer_RFC9112_9_6() => HttpBench.Run(
        static (request, response) =>
        {
            response.AddHeader("Connection", "close");
            return default;
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.Reads = false;
            bench.Send(peer, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            bench.Send(peer, "GET /crossing HTTP/1.1\r\nHost: a\r\n\r\n");
            bench.Reads = true;
            bench.Settle();
            Assert.True(Assert.Single(peer.Answers).Closes);
            Assert.False(peer.Socket.AnswersLost);
            Assert.Equal(1, bench.Simulation.Handler.Started);
            bench.Leave(peer);
        });

    [Fact]
    public void An_end_the_client_has_asked_for_is_the_end_at_once_RFC9112_9_6() => HttpBench.Run(static bench =>
    {
        HttpPeer peer = bench.Connect();
        _ = bench.Ask(peer, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        Assert.True(peer.Socket.ServerClosed);
        Assert.Equal(0, bench.Connections);
    });

    [Theory]
    [InlineData("HTTP/1.0", "\r\n")]                                         // as old clients do behind a body (§2.2)
    [InlineData("HTTP/1.1", "\r\n")]
    [InlineData("HTTP/1.1", "GET /crossing HTTP/1.1\r\nHost: a\r\n\r\n")]     // one that has not waited with it
    public void What_a_client_sends_behind_a_request_whose_end_it_has_asked_for_is_no_reset_over_the_answer_RFC9112_9_6(string version, string behind)
    {
        var pause = new TaskCompletionSource();
        HttpBench.Run(
            async (request, response) =>
            {
                await pause.Task;
                response.Write(new byte[1_000_000]);
            },
            bench =>
            {
                HttpPeer peer = bench.Connect();
                peer.Expect("GET", is10: version == "HTTP/1.0");
                bench.Send(peer, $"GET / {version}\r\nHost: a\r\nConnection: close\r\n\r\n");
                bench.Send(peer, behind);
                pause.SetResult();
                bench.Settle();
                Assert.Equal(1_000_000, Assert.Single(peer.Answers).Body.Length);
                Assert.False(peer.Socket.AnswersLost);
                Assert.False(peer.Socket.WasReset);
                bench.Leave(peer);
                Assert.Equal(0, bench.Connections);
            });
    }

    [Fact]
    public void A_draining_server_closes_a_connection_over_which_nothing_comes_DrainTimeout() => HttpBench.Run(static bench =>
    {
        HttpPeer peer = bench.Connect();
        bench.StillServes(peer);
        bench.Pass(TimeSpan.FromSeconds(1));
        bench.Drain();
        bench.PassInDrain(TimeSpan.FromMilliseconds(200));
        Assert.False(peer.Socket.ServerClosed);
        bench.PassInDrain(TimeSpan.FromMilliseconds(50));
        Assert.True(peer.Socket.ServerClosed);
    });

    [Fact]
    public void Who_pipelines_without_end_does_not_keep_the_loop_from_others() => HttpBench.Run(static bench =>
    {
        const int Many = 1_000;
        HttpPeer greedy = bench.Connect();
        HttpPeer other = bench.Connect();
        greedy.Socket.ClientSend(Encoding.ASCII.GetBytes(string.Concat(Enumerable.Repeat("GET / HTTP/1.1\r\nHost:a\r\n\r\n", Many))));
        greedy.Socket.Deliver(int.MaxValue);
        other.Socket.ClientSend("GET / HTTP/1.1\r\nHost: a\r\n\r\n"u8);
        other.Socket.Deliver(int.MaxValue);
        for (int turns = 0; turns < 3 && other.Answers.Count == 0; turns++)
        {
            _ = bench.Simulation.Loops[0].Turn(0);
            _ = other.Read();
        }

        Assert.Single(other.Answers);
        _ = greedy.Read();
        Assert.InRange(greedy.Answers.Count, 1, Many / 2);
        bench.Settle();
        Assert.Equal(Many, greedy.Answers.Count);
    });

    // ---- a body that nobody reads ----

    private static ValueTask LeaveUnread(Request request, Response response)
    {
        response.Write("unread"u8);
        return default;
    }

    [Fact]
    public void What_was_read_of_earlier_bodies_does_not_cut_the_last_answer_short_MaxDiscardBytes() => HttpBench.Run(
        LeaveUnread,
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            peer.Expect("POST");
            bench.Send(peer, Encoding.ASCII.GetBytes($"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n{new string('x', 500)}"));
            bench.Send(peer, Encoding.ASCII.GetBytes(new string('x', 400)));
            peer.Expect("POST", is10: true);
            bench.Send(peer, Encoding.ASCII.GetBytes($"POST / HTTP/1.0\r\nContent-Length: 900\r\n\r\n{new string('x', 100)}"));
            bench.Send(peer, Encoding.ASCII.GetBytes(new string('x', 700)));
            Assert.False(peer.Socket.ServerClosed);     // it lingers, so that no reset overtakes the answer
            Assert.Equal(2, peer.Answers.Count);
            Assert.Equal(0, bench.RefusedInAll);
        },
        static options => options.MaxDiscardBytes = 1_000);

    [Fact]
    public void What_still_comes_behind_the_last_answer_is_read_for_two_seconds_RFC9112_9_6() => HttpBench.Run(
        LeaveUnread,
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            peer.Expect("POST", is10: true);
            bench.Reads = false;
            peer.Socket.PeerCapacity = 0;
            bench.Send(peer, "POST / HTTP/1.0\r\nContent-Length: 900\r\n\r\n"u8);
            bench.Reads = true;
            bench.Settle();
            Assert.Single(peer.Answers);
            bench.Pass(TimeSpan.FromSeconds(1.9));
            Assert.False(peer.Socket.ServerClosed);
            bench.Pass(TimeSpan.FromSeconds(0.6));
            Assert.True(peer.Socket.ServerClosed);
        });

    // ---- a body whose length is not known ----

    private static async ValueTask Stream(Response response)
    {
        for (int i = 0; i < 3; i++)
        {
            await response.WriteAsync("part "u8.ToArray());
            await response.FlushAsync();
        }
    }

    [Fact]
    public void A_streamed_body_is_chunked_for_1_1_and_the_connection_stays_RFC9112_7_1() => HttpBench.Run(
        static (request, response) => Stream(response),
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            HttpAnswer answer = bench.Ask(peer, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            Assert.Equal(("part part part ", "chunked", 3), (answer.BodyText, answer.Field("Transfer-Encoding"), answer.Chunks.Count));
            bench.Send(peer, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            Assert.Equal(2, peer.Answers.Count);
        });

    [Theory]
    [InlineData("")]
    [InlineData("Connection: keep-alive\r\n")]
    public void A_streamed_body_for_1_0_ends_with_the_connection_RFC9112_6_3(string connection) => HttpBench.Run(
        static (request, response) => Stream(response),
        bench =>
        {
            HttpPeer peer = bench.Connect();
            peer.Expect("GET", is10: true);
            HttpAnswer answer = bench.Ask(peer, $"GET / HTTP/1.0\r\n{connection}\r\n");
            Assert.Equal(("part part part ", "close"), (answer.BodyText, answer.Field("Connection")));
            Assert.Null(answer.Field("Transfer-Encoding"));
            Assert.True(peer.IsAtEnd);
            Assert.False(peer.Socket.WasReset);
        });

    [Fact]
    public void A_body_of_known_length_for_1_0_keeps_the_connection_if_asked_RFC9112_9_3() => HttpBench.Run(
        static async (request, response) =>
        {
            response.ContentLength = 15;
            await Stream(response);
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            peer.Expect("GET", is10: true);
            HttpAnswer answer = bench.Ask(peer, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
            Assert.Equal(("part part part ", "keep-alive", "15"), (answer.BodyText, answer.Field("Connection"), answer.Field("Content-Length")));
            Assert.False(peer.IsAtEnd);
        });

    [Theory]
    [InlineData("HEAD", 200)]
    [InlineData("GET", 204)]
    [InlineData("GET", 304)]
    public void An_answer_that_has_no_body_is_whole_when_its_handler_fails_behind_its_head_RFC9112_6_3(string method, int status) => HttpBench.Run(
        async (request, response) =>
        {
            if (request.Path != "/fails")
            {
                return;
            }

            response.StatusCode = status;
            await response.FlushAsync();
            throw new InvalidOperationException();
        },
        bench =>
        {
            HttpPeer peer = bench.Connect();
            peer.Expect("GET");
            peer.Expect(method);
            bench.Send(peer, $"GET /before HTTP/1.1\r\nHost: a\r\n\r\n{method} /fails HTTP/1.1\r\nHost: a\r\n\r\n");
            Assert.Equal([200, status], peer.Answers.Select(static answer => answer.Status));
            bench.Pass(TimeSpan.FromMilliseconds(200));
            Assert.Equal(200, bench.Ask(peer, "GET /behind HTTP/1.1\r\nHost: a\r\n\r\n").Status);
        });

    [Fact]
    public void A_body_written_in_large_pieces_has_a_chunk_for_each_RFC9112_7_1() => HttpBench.Run(
        static async (request, response) =>
        {
            await response.FlushAsync();
            response.Write(new byte[0x10000]);
            await response.FlushAsync();
            await response.WriteAsync(Array.Empty<byte>());
            await response.FlushAsync();
            response.Write(new byte[1]);
        },
        static bench =>
        {
            HttpAnswer answer = bench.Ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            Assert.Equal(0x10001, answer.Body.Length);
            Assert.DoesNotContain(0, answer.Chunks);
        });

    // ---- the client has finished sending ----

    [Fact]
    public void A_client_that_ends_its_side_at_once_is_answered_and_closed_RFC9112_9_6() => HttpBench.Run(static bench =>
    {
        HttpPeer peer = bench.Connect();
        peer.Socket.ClientSend("GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n"u8);
        peer.Socket.ClientFinish();
        bench.Settle();
        Assert.Equal(2, peer.Answers.Count);
        Assert.True(peer.IsAtEnd);
        Assert.False(peer.Socket.WasReset);
        Assert.Equal(0, bench.Connections);
    });

    [Theory]
    [InlineData("GET / HTTP/1.1\r\nHost: a\r\n")]
    [InlineData("GET")]
    [InlineData("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc")]
    public void A_client_that_ends_its_side_in_the_middle_of_a_request_is_closed_RFC9112_8(string part) => HttpBench.Run(bench =>
    {
        HttpPeer peer = bench.Connect();
        peer.Socket.ClientSend(Encoding.ASCII.GetBytes(part));
        peer.Socket.ClientFinish();
        bench.Settle();
        Assert.True(peer.IsAtEnd);
        Assert.DoesNotContain(peer.Answers, static answer => answer.Status == 200);
        Assert.Equal((0, part.StartsWith("POST", StringComparison.Ordinal) ? 0 : 1), (bench.Connections, bench.Refused("ended-mid-request")));
        bench.OthersAreServed();
    });

    // ---- Date and Server, RFC 9110 §6.6.1, §10.2.4 ----

    [Theory]
    [InlineData(true, "Millrace")]
    [InlineData(false, null)]
    public void The_server_names_itself_unless_told_not_to_AddServerHeader(bool names, string? expected) => HttpBench.Run(
        bench =>
        {
            foreach (string request in (string[])["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", "bad\r\n"])
            {
                Assert.Equal(expected, bench.Ask(request).Field("Server"));
            }
        },
        options => options.AddServerHeader = names);

    [Fact]
    public void What_an_application_sets_stands_instead_of_the_servers_own_RFC9110_6_6_1() => HttpBench.Run(
        static (request, response) =>
        {
            response.AddHeader("date", "Thu, 01 Jan 1970 00:00:00 GMT");
            response.AddHeader("SERVER", "Other/1");
            response.AddHeader("X-A", "b");
            return default;
        },
        static bench =>
        {
            HttpAnswer answer = bench.Ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            Assert.Equal(("Thu, 01 Jan 1970 00:00:00 GMT", "Other/1", "b"), (answer.Field("Date"), answer.Field("Server"), answer.Field("X-A")));
        });

    [Theory]
    [InlineData("Date", "Thu, 01 Jan 1970 00:00:00 GMT", "Server")]
    [InlineData("Server", "Other/1", "Date")]
    public void What_an_application_sets_alone_is_there_once_and_the_other_is_the_servers_RFC9110_6_6_1(string name, string value, string other) => HttpBench.Run(
        (request, response) =>
        {
            response.AddHeader(name, value);
            return default;
        },
        bench =>
        {
            HttpAnswer answer = bench.Ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            Assert.Equal(value, answer.Field(name));
            Assert.Single(answer.FieldLines, line => line.StartsWith(other + ": ", StringComparison.Ordinal));
        });

    [Fact]
    public void A_response_while_the_server_drains_says_that_the_connection_ends_RFC9112_9_6()
    {
        var gate = new TaskCompletionSource();
        HttpBench.Run(
            async (request, response) => await gate.Task,
            bench =>
            {
                HttpPeer peer = bench.Connect();
                bench.Send(peer, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                bench.Drain();
                gate.SetResult();
                bench.Settle();
                Assert.True(Assert.Single(peer.Answers).Closes);
                Assert.True(peer.IsAtEnd);
            });
    }

    // RFC 9112 §9.6: it may only have ended its own side. SendFileAsync and WriteAsJsonAsync take RequestAborted where they are given no token, and swallow its exception.
    [Theory]
    [InlineData("file", "the file")]
    [InlineData("json", "\"the value\"")]
    [InlineData("own token", "the bytes")]
    [InlineData("linked token", null)]
    public void A_client_that_has_only_finished_sending_is_sent_what_comes_with_the_token_of_its_request(string what, string? body)
    {
        string path = Path.GetTempFileName();
        File.WriteAllText(path, "the file");
        HttpBench.RunHosted(
            async context =>
            {
                await Bench.Cancelled(context.RequestAborted);
                using var linked = CancellationTokenSource.CreateLinkedTokenSource(context.RequestAborted);
                await (what switch
                {
                    "file" => context.Response.SendFileAsync(path),
                    "json" => context.Response.WriteAsJsonAsync("the value"),
                    "own token" => context.Response.WriteAsync("the bytes", context.RequestAborted),
                    _ => context.Response.WriteAsync("the bytes", linked.Token),
                });
            },
            bench =>
            {
                HttpPeer peer = bench.Connect();
                peer.Socket.ClientSend("GET / HTTP/1.1\r\nHost: a\r\n\r\n"u8);
                peer.Socket.ClientFinish();
                bench.Settle();
                Assert.Equal(body, peer.Answers.FirstOrDefault()?.BodyText);
                Assert.True(peer.IsAtEnd);
            });
        File.Delete(path);
    }
}
