// The forms of a request target and the rules of Host, as handlers see them. RFC 9112 §3.2, RFC 9110 §4.2, §7.2.

namespace Millrace.Tests.Behaviour.Http1;

public sealed class TargetTests
{
    private static void Says(string requestLineAndHost, params string[] expected) => HttpBench.Run(bench =>
    {
        string text = bench.Ask(requestLineAndHost + "\r\n\r\n").BodyText;
        Assert.All(expected, line => Assert.Contains("\n" + line + "\n", "\n" + text, StringComparison.Ordinal));
    });

    [Fact]
    public void Origin_form_RFC9112_3_2_1() => Says("GET /a%20b/c?d=e%20f HTTP/1.1\r\nHost: example.org:81", "GET /a%20b/c?d=e%20f", "path /a b/c", "query ?d=e%20f", "host example.org:81");

    [Fact]
    public void Absolute_form_overrides_Host_RFC9112_3_2_2() =>
        Says("GET http://real.example:8080/p?q HTTP/1.1\r\nHost: other.example", "GET http://real.example:8080/p?q", "path /p", "query ?q", "host real.example:8080", "Host: real.example:8080");

    [Fact]
    public void Absolute_form_may_have_no_path_RFC9112_3_2_1() => Says("GET http://real.example HTTP/1.1\r\nHost: real.example", "path /", "query ", "host real.example");

    [Fact]
    public void Absolute_form_of_OPTIONS_without_a_path_RFC9112_3_2_4() => Says("OPTIONS http://real.example HTTP/1.1\r\nHost: real.example", "host real.example");

    [Fact]
    public void Asterisk_form_RFC9112_3_2_4() => Says("OPTIONS * HTTP/1.1\r\nHost: a", "OPTIONS *", "path ", "query ", "host a");

    [Theory]
    [InlineData("a")]
    [InlineData("a:80")]
    [InlineData("[2001:db8::1]:8080")]
    [InlineData("127.0.0.1")]
    [InlineData("xn--bcher-kva.example")]
    [InlineData("under_score.example")]
    public void Host_is_given_as_it_was_sent_RFC9110_7_2(string host) => Says($"GET / HTTP/1.1\r\nHost: {host}", $"host {host}", $"Host: {host}");

    [Fact]
    public void HTTP_1_0_needs_no_Host_RFC9112_3_2() => HttpBench.Run(static bench =>
    {
        HttpPeer peer = bench.Connect();
        peer.Expect("GET", is10: true);
        Assert.Contains("\nhost \n", bench.Ask(peer, "GET / HTTP/1.0\r\n\r\n").BodyText, StringComparison.Ordinal);
    });

    // Whoever filters by host looks at the field: it must not be empty where the target says the host.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void HTTP_1_0_may_say_the_host_in_the_target_alone_RFC9112_3_2_2(bool hosted)
    {
        Action<HttpBench> test = static bench =>
        {
            HttpPeer peer = bench.Connect();
            peer.Expect("GET", is10: true);
            string text = bench.Ask(peer, "GET http://real.example:8080/p HTTP/1.0\r\n\r\n").BodyText;
            Assert.Contains("\npath /p\n", text, StringComparison.Ordinal);
            Assert.Contains("\nhost real.example:8080\n", text, StringComparison.Ordinal);
            Assert.Contains("\nHost: real.example:8080\n", text, StringComparison.Ordinal);
        };
        if (hosted)
        {
            HttpBench.RunHosted(static context => Call.Echo(new HostedCall(context)).AsTask(), test);
        }
        else
        {
            HttpBench.Run(test);
        }
    }

    // A server that is no proxy has no tunnel to offer: RFC 9110 §9.3.6.
    [Fact]
    public void CONNECT_reaches_the_application_as_authority_form_and_opens_no_tunnel_RFC9112_3_2_3() => HttpBench.Run(
        static (request, response) =>
        {
            response.StatusCode = request.Method == "CONNECT" ? 405 : 200;
            response.WriteText($"{request.Target}|{request.Path}|{request.Host}");
            return default;
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            HttpAnswer answer = bench.Ask(peer, "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n");
            Assert.Equal((405, "example.org:443||example.org:443"), (answer.Status, answer.BodyText));
            Assert.True(answer.Closes);     // what follows was meant for somebody else
            Assert.True(peer.IsAtEnd);
            bench.OthersAreServed();
        });

    // To the client everything behind the head of a 2xx is the tunnel's (RFC 9112 §6.3): nothing may come there, and nothing that the client sends is read.
    [Theory]
    [InlineData(200, "1.1", false)]
    [InlineData(200, "1.1", true)]
    [InlineData(200, "1.0", false)]
    [InlineData(200, "1.0", true)]
    [InlineData(204, "1.1", false)]
    [InlineData(299, "1.1", true)]
    public void A_2xx_to_CONNECT_has_neither_a_length_nor_a_body_and_the_connection_ends_RFC9110_9_3_6(int status, string version, bool withLength) => HttpBench.Run(
        async (request, response) =>
        {
            response.StatusCode = status;
            if (status == 204)
            {
                return;
            }

            response.ContentLength = withLength ? 8 : null;
            await response.WriteAsync("not "u8.ToArray());
            await response.FlushAsync();
            await response.WriteAsync("here"u8.ToArray());
        },
        bench =>
        {
            HttpPeer peer = bench.Connect();
            peer.Expect("CONNECT", is10: version == "1.0");
            peer.Socket.ClientSend(System.Text.Encoding.ASCII.GetBytes($"CONNECT example.org:443 HTTP/{version}\r\nHost: example.org:443\r\n\r\n"));
            peer.Socket.ClientSend("GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"u8);
            bench.Settle();
            HttpAnswer answer = Assert.Single(peer.Answers);
            Assert.Equal((status, true, null, null), (answer.Status, answer.Closes, answer.Field("Content-Length"), answer.Field("Transfer-Encoding")));
            Assert.Empty(peer.Tunnel);
            Assert.True(peer.IsAtEnd);
            Assert.Equal(1, bench.Simulation.Handler.Started);
        });

    // What the client takes for a tunnel it begins to use: that must not become a reset over the answer.
    [Theory]
    [InlineData(200)]
    [InlineData(405)]
    public void The_answer_to_CONNECT_reaches_a_client_that_sends_on_RFC9112_9_6(int status) => HttpBench.Run(
        (request, response) =>
        {
            response.StatusCode = status;
            return default;
        },
        bench =>
        {
            HttpPeer peer = bench.Connect();
            peer.Expect("CONNECT");
            bench.Reads = false;
            bench.Send(peer, "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n");
            for (int i = 0; i < 10; i++)
            {
                bench.Send(peer, new byte[1_000]);
            }

            bench.Reads = true;
            bench.Settle();
            Assert.Equal(status, Assert.Single(peer.Answers).Status);
            Assert.False(peer.Socket.AnswersLost);
            bench.Pass(TimeSpan.FromSeconds(3));
            Assert.Equal(0, bench.Connections);
        });

    [Theory]
    [InlineData("PROPFIND")]
    [InlineData("QUERY")]
    [InlineData("M-SEARCH")]
    [InlineData("A_VERY.LONG+METHOD~OF-32-BYTES!!")]
    public void Any_token_is_a_method_RFC9110_9_1(string method) => Says($"{method} /x HTTP/1.1\r\nHost: a", $"{method} /x");

    [Theory]
    [InlineData("/a%2Fb", "/a%2Fb")]
    [InlineData("//a//b", "//a//b")]
    [InlineData("/%c3%a9", "/\u00e9")]
    [InlineData("/a+b", "/a+b")]
    public void Paths_are_decoded_as_applications_expect_RFC3986_2_1(string target, string path) => Says($"GET {target} HTTP/1.1\r\nHost: a", $"GET {target}", $"path {path}");
}
