// Name-value pairs: reader(writer(x)) = x, every cut says "need more", lengths never overflow. And the answer to GET_VALUES, byte for byte.
using Millrace.Protocols;
using Millrace.Protocols.FastCgi;

namespace Millrace.Tests.Protocols.FastCgi;

public sealed class NameValuePairsTests
{
    private const int Seed = 4711;

    [Fact]
    public void Written_pairs_are_read_back_FastCGI_3_4()
    {
        var random = new Random(Seed);
        foreach (int _ in Enumerable.Range(0, 300))
        {
            var pairs = Enumerable.Range(0, random.Next(1, 20)).Select(_ => (Name: RandomBytes(random), Value: RandomBytes(random))).ToList();
            var stream = new byte[pairs.Sum(pair => NameValuePairs.SizeOf(pair.Name.Length, pair.Value.Length))];
            int end = 0;
            foreach ((byte[] name, byte[] value) in pairs)
            {
                int written = NameValuePairs.Write(stream.AsSpan(end), name, value);
                Assert.Equal(NameValuePairs.SizeOf(name.Length, value.Length), written);
                end += written;
            }

            Assert.Equal(stream.Length, end);
            int position = 0;
            foreach ((byte[] name, byte[] value) in pairs)
            {
                Assert.Equal(ReadResult.Done, NameValuePairs.Read(stream, position, out PairRange pair, out position, out FastCgiFault fault));
                Assert.Equal(FastCgiFault.None, fault);
                Assert.Equal(name, pair.NameIn(stream).ToArray());
                Assert.Equal(value, pair.ValueIn(stream).ToArray());
            }

            Assert.Equal(stream.Length, position);
        }
    }

    [Theory]
    [InlineData(1, 1)]
    [InlineData(0, 0)]
    [InlineData(127, 127)]
    [InlineData(128, 1)]
    [InlineData(1, 128)]
    [InlineData(200, 300)]
    public void Pair_cut_anywhere_needs_more_and_moves_nothing_FastCGI_3_4(int nameLength, int valueLength)
    {
        var stream = new byte[NameValuePairs.SizeOf(nameLength, valueLength)];
        NameValuePairs.Write(stream, new byte[nameLength], new byte[valueLength]);
        foreach (int length in Enumerable.Range(0, stream.Length))
        {
            Assert.Equal(ReadResult.NeedMore, NameValuePairs.Read(stream.AsSpan(0, length), 0, out _, out int next, out _));
            Assert.Equal(0, next);
        }

        Assert.Equal(ReadResult.Done, NameValuePairs.Read(stream, 0, out _, out int end, out _));
        Assert.Equal(stream.Length, end);
    }

    [Theory]
    [InlineData(0x7FFFFFFFu, 0x7FFFFFFFu, ReadResult.Faulty)]
    [InlineData(0x7FFFFFFFu, 0u, ReadResult.Faulty)]
    [InlineData(0x40000000u, 0x3FFFFFFFu, ReadResult.Faulty)]
    [InlineData(0x3FFFFFFFu, 0x3FFFFFF8u, ReadResult.NeedMore)]
    [InlineData(0x3FFFFFFFu, 0x3FFFFFF9u, ReadResult.Faulty)]
    [InlineData(0u, 0x7FFFFFF8u, ReadResult.Faulty)]
    [InlineData(0u, 0x7FFFFFF7u, ReadResult.NeedMore)]
    public void Lengths_never_overflow_FastCGI_3_4(uint nameLength, uint valueLength, ReadResult expected)
    {
        var stream = new byte[64];
        System.Buffers.Binary.BinaryPrimitives.WriteUInt32BigEndian(stream, nameLength | 0x80000000);
        System.Buffers.Binary.BinaryPrimitives.WriteUInt32BigEndian(stream.AsSpan(4), valueLength | 0x80000000);
        Assert.Equal(expected, NameValuePairs.Read(stream, 0, out _, out _, out FastCgiFault fault));
        Assert.Equal(expected == ReadResult.Faulty ? FastCgiFault.PairLength : FastCgiFault.None, fault);
    }

    [Fact]
    public void Short_lengths_are_written_in_one_byte_up_to_127_FastCGI_3_4()
    {
        Assert.Equal(2 + 127 + 127, NameValuePairs.SizeOf(127, 127));
        Assert.Equal(1 + 4 + 127 + 128, NameValuePairs.SizeOf(127, 128));
        var stream = new byte[NameValuePairs.SizeOf(1, 128)];
        NameValuePairs.Write(stream, "n"u8, new byte[128]);
        Assert.Equal([1, 0x80, 0, 0, 128, (byte)'n'], stream[..6]);
    }

    [Fact]
    public void Answer_to_get_values_is_one_padded_record_FastCGI_4_1()
    {
        var query = new byte[64];
        int length = NameValuePairs.Write(query, "FCGI_MPXS_CONNS"u8, []);
        var answer = new byte[ManagementValues.ResultSizeMax];
        Array.Fill(answer, (byte)0xAA);
        int written = ManagementValues.WriteResult(query.AsSpan(0, length), 7, 8, multiplexes: true, answer);
        byte[] expected = [1, 10, 0, 0, 0, 18, 6, 0, 15, 1, .. "FCGI_MPXS_CONNS1"u8, 0, 0, 0, 0, 0, 0];
        Assert.Equal(expected, answer[..written]);
    }

    [Fact]
    public void Answer_with_the_largest_numbers_fits_its_room_FastCGI_4_1()
    {
        var query = new byte[200];
        int length = NameValuePairs.Write(query, "FCGI_MAX_CONNS"u8, []);
        length += NameValuePairs.Write(query.AsSpan(length), "FCGI_MAX_REQS"u8, []);
        length += NameValuePairs.Write(query.AsSpan(length), "FCGI_MPXS_CONNS"u8, []);
        int written = ManagementValues.WriteResult(query.AsSpan(0, length), int.MaxValue, int.MaxValue, multiplexes: false, new byte[ManagementValues.ResultSizeMax]);
        Assert.Equal(80, written);
    }

    private static byte[] RandomBytes(Random random)
    {
        var bytes = new byte[random.Next(3) switch { 0 => random.Next(4), 1 => random.Next(120, 135), _ => random.Next(600) }];
        random.NextBytes(bytes);
        return bytes;
    }
}
