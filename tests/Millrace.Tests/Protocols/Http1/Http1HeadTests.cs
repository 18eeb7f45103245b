// How Http1Head behaves over time: resuming, starting afresh, early refusal. What it accepts is in the vectors.

using System.Text;
using Millrace.Protocols;
using Millrace.Protocols.Http1;

namespace Millrace.Tests.Protocols.Http1;

public sealed class Http1HeadTests
{
    private const string Request = "GET /hello?x=1 HTTP/1.1\r\nHost: a\r\nX-A: b\r\n\r\n";
    private readonly Http1Head _head = new();

    [Fact]
    public void Resumes_over_a_buffer_that_was_moved()
    {
        byte[] bytes = Encoding.ASCII.GetBytes(Request);
        for (int i = 1; i < bytes.Length; i++)
        {
            byte[] elsewhere = bytes[..i];
            Assert.Equal(ReadResult.NeedMore, _head.Read(elsewhere, new Http1Limits(), out int none));
            Assert.Equal(0, none);
            Array.Clear(elsewhere);
        }

        Assert.Equal(ReadResult.Done, _head.Read(bytes, new Http1Limits(), out int consumed));
        Assert.Equal(bytes.Length, consumed);
        Assert.Equal("/hello"u8, _head.Path.Of(bytes));
        Assert.Equal(2, _head.Headers.Length);
    }

    [Fact]
    public void Reads_pipelined_requests_one_after_the_other_RFC9112_9_3_2()
    {
        ReadOnlySpan<byte> rest = Encoding.ASCII.GetBytes(string.Concat(Enumerable.Repeat(Request, 16)));
        for (int i = 0; i < 16; i++)
        {
            Assert.Equal(ReadResult.Done, _head.Read(rest, new Http1Limits(), out int consumed));
            Assert.Equal("?x=1"u8, _head.Query.Of(rest));
            Assert.Equal("a"u8, _head.Authority.Of(rest));
            Assert.Equal(Request.Length, consumed);
            rest = rest[consumed..];
        }

        Assert.True(rest.IsEmpty);
    }

    [Fact]
    public void Nothing_of_one_request_is_left_in_the_next()
    {
        Read(
            "POST http://b/x?y HTTP/1.1\r\nHost: b\r\nConnection: close, upgrade\r\nUpgrade: u\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
            ReadResult.Done);
        Assert.True(_head.IsUpgrade && _head.ExpectsContinue && !_head.KeepAlive && _head.ContentLength == 5 && _head.Form == TargetForm.Absolute);
        Read("GET / HTTP/1.0\r\n\r\n", ReadResult.Done);
        Assert.True(!_head.IsUpgrade && !_head.ExpectsContinue && !_head.KeepAlive && !_head.IsChunked && _head.ContentLength == -1);
        Assert.Equal((0, 0, -1, TargetForm.Origin), (_head.Query.Length, _head.Authority.Length, _head.HostIndex, _head.Form));
        Assert.True(_head.Headers.IsEmpty);
    }

    [Fact]
    public void Stays_refused_until_reset()
    {
        Read("GET /\x01 HTTP/1.1\r\n", ReadResult.Faulty);
        Assert.Equal(Http1Fault.ControlByte, _head.Fault);
        Read(Request, ReadResult.Faulty);
        _head.Reset();
        Read(Request, ReadResult.Done);
        Assert.Equal(Http1Fault.None, _head.Fault);
    }

    [Theory]
    [InlineData("\x16\x03", Http1Fault.TlsHandshake)]
    [InlineData("PRI * HTTP/2.0\r\n", Http1Fault.Http2Preface)]
    [InlineData("GET /old\r\n", Http1Fault.VersionMissing)]
    [InlineData("\x80", Http1Fault.Method)]
    [InlineData("GET / HTTP/1.1\r\nHost : a\r\n", Http1Fault.SpaceBeforeColon)]
    [InlineData("GET / HTTP/1.1\r\nHost: a\nX", Http1Fault.BareLf)]
    public void What_can_never_become_a_request_is_refused_without_waiting_for_more_RFC9112_3(string text, Http1Fault fault)
    {
        Read(text, ReadResult.Faulty);
        Assert.Equal(fault, _head.Fault);
    }

    [Fact]
    public void Table_of_fields_grows_to_the_limit()
    {
        string fields = string.Concat(Enumerable.Range(0, 999).Select(i => $"X-{i}: {i}\r\n"));
        byte[] bytes = Encoding.ASCII.GetBytes($"GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        Assert.Equal(ReadResult.Done, _head.Read(bytes, new Http1Limits { HeaderCountMax = 1000 }, out _));
        Assert.Equal(1000, _head.Headers.Length);
        Assert.Equal("X-998"u8, _head.Headers[999].Name(bytes));
        Assert.Equal("998"u8, _head.Headers[999].Value(bytes));
    }

    [Fact]
    public void Reading_byte_by_byte_costs_one_pass_not_one_per_byte()
    {
        // 64 KiB in one field, fed a byte at a time: a reader that starts over would look at 2 GiB and take seconds.
        byte[] bytes = Encoding.ASCII.GetBytes($"GET / HTTP/1.1\r\nHost: a\r\nX-A: {new string('v', 65536)}\r\n\r\n");
        var limits = new Http1Limits { HeaderBytesMax = 100_000 };
        var watch = System.Diagnostics.Stopwatch.StartNew();
        for (int round = 0; round < 5; round++)
        {
            _head.Reset();
            for (int i = 0; i < bytes.Length; i++)
            {
                Assert.Equal(ReadResult.NeedMore, _head.Read(bytes.AsSpan(0, i), limits, out _));
            }

            Assert.Equal(ReadResult.Done, _head.Read(bytes, limits, out _));
        }

        Assert.True(watch.Elapsed < TimeSpan.FromSeconds(3), $"{watch.Elapsed.TotalSeconds} s for five times 64 KiB");
    }

    [Fact]
    public void A_buffer_of_HeadBytesMax_always_leads_to_an_answer_RFC6585_5()
    {
        var limits = new Http1Limits { RequestLineMax = 100, HeaderBytesMax = 200 };
        string longestLine = "\r\nGET /" + new string('a', 84) + " HTTP/1.1\r\n";
        string much = new('y', 400);
        foreach (string text in new[] { longestLine + much, "\r\nGET /" + much, longestLine + "Host: a\r\nX: " + much })
        {
            _head.Reset();
            byte[] bytes = Encoding.ASCII.GetBytes(text)[..(int)limits.HeadBytesMax];
            Assert.Equal(ReadResult.Faulty, _head.Read(bytes, limits, out _));
        }
    }

    private void Read(string text, ReadResult expected) =>
        Assert.Equal(expected, _head.Read(Encoding.Latin1.GetBytes(text), new Http1Limits(), out _));
}
