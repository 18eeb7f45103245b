// What is written can be read back, fits or is not written at all, and never carries a line end of its own.

using System.Text;
using Millrace.Protocols;
using Millrace.Protocols.Http1;

namespace Millrace.Tests.Protocols.Http1;

public sealed class Http1WriterTests
{
    [Fact]
    public void Writes_a_response_head_RFC9112_4()
    {
        Span<byte> output = stackalloc byte[256];
        var writer = new Http1Writer(output);
        Assert.Equal(WriteResult.Written, writer.StatusLine(200));
        Assert.Equal(WriteResult.Written, writer.Header("Content-Type", "text/plain"));
        Assert.Equal(WriteResult.Written, writer.Header("X-Bytes"u8, "a\tb"u8));
        Assert.Equal(WriteResult.Written, writer.ContentLength(13));
        Assert.Equal(WriteResult.Written, writer.EndOfHead());
        Assert.Equal(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Bytes: a\tb\r\nContent-Length: 13\r\n\r\n",
            Encoding.ASCII.GetString(output[..writer.Written]));
    }

    [Theory]
    [InlineData(404, "HTTP/1.1 404 Not Found\r\n")]
    [InlineData(413, "HTTP/1.1 413 Payload Too Large\r\n")]
    [InlineData(299, "HTTP/1.1 299 \r\n")]
    [InlineData(999, "HTTP/1.1 999 \r\n")]
    public void Writes_status_lines_RFC9112_4(int status, string expected)
    {
        Span<byte> output = stackalloc byte[64];
        var writer = new Http1Writer(output);
        Assert.Equal(WriteResult.Written, writer.StatusLine(status));
        Assert.Equal(expected, Encoding.ASCII.GetString(output[..writer.Written]));
    }

    [Fact]
    public void Every_fault_has_a_status_line_with_a_reason_RFC9110_15() =>
        Assert.All(Enum.GetValues<Http1Fault>(), f => Assert.NotEmpty(StatusLines.ReasonOf(Http1Faults.StatusOf(f))));

    [Theory]
    [InlineData("X-A", "a\rb")]
    [InlineData("X-A", "a\nSet-Cookie: x")]
    [InlineData("X-A", "a\0")]
    [InlineData("X-A", "caf\u00e9")]
    [InlineData("X-A", "\u010a")]
    [InlineData("X-A", "\u007f")]
    [InlineData("X A", "b")]
    [InlineData("X:A", "b")]
    [InlineData("", "b")]
    [InlineData("X\u212a", "b")]
    [InlineData("X\r\nA", "b")]
    public void Response_splitting_is_refused_RFC9110_5_5(string name, string value)
    {
        Span<byte> output = stackalloc byte[256];
        var writer = new Http1Writer(output);
        Assert.Equal(WriteResult.Invalid, writer.Header(name, value));
        Assert.Equal(WriteResult.Invalid, writer.Header(Encoding.UTF8.GetBytes(name), Encoding.UTF8.GetBytes(value)));
        Assert.Equal(0, writer.Written);
    }

    [Theory]
    [InlineData(99, "")]
    [InlineData(1000, "")]
    [InlineData(200, "O\nK")]
    public void Bad_status_lines_are_refused_RFC9112_4(int status, string reason)
    {
        var writer = new Http1Writer(stackalloc byte[64]);
        Assert.Equal(WriteResult.Invalid, writer.StatusLine(status, reason));
        Assert.Equal(WriteResult.Invalid, writer.ContentLength(-1));
        Assert.Equal(WriteResult.Invalid, writer.ChunkHeader(0));
        Assert.Equal(0, writer.Written);
    }

    [Fact]
    public void Each_item_fits_or_is_not_written_at_all()
    {
        byte[] full = new byte[200];
        for (int item = 0; item < 7; item++)
        {
            var roomy = new Http1Writer(full);
            Assert.Equal(WriteResult.Written, WriteItem(ref roomy, item));
            for (int size = 0; size < roomy.Written; size++)
            {
                var tight = new Http1Writer(full.AsSpan(0, size));
                Assert.Equal(WriteResult.NoRoom, WriteItem(ref tight, item));
                Assert.Equal(0, tight.Written);
            }

            var exact = new Http1Writer(full.AsSpan(0, roomy.Written));
            Assert.Equal(WriteResult.Written, WriteItem(ref exact, item));
        }
    }

    [Fact]
    public void Chunks_are_read_back_as_written_RFC9112_7_1()
    {
        var random = new Random(5);
        for (int round = 0; round < 200; round++)
        {
            byte[] output = new byte[4000];
            var writer = new Http1Writer(output);
            var data = new List<byte>();
            for (int n = random.Next(5); n > 0; n--)
            {
                byte[] piece = new byte[random.Next(1, 600)];
                random.NextBytes(piece);
                data.AddRange(piece);
                Assert.Equal(WriteResult.Written, writer.ChunkHeader(piece.Length));
                Assert.Equal(WriteResult.Written, writer.Raw(piece));
                Assert.Equal(WriteResult.Written, writer.ChunkEnd());
            }

            Assert.Equal(WriteResult.Written, writer.LastChunkHeader());
            Assert.Equal(WriteResult.Written, writer.Header("X-Checksum", "abc"));
            Assert.Equal(WriteResult.Written, writer.EndOfHead());
            Assert.Equal(data, ReadChunks(output.AsSpan(0, writer.Written), "X-Checksum"));
        }
    }

    [Fact]
    public void Fields_are_read_back_as_written_RFC9112_5()
    {
        const string nameChars = "!#$%&'*+-.^_`|~09AZaz";
        const string valueChars = " \t!\"#:,;=\\(){}09AZaz~";
        var random = new Random(6);
        var head = new Http1Head();
        for (int round = 0; round < 2000; round++)
        {
            byte[] output = new byte[8192];
            "GET / HTTP/1.1\r\nHost: a\r\n"u8.CopyTo(output);
            var writer = new Http1Writer(output.AsSpan(25));
            (string Name, string Value)[] fields = [.. Enumerable.Range(0, random.Next(20)).Select(_ => ("x" + Text(nameChars, 90), Text(valueChars, 150)))];
            foreach ((string name, string value) in fields)
            {
                Assert.Equal(WriteResult.Written, writer.Header(name, value));
            }

            Assert.Equal(WriteResult.Written, writer.EndOfHead());
            byte[] written = output[..(25 + writer.Written)];
            Assert.Equal(ReadResult.Done, head.Read(written, new Http1Limits(), out int consumed));
            Assert.Equal(written.Length, consumed);
            for (int i = 0; i < fields.Length; i++)
            {
                Assert.Equal(fields[i].Name, Encoding.ASCII.GetString(head.Headers[i + 1].Name(written)));
                Assert.Equal(fields[i].Value.Trim(' ', '\t'), Encoding.ASCII.GetString(head.Headers[i + 1].Value(written)));
            }
        }

        string Text(string chars, int lengthMax) => string.Concat(Enumerable.Range(0, random.Next(lengthMax)).Select(_ => chars[random.Next(chars.Length)]));
    }

    private static WriteResult WriteItem(ref Http1Writer writer, int item) => item switch
    {
        0 => writer.StatusLine(200),
        1 => writer.StatusLine(299, "Own words"),
        2 => writer.Header("Name", "value"),
        3 => writer.Header("Name"u8, "value"u8),
        4 => writer.ContentLength(long.MaxValue),
        5 => writer.ChunkHeader(long.MaxValue),
        _ => writer.Raw(Http1Writer.Continue),
    };

    private static List<byte> ReadChunks(ReadOnlySpan<byte> input, string trailer)
    {
        var reader = new ChunkedReader(new Http1Limits());
        var data = new List<byte>();
        while (true)
        {
            ReadResult result = reader.Read(input, out int consumed, out int start, out int length);
            data.AddRange(input.Slice(start, length));
            if (result == ReadResult.Done)
            {
                Assert.Equal(input.Length, consumed);
                Assert.Equal(trailer, Encoding.ASCII.GetString(reader.Trailers[0].Name(input[reader.TrailersStart..])));
                Assert.Equal(data.Count, reader.DataBytes);
                return data;
            }

            Assert.Equal(ReadResult.NeedMore, result);
            Assert.True(length > 0);
            input = input[consumed..];
        }
    }
}
