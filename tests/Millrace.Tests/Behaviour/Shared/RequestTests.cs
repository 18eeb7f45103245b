// What a handler is told of a request is the same over either protocol: method, target, path, query, fields. RFC 9110 §5,
// RFC 9112 §3.2, RFC 3875 §4.1.

using System.Globalization;

namespace Millrace.Tests.Behaviour.Shared;

public abstract class RequestTests(Way way) : SharedTests(way)
{
    private static void Has(Answer answer, string line) => Assert.Contains("\n" + line + "\n", "\n" + answer.BodyText, StringComparison.Ordinal);

    [Theory]
    [InlineData("GET")]
    [InlineData("DELETE")]
    [InlineData("OPTIONS")]
    [InlineData("PROPFIND")]
    [InlineData("M-SEARCH")]
    public void The_method_is_given_as_sent_RFC9110_9_1(string method) => Run(bench =>
    {
        Caller caller = bench.Connect();
        Has(bench.Ask(caller, caller.Request("/m?a", method)), $"{method} /m?a");
    });

    [Theory]
    [InlineData("/", "/", "")]
    [InlineData("/a/b?c=d&e=%20", "/a/b", "?c=d&e=%20")]
    [InlineData("/a?", "/a", "?")]
    [InlineData("/a?b?c", "/a", "?b?c")]
    [InlineData("/a%2Fb", "/a%2Fb", "")]
    [InlineData("/a%20b", "/a b", "")]
    [InlineData("/.well-known/a..b/...", "/.well-known/a..b/...", "")]
    [InlineData("/a?b=/../c", "/a", "?b=/../c")]
    [InlineData("//a//b", "//a//b", "")]
    [InlineData("/%c3%a9", "/\u00e9", "")]
    [InlineData("/a;b=c,d", "/a;b=c,d", "")]
    public void Target_path_and_query_are_told_apart_and_the_path_decoded_RFC3986_3(string target, string path, string query) => Run(bench =>
    {
        Answer answer = bench.Get(target);
        Has(answer, $"GET {target}");
        Has(answer, $"path {path}");
        Has(answer, $"query {query}");
        Has(answer, "scheme http");
        Has(answer, "host example.org");
    });

    [Theory]
    [InlineData("/a/../b", "/b")]
    [InlineData("/a/./b", "/a/b")]
    [InlineData("/admin//../users", "/admin/users")]
    [InlineData("/%2e%2e/x", "/x")]
    [InlineData("/../../etc/passwd", "/etc/passwd")]
    [InlineData("/x/..%2fadmin", "/x/..%2fadmin")]
    [InlineData("/x%5c..%5cadmin", "/x\\..\\admin")]
    public void Dot_segments_are_refused_by_default_and_removed_where_the_option_says_so_RFC3986_5_2_4(string target, string path)
    {
        Run(bench =>
        {
            Caller caller = bench.Connect();
            Assert.Equal(400, bench.Get(caller, target).Status);
            Assert.Equal(1, bench.Refused(bench.IsHttp ? "http-target-dot-segments" : "cgi-dot-segments"));
            bench.OthersAreServed();
        });
        Run(bench => Has(bench.Get(target), $"path {path}"), static options => options.DotSegments = DotSegments.Remove);
    }

    [Theory]
    [InlineData("/public#/../admin/users")]
    [InlineData("/a#b")]
    [InlineData("/a?b#c")]
    [InlineData("/a\\b")]
    [InlineData("/a\\..\\b")]
    public void Fragments_and_backslashes_are_refused_whatever_the_option_says_RFC9112_3_2_1(string target) => Run(
        bench =>
        {
            Assert.Equal(400, bench.Get(target).Status);
            Assert.Equal(1, bench.Refused(bench.IsHttp ? "http-target-syntax" : "cgi-target-invalid"));
            bench.OthersAreServed();
        },
        static options => options.DotSegments = DotSegments.Remove);

    [Theory]
    [InlineData(10, 10, 200)]
    [InlineData(10, 11, 431)]
    [InlineData(null, 100, 200)]
    [InlineData(null, 101, 431)]
    public void The_number_of_fields_is_limited_over_either_protocol_RFC6585_5(int? max, int fields, int status) => Run(
        bench =>
        {
            // Host is one of them.
            (string, string)[] more = [.. Enumerable.Range(1, fields - 1).Select(static i => (string.Create(CultureInfo.InvariantCulture, $"X-{i}"), "y"))];
            Assert.Equal(status, bench.Get("/", more).Status);
            Assert.Equal(status == 200 ? 0 : 1, bench.Refused(bench.IsHttp ? "http-too-many-headers" : "cgi-too-many-headers"));
            bench.OthersAreServed();
        },
        options => options.MaxHeaders = max ?? options.MaxHeaders);

    [Fact]
    public void The_host_of_an_absolute_target_counts_and_not_the_field_Host_RFC9112_3_2_2() => Run(static bench =>
    {
        Answer answer = bench.Get("http://real.example:8080/x");    // the field says example.org
        Has(answer, "host real.example:8080");
        Has(answer, "Host: real.example:8080");
        Has(answer, "path /x");
        Assert.DoesNotContain("example.org", answer.BodyText, StringComparison.Ordinal);
    });

    [Theory]
    [InlineData("example.org:443", 200)]
    [InlineData("Example.ORG:443", 200)]
    [InlineData("admin.example:443", 400)]
    public void CONNECT_with_the_Host_of_another_server_is_refused_RFC9112_3_2_3(string target, int status) => Run(bench =>
    {
        Caller caller = bench.Connect();
        Assert.Equal(status, bench.Ask(caller, caller.Request(target, "CONNECT")).Status);
        Assert.Equal(status == 200 ? 0 : 1, bench.Refused(bench.IsHttp ? "http-host-disagrees" : "cgi-host-disagrees"));
        bench.OthersAreServed();
    });

    [Fact]
    public void A_NUL_in_the_path_is_400_and_asks_no_handler_RFC3986_2_1()
    {
        int asked = 0;
        Run(
            call =>
            {
                asked++;
                return Call.Echo(call);
            },
            bench =>
            {
                Caller caller = bench.Connect();
                Assert.Equal(400, bench.Get(caller, "/a%00b").Status);
                Assert.Equal(0, asked);
                bench.OthersAreServed();
                Assert.Equal(1, asked);
            });
    }

    [Theory]
    [InlineData("/%")]
    [InlineData("/%zz")]
    [InlineData("/%c0%af")]
    [InlineData("/%c0%ae%c0%ae/x")]
    [InlineData("/target/100%")]
    [InlineData("/100%?x")]
    [InlineData("/%4")]
    [InlineData("/%u0041")]
    public void Escapes_that_are_none_stay_as_they_are_over_either_protocol_RFC3986_2_1(string target) =>
        Run(bench => Has(bench.Get(target), $"path {target.Split('?')[0]}"));

    [Fact]
    public void Fields_are_given_with_their_values_and_repeated_ones_all_RFC9110_5_2() => Run(static bench =>
    {
        Answer answer = bench.Get(
            "/", ("X-One", "1"), ("X-Two", "a"), ("X-Two", "b"), ("X-Empty", ""), ("X-Eight-Bit", "caf\u00e9"), ("X-Odd", "\"q\"\t(c)=;,"), ("Cookie", "a=1; b=2"), ("User-Agent", "test/1"));
        Assert.Equal(200, answer.Status);
        foreach (string line in (string[])["X-One: 1", "X-Two: a,b", "X-Eight-Bit: caf\u00e9", "X-Odd: \"q\"\t(c)=;,", "Cookie: a=1; b=2", "User-Agent: test/1"])
        {
            Has(answer, line);
        }
    });

    [Fact]
    public void Many_and_long_fields_arrive_whole_RFC9110_5_4() => Run(static bench =>
    {
        (string, string)[] fields = [.. Enumerable.Range(0, 90).Select(static i => ($"X-N{i}", new string((char)('a' + (i % 26)), i * 3))), ("X-Long", new string('l', 16_000))];
        Answer answer = bench.Get("/many", fields);
        Assert.Equal(200, answer.Status);
        foreach ((string name, string value) in fields.Where(static field => field.Item2.Length > 0))
        {
            Has(answer, $"{name}: {value}");
        }
    });

    [Fact]
    public void Many_field_names_cost_no_more_than_their_number() => Run(static bench =>
    {
        (string, string)[] fields = [.. Enumerable.Range(0, 95).Select(static i => (string.Create(CultureInfo.InvariantCulture, $"X-{Convert.ToString(i, 2).PadLeft(12, '0').Replace('0', 'A').Replace('1', 'B')}"), "v"))];
        Caller caller = bench.Connect();
        var watch = System.Diagnostics.Stopwatch.StartNew();
        for (int i = 0; i < 100; i++)
        {
            Assert.Equal(200, bench.Get(caller, "/names", fields).Status);
        }

        Assert.True(watch.ElapsedMilliseconds < 5_000, $"{watch.ElapsedMilliseconds} ms");
    });
}

public sealed class FastCgiRequestTests() : RequestTests(Way.FastCgiToPlain);

public sealed class HttpRequestTests() : RequestTests(Way.HttpToPlain);

public sealed class FastCgiHostedRequestTests() : RequestTests(Way.FastCgiToHosted);

public sealed class HttpHostedRequestTests() : RequestTests(Way.HttpToHosted);
