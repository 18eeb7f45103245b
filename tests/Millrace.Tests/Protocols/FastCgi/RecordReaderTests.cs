// What the record reader promises beside the vectors: any records in any pieces, where consumed points, a small state.
using System.Runtime.CompilerServices;
using Millrace.Protocols;
using Millrace.Protocols.FastCgi;

namespace Millrace.Tests.Protocols.FastCgi;

public sealed class RecordReaderTests
{
    private const int Seed = 20250117;

    [Fact]
    public void Written_records_of_all_types_are_read_back_from_any_pieces_FastCGI_3_3()
    {
        var random = new Random(Seed);
        foreach (int round in Enumerable.Range(0, 200))
        {
            List<(byte Type, ushort Id, byte[] Content)> records = RandomRecords(random, types: round == 0 ? 256 : random.Next(1, 30));
            byte[] wire = Write(records, random);
            Assert.Equal(records, Read(wire, random), Same);
        }
    }

    [Fact]
    public void Trailing_padding_that_is_there_is_consumed_with_the_last_part()
    {
        byte[] wire = [1, 5, 0, 1, 0, 2, 3, 0, (byte)'a', (byte)'b', 0, 0, 0, 99];
        var reader = default(RecordReader);
        Assert.Equal(ReadResult.Done, reader.Read(wire, out int consumed, out RecordPart part));
        Assert.Equal(13, consumed);
        Assert.Equal((8, 2, true, true, 2), (part.Start, part.Length, part.IsFirst, part.IsLast, part.ContentLength));
        Assert.True(reader.AtRecordStart);
    }

    [Fact]
    public void Padding_that_is_not_there_yet_is_skipped_by_the_next_read()
    {
        var reader = default(RecordReader);
        Assert.Equal(ReadResult.Done, reader.Read([1, 5, 0, 1, 0, 1, 3, 0, (byte)'a', 0], out int consumed, out _));
        Assert.Equal(10, consumed);
        Assert.False(reader.AtRecordStart);
        Assert.Equal(ReadResult.NeedMore, reader.Read([0], out consumed, out _));
        Assert.Equal(1, consumed);
        Assert.False(reader.AtRecordStart);
        Assert.Equal(ReadResult.Done, reader.Read([0, 1, 5, 0, 1, 0, 0, 0, 0], out consumed, out RecordPart part));
        Assert.Equal(9, consumed);
        Assert.Equal((0, true, true), (part.Length, part.IsFirst, part.IsLast));
    }

    [Fact]
    public void Content_is_handed_on_in_place_piece_by_piece()
    {
        var reader = default(RecordReader);
        Assert.Equal(ReadResult.Done, reader.Read([1, 5, 0, 1, 0, 5, 0, 0, 10, 11], out int consumed, out RecordPart first));
        Assert.Equal((10, 8, 2, true, false), (consumed, first.Start, first.Length, first.IsFirst, first.IsLast));
        Assert.Equal(ReadResult.NeedMore, reader.Read([], out consumed, out _));
        Assert.Equal(0, consumed);
        Assert.Equal(ReadResult.Done, reader.Read([12, 13, 14, 1, 1], out consumed, out RecordPart last));
        Assert.Equal((3, 0, 3, false, true), (consumed, last.Start, last.Length, last.IsFirst, last.IsLast));
    }

    [Fact]
    public void Foreign_version_is_refused_at_its_first_byte_and_for_ever_FastCGI_3_3()
    {
        var reader = default(RecordReader);
        Assert.Equal(ReadResult.Faulty, reader.Read([(byte)'G'], out int consumed, out _));
        Assert.Equal(0, consumed);
        Assert.Equal(FastCgiFault.Version, reader.Fault);
        Assert.Equal(ReadResult.Faulty, reader.Read([1, 5, 0, 1, 0, 0, 0, 0], out _, out _));
        Assert.False(reader.AtRecordStart);
    }

    [Fact]
    public void State_of_a_connection_is_16_bytes() => Assert.Equal(16, Unsafe.SizeOf<RecordReader>());

    private static List<(byte Type, ushort Id, byte[] Content)> RandomRecords(Random random, int types)
    {
        var records = new List<(byte, ushort, byte[])>();
        foreach (int type in Enumerable.Range(0, types))
        {
            var content = new byte[random.Next(4) switch { 0 => 0, 1 => random.Next(1, 20), 2 => random.Next(300), _ => random.Next(2000) }];
            random.NextBytes(content);
            records.Add(((byte)(types == 256 ? type : random.Next(256)), (ushort)random.Next(65536), content));
        }

        return records;
    }

    private static byte[] Write(List<(byte Type, ushort Id, byte[] Content)> records, Random random)
    {
        var wire = new List<byte>();
        var head = new byte[RecordHeader.Size];
        foreach ((byte type, ushort id, byte[] content) in records)
        {
            var padding = new byte[random.Next(256)];
            random.NextBytes(padding);
            RecordHeader.Write(head, (RecordType)type, id, content.Length, padding.Length);
            wire.AddRange([.. head, .. content, .. padding]);
        }

        return [.. wire];
    }

    private static List<(byte Type, ushort Id, byte[] Content)> Read(byte[] wire, Random random)
    {
        var records = new List<(byte, ushort, byte[])>();
        var content = new List<byte>();
        var reader = default(RecordReader);
        for (int position = 0; position < wire.Length;)
        {
            ReadOnlySpan<byte> piece = wire.AsSpan(position, random.Next(1, Math.Min(wire.Length - position, 500) + 1));
            position += piece.Length;
            while (reader.Read(piece, out int consumed, out RecordPart part) == ReadResult.Done)
            {
                content.AddRange(piece.Slice(part.Start, part.Length));
                if (part.IsLast)
                {
                    records.Add(((byte)part.Type, part.RequestId, [.. content]));
                    content.Clear();
                }

                piece = piece[consumed..];
            }
        }

        Assert.True(reader.AtRecordStart);
        return records;
    }

    private static bool Same((byte Type, ushort Id, byte[] Content) left, (byte Type, ushort Id, byte[] Content) right) =>
        left.Type == right.Type && left.Id == right.Id && left.Content.AsSpan().SequenceEqual(right.Content);
}
