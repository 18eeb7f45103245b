// Hostile applications, ends in the middle, leftovers of others, and what both protocols must judge alike. The classes are
// those of tests/vectors/http1/README.md.

using System.Globalization;
using System.Text;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Tests.Behaviour.FastCgi;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Http1;

public sealed class HostileResponseTests
{
    private const string Get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    // ---- 23: response splitting and impossible responses ----

    [Theory]
    [InlineData("a\r\nSet-Cookie: evil=1")]
    [InlineData("a\r\n\r\n<html>")]
    [InlineData("a\nb")]
    [InlineData("a\rb")]
    [InlineData("a\0b")]
    [InlineData("\u010d\u010aSet-Cookie: evil=1")]
    [InlineData("\u560d\u560aSet-Cookie: evil=1")]
    public void Http_hostile_23_No_value_of_an_application_ends_a_line_RFC9110_5_5(string value)
    {
        var places = new (string Name, Action<HttpContext> Set)[]
        {
            ("field", context => context.Response.Headers["X-A"] = value),
            ("indexed", context => context.Response.Headers.Append("Set-Cookie", value)),
            ("content type", context => context.Response.ContentType = value),
            ("redirect", context => context.Response.Headers.Location = value),
            ("name", context => context.Response.Headers[value] = "x"),
            ("server", context => context.Response.Headers.Server = value),
            ("upgrade", context => context.Response.Headers.Upgrade = value),
            ("reason", context => context.Features.GetRequiredFeature<IHttpResponseFeature>().ReasonPhrase = value),
        };
        foreach ((string name, Action<HttpContext> set) in places)
        {
            HttpBench.RunHosted(
                context =>
                {
                    set(context);
                    return Task.CompletedTask;
                },
                bench =>
                {
                    // The peer judges every line; what it could not see is a line too many.
                    HttpAnswer answer = bench.Ask(Get);
                    Assert.True(answer.Status == 500 || name == "reason", name);
                    Assert.DoesNotContain("evil", answer.Head, StringComparison.Ordinal);
                    Assert.Empty(answer.Body);
                });
        }
    }

    [Theory]
    [InlineData(204, "GET")]
    [InlineData(205, "GET")]
    [InlineData(304, "GET")]
    [InlineData(200, "HEAD")]
    [InlineData(404, "HEAD")]
    public void Http_hostile_23_A_body_where_none_may_be_never_goes_out_RFC9112_6_3(int status, string method) => HttpBench.Run(
        async (request, response) =>
        {
            response.StatusCode = request.Path == "/" ? status : 200;
            try
            {
                await response.WriteAsync("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"u8.ToArray());
                await response.FlushAsync();
            }
            catch (InvalidOperationException)
            {
            }
        },
        bench =>
        {
            HttpPeer peer = bench.Connect();
            peer.Expect(method);
            HttpAnswer answer = bench.Ask(peer, $"{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
            Assert.Equal((status, 0), (answer.Status, answer.Body.Length));
            bench.Send(peer, "GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
            Assert.EndsWith("evil", peer.Answers[1].BodyText, StringComparison.Ordinal);
        });

    [Theory]
    [InlineData(99)]
    [InlineData(100)]
    [InlineData(101)]
    [InlineData(102)]
    [InlineData(103)]
    [InlineData(199)]
    [InlineData(0)]
    [InlineData(-1)]
    [InlineData(1000)]
    public void Http_hostile_23_No_application_ends_its_request_with_an_interim_status_RFC9110_15_2(int status) => HttpBench.RunHosted(
        context =>
        {
            context.Response.StatusCode = status;
            return Task.CompletedTask;
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            Assert.Equal(500, bench.Ask(peer, Get).Status);
            Assert.Empty(peer.Interims);
            Assert.Equal(500, bench.Ask(peer, Get).Status);
        });

    [Theory]
    [InlineData(10, 9)]
    [InlineData(10, 11)]
    public void Http_hostile_23_A_body_that_does_not_fit_its_length_is_cut_RFC9112_6_3(int length, int written) => HttpBench.Run(
        async (request, response) =>
        {
            response.ContentLength = length;
            await response.FlushAsync();
            await response.WriteAsync(new byte[written]);
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.Send(peer, Get + Get);
            bench.Pass(TimeSpan.FromMilliseconds(200));
            Assert.Empty(peer.Answers);
            Assert.True(peer.IsAtEnd);
            Assert.Equal(1, bench.Simulation.Handler.Started);
        });

    // ---- 24: ends in the middle ----

    [Theory]
    [InlineData("Content-Length: 20\r\n\r\n01234567890123456789", false)]
    [InlineData("Content-Length: 20\r\n\r\n01234567890123456789", true)]
    [InlineData("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nworld\r\n0\r\nX-T: 1\r\n\r\n", false)]
    [InlineData("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nworld\r\n0\r\nX-T: 1\r\n\r\n", true)]
    public void Http_hostile_24_An_end_in_the_middle_is_never_taken_for_the_end_of_a_body_RFC9112_8(string framed, bool resets)
    {
        var ends = new List<bool>();
        HttpBench.Run(
            async (request, response) =>
            {
                Exception? error = await Record.ExceptionAsync(() => PlainCall.Echo(request, response).AsTask());
                Assert.True(error is null or IOException, $"{error}");
                ends.Add(error is null);
                response.StatusCode = error is null ? 200 : 422;
            },
            bench =>
            {
                byte[] bytes = Encoding.ASCII.GetBytes("POST / HTTP/1.1\r\nHost: a\r\n" + framed);
                int bodyAt = bytes.AsSpan().IndexOf("\r\n\r\n"u8) + 4;
                for (int cut = 0; cut <= bytes.Length; cut++)
                {
                    ends.Clear();
                    HttpPeer peer = bench.Connect();
                    bench.Send(peer, bytes.AsSpan(0, cut));
                    if (resets)
                    {
                        peer.Socket.ClientReset();
                    }
                    else
                    {
                        peer.Socket.ClientFinish();
                    }

                    bench.Settle();
                    Assert.Equal(cut < bodyAt ? [] : [cut == bytes.Length], ends);
                    Assert.Equal(cut == bytes.Length ? 1 : 0, peer.Answers.Count(static answer => answer.Status == 200));
                    Assert.True(bench.Connections == 0, $"still open: {cut} of {bytes.Length}");
                }

                bench.OthersAreServed();
            });
    }

    // ---- 25: leftovers ----

    [Fact]
    public void Http_hostile_25_No_byte_of_another_request_or_connection_is_ever_seen() => HttpBench.Run(static bench =>
    {
        // Each connection writes its own mark into everything it sends, in pieces that interleave with those of the others.
        const string Marks = "!$*~";
        var random = new Random(25);
        HttpPeer[] peers = [.. Marks.Select(_ => bench.Connect())];
        Queue<byte>[] queues = [.. Marks.Select(static _ => new Queue<byte>())];
        for (int round = 0; round < 400; round++)
        {
            int which = random.Next(peers.Length);
            if (queues[which].Count == 0)
            {
                queues[which] = new Queue<byte>(Marked(Marks[which], random));
            }

            bench.Send(peers[which], (byte[])[.. Enumerable.Range(0, Math.Min(queues[which].Count, random.Next(1, 2_000))).Select(_ => queues[which].Dequeue())]);
        }

        for (int i = 0; i < peers.Length; i++)
        {
            Assert.True(peers[i].Answers.Count > 10);
            foreach (HttpAnswer answer in peers[i].Answers)
            {
                Assert.Equal(200, answer.Status);
                Assert.All(Marks.Where(mark => mark != Marks[i]), other => Assert.DoesNotContain(other, answer.BodyText));
            }
        }
    });

    private static byte[] Marked(char mark, Random random)
    {
        string own = new(mark, random.Next(1, 900));
        string more = random.Next(2) == 0 ? "" : $"X-{mark}: {new string(mark, random.Next(300))}\r\n";
        string body = new(mark, random.Next(2) == 0 ? 0 : random.Next(3_000));
        return Encoding.ASCII.GetBytes($"POST /{own}?{mark} HTTP/1.1\r\nHost: a\r\nX-Own: {own}\r\n{more}Content-Length: {body.Length}\r\n\r\n{body}");
    }

    [Fact]
    public void Http_hostile_25_What_an_application_keeps_with_a_request_is_gone_with_it() => HttpBench.RunHosted(
        static context =>
        {
            bool isFirst = context.Request.Path == "/first";
            string found = $"{context.Items.Count} {context.Features.Get<string>()} {context.RequestAborted.IsCancellationRequested} {context.Response.Headers.Count} {context.TraceIdentifier == "mine"} {context.Request.HasFormContentType}";
            if (isFirst)
            {
                context.Items["secret"] = 1;
                context.Features.Set("secret");
                context.RequestAborted = new CancellationToken(canceled: true);
                context.Response.Headers["X-Secret"] = "1";
                context.TraceIdentifier = "mine";
                context.User = new System.Security.Claims.ClaimsPrincipal(new System.Security.Claims.ClaimsIdentity("secret"));
            }

            return context.Response.WriteAsync($"{found} {context.User.Identity?.AuthenticationType}");
        },
        static bench =>
        {
            HttpPeer peer = bench.Connect();
            for (int i = 0; i < 3; i++)
            {
                _ = bench.Ask(peer, "POST /first HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\na=b");
                HttpAnswer answer = bench.Ask(peer, "GET /second HTTP/1.1\r\nHost: a\r\n\r\n");
                Assert.Equal(("0  False 0 False False ", null), (answer.BodyText, answer.Field("X-Secret")));
            }
        });

    // ---- 26: what HTTP and FastCGI must judge alike ----

    [Theory]
    [InlineData("POST", "/", "Content-Length", "+5", 400)]
    [InlineData("POST", "/", "Content-Length", "0x5", 400)]
    [InlineData("POST", "/", "Content-Length", "5,5", 400)]
    [InlineData("POST", "/", "Content-Length", "5 5", 400)]
    [InlineData("GET", "/", "Host", "a b", 400)]
    [InlineData("GET", "/", "Host", "a@b", 400)]
    [InlineData("GET", "/", "Host", "a/b", 400)]
    [InlineData("GET", "/", "Host", "[::1", 400)]
    [InlineData("GET", "/", "Host", "[::1]:80", 200)]
    [InlineData("GET", "*", "Host", "a", 400)]
    [InlineData("OPTIONS", "*", "Host", "a", 200)]
    [InlineData("GET", "a:443", "Host", "a", 400)]
    [InlineData("GET", "no-slash", "Host", "a", 400)]
    [InlineData("GET", "/%00", "Host", "a", 400)]
    [InlineData("G(T", "/", "Host", "a", 400)]
    [InlineData("GET", "/%2e%2e/x", "Host", "a", 400)]
    [InlineData("GET", "/x/..%2Fy", "Host", "a", 400)]
    [InlineData("GET", "/a#b", "Host", "a", 400)]
    [InlineData("GET", "/a\\b", "Host", "a", 400)]
    [InlineData("GET", "http://b:81/x?y", "Host", "a", 200)]
    [InlineData("CONNECT", "b:443", "Host", "b:443", 200)]
    [InlineData("CONNECT", "b:443", "Host", "a:443", 400)]
    [InlineData("GET", "/", "X-A", "a\rb", 400)]
    [InlineData("GET", "/", "X-A", "a\nb", 400)]
    [InlineData("GET", "/", "X-A", "a\0b", 400)]
    [InlineData("GET", "/", "X-A", "caf\u00e9", 200)]
    public void Http_hostile_26_FastCGI_judges_a_request_as_HTTP_does(string method, string target, string name, string value, int status)
    {
        string? http = null;
        string? fastCgi = null;
        HttpBench.Run(bench =>
        {
            string host = name == "Host" ? "" : "Host: example.org\r\n";
            HttpAnswer answer = bench.Ask($"{method} {target} HTTP/1.1\r\n{host}{name}: {value}\r\n\r\n");
            Assert.Equal(status, answer.Status);
            http = Meaning(answer.BodyText);
        });
        FastCgiBench.Run(bench =>
        {
            string variable = name == "Content-Length" ? "CONTENT_LENGTH" : "HTTP_" + name.Replace('-', '_').ToUpperInvariant();
            (string, string)[] parameters = [("REQUEST_METHOD", method), ("REQUEST_URI", target), .. name == "Host" ? [] : ((string, string)[])[("HTTP_HOST", "example.org")], (variable, value)];
            ReceivedResponse response = bench.Ask([.. Wire.BeginRequest(), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(parameters)), .. Wire.Record(Wire.Stdin, 1, [])]);
            Assert.Equal(status, response.Status);
            fastCgi = Meaning(response.BodyText);
        });
        Assert.Equal(http, fastCgi);
    }

    // Method, target, path, query, scheme, host and body of an echo.
    private static string Meaning(string echo) => string.Join('\n', echo.Split('\n').Take(6));

    [Fact]
    public void Http_hostile_26_The_field_Proxy_is_an_ordinary_field_and_no_variable_of_anybody()
    {
        string before = string.Create(CultureInfo.InvariantCulture, $"{Environment.GetEnvironmentVariable("HTTP_PROXY")}");
        HttpBench.Run(bench =>
        {
            Assert.Contains("\nProxy: http://evil.example/\n", bench.Ask("GET / HTTP/1.1\r\nHost: a\r\nProxy: http://evil.example/\r\n\r\n").BodyText, StringComparison.Ordinal);
            Assert.Equal(before, string.Create(CultureInfo.InvariantCulture, $"{Environment.GetEnvironmentVariable("HTTP_PROXY")}"));
        });
        FastCgiBench.Run(static bench =>
            Assert.DoesNotContain("evil", bench.Ask(Wire.Request("/", more: [("HTTP_PROXY", "http://evil.example/")])).BodyText, StringComparison.Ordinal));
    }
}
