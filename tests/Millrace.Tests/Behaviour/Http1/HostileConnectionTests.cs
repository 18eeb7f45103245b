// Hostile input that is more than one message: requests that hide others, expectations and upgrades used as tricks, slowness,
// floods, the ends of ranges. The classes are those of tests/vectors/http1/README.md.

using System.Diagnostics;
using System.Text;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Http1;

public sealed class HostileConnectionTests
{
    private const string Smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    private const string Next = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n";

    private static ValueTask Nothing(Request request, Response response)
    {
        response.WriteText(request.Path);
        return default;
    }

    // ---- 15: bodies where usually none are ----

    [Theory]
    [InlineData("GET", false)]
    [InlineData("HEAD", false)]
    [InlineData("DELETE", false)]
    [InlineData("OPTIONS", false)]
    [InlineData("GET", true)]
    [InlineData("OPTIONS", true)]
    public void Http_hostile_15_A_body_on_any_method_is_taken_off_the_connection_RFC9110_9_3(string method, bool chunked)
    {
        string framed = chunked
            ? $"Transfer-Encoding: chunked\r\n\r\n{Smuggled.Length:x}\r\n{Smuggled}\r\n0\r\n\r\n"
            : $"Content-Length: {Smuggled.Length}\r\n\r\n{Smuggled}";
        byte[] bytes = Encoding.ASCII.GetBytes($"{Next}{method} /outer HTTP/1.1\r\nHost: a\r\n{framed}{Next}");
        foreach (Func<Request, Response, ValueTask> handler in (Func<Request, Response, ValueTask>[])[PlainCall.Echo, Nothing])
        {
            HttpBench.Run(handler, bench =>
            {
                for (int cut = 0; cut <= bytes.Length; cut++)
                {
                    int before = bench.Simulation.Handler.Started;
                    HttpPeer peer = bench.Connect();
                    peer.Expect("GET");
                    peer.Expect(method);
                    bench.Send(peer, bytes.AsSpan(0, cut));
                    bench.Send(peer, bytes.AsSpan(cut));
                    Assert.Equal([200, 200, 200], peer.Answers.Select(static answer => answer.Status));
                    Assert.EndsWith("/next", peer.Answers[2].BodyText.Split('\n')[0], StringComparison.Ordinal);
                    Assert.Equal(before + 3, bench.Simulation.Handler.Started);
                    bench.Leave(peer);
                }
            });
        }
    }

    // ---- 16: expectations ----

    [Theory]
    [InlineData("Content-Length: 36")]
    [InlineData("Transfer-Encoding: chunked")]
    public void Http_hostile_16_A_body_that_was_not_asked_for_is_no_request_RFC9110_10_1_1(string length) => HttpBench.Run(Nothing, bench =>
    {
        byte[] head = Encoding.ASCII.GetBytes($"POST /outer HTTP/1.1\r\nHost: a\r\n{length}\r\nExpect: 100-continue\r\n\r\n");
        for (int cut = 0; cut <= Smuggled.Length; cut++)
        {
            int before = bench.Simulation.Handler.Started;
            HttpPeer peer = bench.Connect();
            bench.Send(peer, head);
            bench.Send(peer, Smuggled[..cut]);
            bench.Send(peer, Smuggled[cut..] + Smuggled);
            Assert.True(Assert.Single(peer.Answers).Closes);
            Assert.Empty(peer.Interims);
            Assert.Equal(before + 1, bench.Simulation.Handler.Started);
            bench.Leave(peer);
        }
    });

    [Fact]
    public void Http_hostile_16_An_expectation_with_a_length_of_nothing_opens_no_gap_RFC9110_10_1_1() =>
        HttpBench.HoweverCut(
            Encoding.ASCII.GetBytes($"POST /outer HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n{Next}"),
            static (_, peer) =>
            {
                Assert.Equal(["/outer", "/next"], peer.Answers.Select(static answer => answer.BodyText));
                Assert.Empty(peer.Interims);
            },
            Nothing);

    // ---- 17: behind the last request ----

    [Theory]
    [InlineData("GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200)]
    [InlineData("POST /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc", 200)]
    [InlineData("POST /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200)]
    [InlineData("GET /last HTTP/1.0\r\n\r\n", 200)]
    [InlineData("GET /last HTTP/1.1\r\nHost: a b\r\n\r\n", 400)]
    [InlineData("POST /last HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\n\r\n", 417)]
    public void Http_hostile_17_What_follows_the_last_request_is_discarded_RFC9112_9_6(string last, int status) =>
        HttpBench.HoweverCut(Encoding.ASCII.GetBytes(last + Smuggled + Smuggled), (_, peer) =>
        {
            HttpAnswer answer = Assert.Single(peer.Answers);
            Assert.Equal((status, true), (answer.Status, answer.Closes));
            Assert.True(peer.IsAtEnd);
            Assert.False(peer.Socket.AnswersLost);
        });

    // ---- 18: upgrades ----

    [Fact]
    public void Http_hostile_18_A_refused_upgrade_leaves_what_follows_a_request_RFC9110_7_8() =>
        HttpBench.HoweverCut(
            Encoding.ASCII.GetBytes($"GET /chat HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n{Next}"),
            static (_, peer) => Assert.Equal(["/chat", "/next"], peer.Answers.Select(static answer => answer.BodyText)),
            Nothing);

    // ---- 19: slowness and floods ----

    [Fact]
    public void Http_hostile_19_A_head_byte_by_byte_costs_no_more_than_its_length_RFC9112_3() => HttpBench.Run(static bench =>
    {
        byte[] head = Encoding.ASCII.GetBytes($"GET / HTTP/1.1\r\nHost: a\r\n{string.Concat(Enumerable.Range(0, 80).Select(static i => $"X-{i}: {new string('v', 380)}\r\n"))}\r\n");
        HttpPeer peer = bench.Connect();
        var watch = Stopwatch.StartNew();
        bench.SendBytewise(peer, head);
        Assert.Equal(200, Assert.Single(peer.Answers).Status);
        Assert.True(watch.ElapsedMilliseconds < 5_000, $"{head.Length} bytes took {watch.ElapsedMilliseconds} ms");
    });

    [Fact]
    public void Http_hostile_19_Slow_heads_bodies_and_readers_and_idle_connections_all_end_in_time_and_others_are_served() => HttpBench.Run(
        static (request, response) =>
        {
            response.Write(new byte[request.Path == "/large" ? 1_000_000 : 10]);
            return request.Path == "/body" ? PlainCall.Echo(request, response) : default;
        },
        static bench =>
        {
            HttpPeer head = bench.Connect();
            HttpPeer body = bench.Connect();
            HttpPeer reader = bench.Connect();
            HttpPeer idle = bench.Connect();
            bench.Reads = false;
            bench.Send(reader, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
            bench.Send(idle, Next);
            bench.Send(body, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
            for (int i = 0; i < 40; i++)
            {
                bench.Send(head, i == 0 ? "GET / HTTP/1.1\r\nX: " : "x");
                bench.Send(body, "x");
                bench.Pass(TimeSpan.FromSeconds(1));
            }

            Assert.Equal(0, bench.Connections);
            Assert.Equal((1, 1, 1), (bench.Refused("head-timeout"), bench.Refused("body-too-slow"), bench.Refused("send-timeout")));
            bench.Reads = true;
            bench.OthersAreServed();
        },
        static options =>
        {
            options.HeadTimeout = options.SendTimeout = options.IdleTimeout = TimeSpan.FromSeconds(20);
            options.MinBodyBytesPerSecond = 100;
        });

    [Fact]
    public void Http_hostile_19_A_flood_of_connections_costs_little_and_ends_in_time() => HttpBench.Run(static bench =>
    {
        const int Count = 3_000;
        for (int i = 0; i < Count; i++)
        {
            SimulatedSocket socket = bench.Simulation.World.Connect(bench.Simulation.Listener);
            socket.ClientSend("GET / HTTP/1.1\r\n"u8);
            socket.Deliver(100);
        }

        bench.Settle();
        Assert.Equal(Count, bench.Connections);
        bench.OthersAreServed();
        bench.Pass(TimeSpan.FromSeconds(34));
        Assert.Equal(1, bench.Connections);
        Assert.Equal(Count, bench.Refused("head-timeout"));
    });

    // ---- 20, 21: limits ----

    [Theory]
    [InlineData("GET /", 1_000_000, 414)]
    [InlineData("GET / HTTP/1.1\r\nHost: a\r\nX: ", 1_000_000, 431)]
    [InlineData("GET / HTTP/1.1\r\nHost: a\r\nX", 1_000_000, 431)]
    [InlineData("M", 1_000, 501)]
    public void Http_hostile_20_What_never_ends_is_refused_at_its_limit_RFC6585_5(string begin, int more, int status) => HttpBench.Run(bench =>
    {
        HttpPeer peer = bench.Connect();
        bench.Send(peer, begin);
        for (int sent = 0; sent < more && peer.Answers.Count == 0; sent += 100)
        {
            Assert.True(sent <= 33_000, "more was taken than any limit allows");
            bench.Send(peer, new string('M', 100));
        }

        Assert.Equal((status, true), (Assert.Single(peer.Answers).Status, peer.Answers[0].Closes));
    });

    [Fact]
    public void Http_hostile_21_Limits_at_the_ends_of_their_ranges_do_not_overflow() => HttpBench.Run(
        static (request, response) => request.Path == "/unread" ? default : PlainCall.Echo(request, response),
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            Assert.Equal(200, bench.Ask(peer, $"POST /{new string('a', 100_000)} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").Status);
            foreach (string length in (string[])["Content-Length: 9223372036854775807\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\n"])
            {
                HttpPeer huge = bench.Connect();
                bench.Send(huge, $"POST /unread HTTP/1.1\r\nHost: a\r\n{length}");
                bench.Send(huge, new byte[100_000]);
                Assert.Equal((200, true), (Assert.Single(huge.Answers).Status, huge.Answers[0].Closes));
                HttpPeer read = bench.Connect();
                bench.Send(read, $"POST /read HTTP/1.1\r\nHost: a\r\n{length}");
                bench.Send(read, new byte[100_000]);
                Assert.Empty(read.Answers);
            }

            bench.StillServes(peer);
        },
        static options =>
        {
            options.MaxRequestBodySize = long.MaxValue;
            options.MaxHeadBytes = options.MaxRequestLineBytes = 16 * 1024 * 1024;
            options.MaxParameters = 100_000;
            options.MaxHeaders = 10_000;
            options.MaxDiscardBytes = 1024 * 1024 * 1024;
            options.RequestBodyBuffer = 64 * 1024 * 1024;
            options.MinBodyBytesPerSecond = int.MaxValue;
            options.HeadTimeout = options.BodyTimeout = options.SendTimeout = options.IdleTimeout = options.MinBodyRateGrace = options.RequestTimeout = TimeSpan.FromDays(1);
        });

    // ---- 22: heads cut anywhere ----

    private const string Browser =
        "GET /a/page?x=1&y=%20 HTTP/1.1\r\nHost: example.org:8080\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: text/html,*/*;q=0.8\r\n"
        + "Accept-Encoding: gzip, deflate, br\r\nCookie: a=1; b=\"two\"\r\nX-Own-Field-With-A-Long-Name: \t value \t\r\nConnection: keep-alive\r\n\r\n";

    [Fact]
    public void Http_hostile_22_A_browsers_head_may_be_cut_at_every_byte_RFC9112_2_2() => HttpBench.HoweverCut(
        Encoding.ASCII.GetBytes(Browser + Browser), static (_, peer) =>
        {
            Assert.Equal(2, peer.Answers.Count);
            Assert.Equal(peer.Answers[0].BodyText, peer.Answers[1].BodyText);
            Assert.StartsWith("GET /a/page?x=1&y=%20\npath /a/page\nquery ?x=1&y=%20\nscheme http\nhost example.org:8080\nbody 0 0\n", peer.Answers[0].BodyText, StringComparison.Ordinal);
            Assert.EndsWith(
                "\nHost: example.org:8080\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\nAccept: text/html,*/*;q=0.8\nAccept-Encoding: gzip, deflate, br\nCookie: a=1; b=\"two\"\nX-Own-Field-With-A-Long-Name: value\nConnection: keep-alive\n",
                peer.Answers[0].BodyText, StringComparison.Ordinal);
        });

    [Fact]
    public void Http_hostile_22_A_head_may_be_cut_in_three_anywhere_RFC9112_2_2() => HttpBench.Run(Nothing, static bench =>
    {
        byte[] bytes = "POST /three HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"u8.ToArray();
        for (int first = 0; first <= bytes.Length; first++)
        {
            for (int second = first; second <= bytes.Length; second += 3)
            {
                HttpPeer peer = bench.Connect();
                bench.Send(peer, bytes.AsSpan(0, first));
                bench.Send(peer, bytes.AsSpan(first, second - first));
                bench.Send(peer, bytes.AsSpan(second));
                Assert.Equal("/three", Assert.Single(peer.Answers).BodyText);
                bench.StillServes(peer);
                bench.Leave(peer);
            }
        }
    });
}
