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
    [InlineData("/a/../b", "/b", "")]
    [InlineData("/a/./b", "/a/b", "")]
    [InlineData("/%2e%2e/x", "/x", "")]
    [InlineData("/../../etc/passwd", "/etc/passwd", "")]
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

    [Fact]
    public void A_NUL_in_the_path_is_400_and_asks_no_handler_RFC3986_2_1() => Run(static bench =>
    {
        Caller caller = bench.Connect();
        Assert.Equal(400, bench.Get(caller, "/a%00b").Status);
        bench.OthersAreServed();
    });

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
