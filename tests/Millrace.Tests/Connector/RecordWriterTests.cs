// Records of a request as a client writes them (FastCGI 1.0 §3.3, §3.4, §5): read back by the reader of the server.

using Millrace.Connector;
using Millrace.Protocols;
using Millrace.Protocols.FastCgi;

namespace Millrace.Tests.Connector;

public sealed class RecordWriterTests
{
    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(65_534)]
    [InlineData(65_535)]
    [InlineData(65_536)]
    [InlineData(131_070)]
    [InlineData(200_000)]
    public void A_stream_is_cut_into_records_of_at_most_65535_bytes_and_ends_with_an_empty_one_3_3(int length)
    {
        byte[] content = [.. Enumerable.Range(0, length).Select(static i => (byte)(i * 7))];
        using var writer = new RecordWriter();
        writer.WriteBegin(keepConnection: true);
        writer.BeginStream(RecordType.Stdin);
        foreach (byte[] piece in content.Chunk(10_000))
        {
            writer.Append(piece);
        }
        writer.EndStream(RecordType.Stdin);

        var records = Read(writer.Written.Span);
        Assert.Equal(RecordType.BeginRequest, records[0].Type);
        Assert.Equal(new BeginRequest(Role.Responder, KeepConnection: true), BeginRequest.Read(records[0].Content));
        Assert.All(records[1..], static record => Assert.Equal(RecordType.Stdin, record.Type));
        Assert.All(records[1..^1], static record => Assert.InRange(record.Content.Length, 1, 65_535));
        Assert.Empty(records[^1].Content);
        Assert.Equal(content, records[1..].SelectMany(static record => record.Content));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(65_535)]
    [InlineData(200_000)]
    public void What_has_been_written_is_given_another_id_in_each_record_3_3(int length)
    {
        using var writer = new RecordWriter();
        using var other = new RecordWriter(65_535);
        foreach (RecordWriter its in (RecordWriter[])[writer, other])
        {
            its.WriteBegin(keepConnection: true);
            its.BeginStream(RecordType.Params);
            its.AppendPair("A"u8, new byte[length]);
            its.EndStream(RecordType.Params);
        }
        writer.Readdress(65_535);
        Assert.True(writer.Written.Span.SequenceEqual(other.Written.Span));
        writer.EndEmptyStream(RecordType.Stdin);
        other.EndEmptyStream(RecordType.Stdin);
        Assert.True(writer.Written.Span.SequenceEqual(other.Written.Span));
    }

    [Theory]
    [InlineData(1, 1)]
    [InlineData(127, 128)]
    [InlineData(128, 127)]
    [InlineData(5, 70_000)]
    [InlineData(66_000, 66_000)]
    public void Pairs_come_back_also_where_a_record_ends_inside_one_3_4(int name, int value)
    {
        using var writer = new RecordWriter();
        writer.BeginStream(RecordType.Params);
        writer.AppendPair("A"u8, "1"u8);
        writer.AppendPair(Enumerable.Repeat((byte)'N', name).ToArray(), Enumerable.Repeat((byte)'V', value).ToArray());
        writer.AppendPair("B"u8, []);
        writer.EndStream(RecordType.Params);

        byte[] stream = [.. Read(writer.Written.Span).SelectMany(static record => record.Content)];
        List<(int, int)> sizes = [];
        for (int at = 0; NameValuePairs.Read(stream, at, out PairRange pair, out int next, out _) == ReadResult.Done; at = next)
        {
            sizes.Add((pair.NameLength, pair.ValueLength));
        }
        Assert.Equal([(1, 1), (name, value), (1, 0)], sizes);
    }

    [Fact]
    public void What_is_paused_without_content_is_no_end()
    {
        using var writer = new RecordWriter();
        writer.BeginStream(RecordType.Stdin);
        writer.Pause();

        Assert.Equal(0, writer.Length);
    }

    private static List<(RecordType Type, byte[] Content)> Read(ReadOnlySpan<byte> bytes)
    {
        List<(RecordType, byte[])> records = [];
        while (!bytes.IsEmpty)
        {
            var header = RecordHeader.Read(bytes);
            Assert.Equal((1, RecordWriter.RequestId), (header.Version, header.RequestId));
            records.Add((header.Type, bytes.Slice(RecordHeader.Size, header.ContentLength).ToArray()));
            bytes = bytes[(RecordHeader.Size + header.ContentLength + header.PaddingLength)..];
        }
        return records;
    }
}
