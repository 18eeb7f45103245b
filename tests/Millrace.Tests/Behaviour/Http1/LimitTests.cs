// Every limit of a request over HTTP, both its sides. RFC 9112 §3, RFC 6585 §5, RFC 9110 §15.5.14.

using System.Globalization;
using System.Text;

namespace Millrace.Tests.Behaviour.Http1;

public sealed class LimitTests
{
    private static void Answers(int status, string request, string refusal, Action<MillraceOptions> options) => HttpBench.HoweverCut(
        Encoding.ASCII.GetBytes(request),
        (bench, peer) =>
        {
            HttpAnswer answer = Assert.Single(peer.Answers);
            Assert.Equal((status, status != 200), (answer.Status, answer.Closes));
            Assert.Equal(status != 200, peer.IsAtEnd);
            Assert.Equal(status != 200, bench.Refused(refusal) > 0);
        },
        options: options,
        most: 60);

    [Theory]
    [InlineData(100, 200)]
    [InlineData(101, 414)]
    public void A_request_line_RFC9112_3(int length, int status) => Answers(
        status, $"GET /{new string('a', length - "GET / HTTP/1.1\r\n".Length)} HTTP/1.1\r\nHost: a\r\n\r\n", "http-request-line-too-long",
        static options => options.MaxRequestLineBytes = 100);

    [Theory]
    [InlineData(8_192, 200)]
    [InlineData(8_193, 414)]
    public void A_request_line_by_default_RFC9112_3(int length, int status) => Answers(
        status, $"GET /{new string('a', length - "GET / HTTP/1.1\r\n".Length)} HTTP/1.1\r\nHost: a\r\n\r\n", "http-request-line-too-long", static _ => { });

    // The section ends with an empty line that counts as well.
    private static string Headers(int bytes) => $"GET / HTTP/1.1\r\nHost: a\r\nX: {new string('x', bytes - "Host: a\r\nX: \r\n\r\n".Length)}\r\n\r\n";

    [Theory]
    [InlineData(1_024, 200)]
    [InlineData(1_025, 431)]
    public void A_header_section_RFC6585_5(int bytes, int status) => Answers(status, Headers(bytes), "http-headers-too-large", static options =>
    {
        options.MaxHeadBytes = 1_024;
        options.MaxRequestLineBytes = 1_024;
    });

    [Theory]
    [InlineData(32_768, 200)]
    [InlineData(32_769, 431)]
    public void A_header_section_by_default_and_at_most_RFC6585_5(int bytes, int status) =>
        Answers(status, Headers(bytes), "http-headers-too-large", static options => options.MaxHeadBytes = 1_000_000);

    [Theory]
    [InlineData(1, 1, 200)]
    [InlineData(1, 2, 431)]
    [InlineData(10, 10, 200)]
    [InlineData(10, 11, 431)]
    [InlineData(100, 100, 200)]
    [InlineData(100, 101, 431)]
    public void The_number_of_fields_RFC6585_5(int max, int fields, int status) => Answers(
        status, $"GET / HTTP/1.1\r\nHost: a\r\n{string.Concat(Enumerable.Range(1, fields - 1).Select(static i => $"X{i}: y\r\n"))}\r\n", "http-too-many-headers",
        options => options.MaxHeaders = max);

    [Theory]
    [InlineData(32, 200)]
    [InlineData(33, 501)]
    public void A_method_RFC9112_3(int length, int status) => Answers(status, $"{new string('M', length)} / HTTP/1.1\r\nHost: a\r\n\r\n", "http-method-too-long", static _ => { });

    [Theory]
    [InlineData(1_000, 200)]
    [InlineData(1_001, 413)]
    public void A_body_of_announced_length_RFC9110_15_5_14(int length, int status) => HttpBench.Run(
        bench =>
        {
            HttpPeer peer = bench.Connect();
            bench.Send(peer, $"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
            Assert.Equal(status == 413 ? [413] : [], peer.Answers.Select(static answer => answer.Status));
            bench.Send(peer, new byte[length]);
            Assert.Equal(status, Assert.Single(peer.Answers).Status);
        },
        static options => options.MaxRequestBodySize = 1_000);

    [Theory]
    [InlineData(1_000, 200)]
    [InlineData(1_001, 413)]
    public void A_chunked_body_RFC9110_15_5_14(int length, int status) => HttpBench.HoweverCut(
        Encoding.ASCII.GetBytes($"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1f4\r\n{new string('x', 500)}\r\n{(length - 500).ToString("x", CultureInfo.InvariantCulture)}\r\n{new string('x', length - 500)}\r\n0\r\n\r\n"),
        (_, peer) => Assert.Equal(status, Assert.Single(peer.Answers).Status),
        options: static options => options.MaxRequestBodySize = 1_000,
        most: 100);

    [Theory]
    [InlineData(0)]
    [InlineData(long.MaxValue)]
    public void The_limit_of_a_body_may_be_nothing_and_everything_RFC9110_15_5_14(long max) => HttpBench.Run(
        bench =>
        {
            Assert.Equal(200, bench.Ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").Status);
            HttpPeer peer = bench.Connect();
            Assert.Equal(max == 0 ? 413 : 200, bench.Ask(peer, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx").Status);
        },
        options => options.MaxRequestBodySize = max);

    [Theory]
    [InlineData(10_000, false)]
    [InlineData(10_001, true)]
    public void What_of_a_body_nobody_reads_is_drained_or_ends_the_connection_MaxDiscardBytes(int length, bool closes) => HttpBench.Run(
        static (request, response) => default,
        bench =>
        {
            HttpPeer peer = bench.Connect();
            HttpAnswer answer = bench.Ask(peer, $"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
            Assert.Equal((200, closes), (answer.Status, answer.Closes));
            if (!closes)
            {
                bench.Send(peer, new byte[length]);
                bench.Send(peer, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                Assert.Equal(2, peer.Answers.Count);
            }
        },
        static options => options.MaxDiscardBytes = 10_000);
}
