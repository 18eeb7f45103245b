// The record and pair readers against the plain ones, and all readers against themselves cut elsewhere, on spoiled streams;
// and what the writers write is read back.

using Millrace.Protocols;
using Millrace.Protocols.FastCgi;
using Millrace.Tests.Protocols.Fuzz;

namespace Millrace.Tests.Protocols.FastCgi;

public sealed class FastCgiFuzzTests
{
    [Fact]
    public void Fast_and_plain_readers_agree_on_spoiled_records_wherever_they_are_cut_FastCGI_3_3() => FuzzRun.Short(static seed => new SpoiledRecords(seed));

    [Fact]
    [Trait("Category", FuzzRun.Category)]
    public void Fast_and_plain_readers_agree_on_spoiled_records_in_the_long_run() => FuzzRun.Long(static seed => new SpoiledRecords(seed));

    [Fact]
    public void Written_records_and_pairs_are_read_back_from_any_pieces_FastCGI_3_4() => FuzzRun.Short(static seed => new WrittenRecords(seed));

    [Fact]
    [Trait("Category", FuzzRun.Category)]
    public void Written_records_and_pairs_are_read_back_in_the_long_run() => FuzzRun.Long(static seed => new WrittenRecords(seed));

    private static readonly byte[][] s_vectors =
        [.. Directory.EnumerateFiles(VectorFile.Folder, "*.vec").Order(StringComparer.Ordinal).Select(static path => VectorFile.Load(Path.GetFileName(path)).Input).Where(static input => input.Length is > 0 and < 1_500)];

    /// <summary>As <see cref="PlainRecords.Read"/>, by the reader, in pieces.</summary>
    private static List<string> Read(byte[] bytes, IEnumerable<int> cuts)
    {
        var lines = new List<string>();
        var content = new List<byte>();
        var reader = default(RecordReader);
        RecordPart last = default;
        int start = 0;
        foreach (int end in cuts.Append(bytes.Length))
        {
            ReadOnlySpan<byte> piece = bytes.AsSpan(start, end - start);
            start = end;
            ReadResult result;
            while ((result = reader.Read(piece, out int consumed, out RecordPart part)) == ReadResult.Done)
            {
                content.AddRange(piece.Slice(part.Start, part.Length));
                last = part;
                if (part.IsLast)
                {
                    lines.Add(PlainRecords.Line((byte)part.Type, part.RequestId, [.. content]));
                    content.Clear();
                }

                piece = piece[consumed..];
            }

            if (result == ReadResult.Faulty)
            {
                lines.Add("version");
                return lines;
            }
        }

        lines.Add(content.Count > 0 ? PlainRecords.Line((byte)last.Type, last.RequestId, [.. content]) + " cut" : reader.AtRecordStart ? "end" : "cut");
        return lines;
    }

    private static List<string> ReadPairs(byte[] stream)
    {
        var lines = new List<string>();
        ReadResult result = ReadResult.Done;
        for (int at = 0; at < stream.Length && result == ReadResult.Done;)
        {
            result = NameValuePairs.Read(stream, at, out PairRange pair, out at, out _);
            if (result == ReadResult.Done)
            {
                lines.Add(PlainRecords.Pair(pair.NameIn(stream), pair.ValueIn(stream)));
            }
        }

        lines.Add(result switch
        {
            ReadResult.Done => "end",
            ReadResult.NeedMore => "cut",
            _ => "too long",
        });
        return lines;
    }

    private static List<int> Cuts(Random random, int length) => length < 200 && random.Next(8) == 0
        ? [.. Enumerable.Range(0, length)]
        : [.. Enumerable.Range(0, random.Next(4)).Select(_ => random.Next(length + 1)).Order()];

    private sealed class SpoiledRecords(int seed) : FuzzTarget
    {
        private readonly Random _random = new(seed);

        public override byte[] Next(int index)
        {
            List<byte> bytes = [.. s_vectors[_random.Next(s_vectors.Length)]];
            for (int n = _random.Next(4); n > 0; n--)
            {
                Spoil(bytes);
            }

            return [.. bytes];
        }

        private void Spoil(List<byte> bytes)
        {
            int at = _random.Next(bytes.Count + 1);
            int length = Math.Min(_random.Next(1, 12), bytes.Count - at);
            switch (_random.Next(6))
            {
                case 0:
                    bytes.Insert(at, (byte)_random.Next(256));
                    break;
                case 1 when at < bytes.Count:
                    bytes[at] ^= (byte)(1 << _random.Next(8));
                    break;
                case 2:
                    bytes.RemoveRange(at, length);
                    break;
                case 3:
                    bytes.InsertRange(_random.Next(bytes.Count + 1), bytes.GetRange(at, length));
                    break;
                case 4:
                    bytes.AddRange(s_vectors[_random.Next(s_vectors.Length)]);
                    break;
                default:
                    bytes.InsertRange(at, Enumerable.Repeat((byte)(_random.Next(2) * 0x80), _random.Next(1, 8)));
                    break;
            }
        }

        public override bool Judge(byte[] bytes)
        {
            List<int> cuts = Cuts(_random, bytes.Length);
            List<string> plain = PlainRecords.Read(bytes);
            Assert.Equal(plain, Read(bytes, []));
            Assert.Equal(plain, Read(bytes, cuts));
            Assert.Equal(PlainRecords.ReadPairs(bytes), ReadPairs(bytes));
            Assert.Equal(
                VectorRun.Feed(VectorDepth.Head, [bytes]),
                VectorRun.Feed(VectorDepth.Head, cuts.Prepend(0).Zip(cuts.Append(bytes.Length), (from, to) => (ReadOnlyMemory<byte>)bytes.AsMemory(from, to - from))));
            return plain[^1] == "end";
        }
    }

    private sealed class WrittenRecords(int seed) : FuzzTarget
    {
        private readonly Random _random = new(seed);
        private List<string> _pairs = [];
        private List<string> _records = [];

        public override byte[] Next(int index)
        {
            byte[] stream = WritePairs();
            _records = [];
            var bytes = new List<byte>();
            for (int at = 0; at < stream.Length || _records.Count == 0;)
            {
                int length = _random.Next(Math.Min(stream.Length - at, 2_000) + 1);
                int type = _random.Next(256);
                int id = _random.Next(65_536);
                byte[] record = new byte[RecordHeader.Size + length + _random.Next(256)];
                RecordHeader.Write(record, (RecordType)type, (ushort)id, length, record.Length - length - RecordHeader.Size);
                stream.AsSpan(at, length).CopyTo(record.AsSpan(RecordHeader.Size));
                _records.Add(PlainRecords.Line(type, id, stream.AsSpan(at, length)));
                bytes.AddRange(record);
                at += length;
            }

            Assert.Equal(_pairs, ReadPairs(stream));
            Assert.Equal(_pairs, PlainRecords.ReadPairs(stream));
            return [.. bytes];
        }

        private byte[] WritePairs()
        {
            _pairs = [];
            var stream = new List<byte>();
            for (int n = _random.Next(8); n > 0; n--)
            {
                byte[] name = new byte[_random.Next(_random.Next(4) == 0 ? 300 : 20)];
                byte[] value = new byte[_random.Next(_random.Next(4) == 0 ? 1_000 : 130)];
                _random.NextBytes(name);
                _random.NextBytes(value);
                byte[] pair = new byte[NameValuePairs.SizeOf(name.Length, value.Length)];
                Assert.Equal(pair.Length, NameValuePairs.Write(pair, name, value));
                stream.AddRange(pair);
                _pairs.Add(PlainRecords.Pair(name, value));
            }

            _pairs.Add("end");
            return [.. stream];
        }

        public override bool Judge(byte[] bytes)
        {
            Assert.Equal([.. _records, "end"], Read(bytes, Cuts(_random, bytes.Length)));
            return true;
        }
    }
}
