// What is on its way to a socket: its places, and the memory it takes.

using Millrace.Exchanges;

namespace Millrace.Tests.Exchanges;

public sealed class OutputBufferTests
{
    [Fact]
    public void Whoever_takes_over_what_is_left_takes_its_places_along()
    {
        var output = new OutputBuffer();
        output.Append("sent, "u8);
        output.Start = output.End;
        output.ResponseStart = output.FrameStart = output.End;
        output.Append("left, "u8);
        output.ChunkStart = output.End;
        output.Append("chunk"u8);
        var other = new OutputBuffer();
        other.TakeAll(output);
        Assert.Equal("left, chunk"u8, other.Bytes.AsSpan(other.Start, other.Length));
        Assert.Equal("chunk"u8, other.Bytes.AsSpan(other.ChunkStart, other.End - other.ChunkStart));
        Assert.Equal((0L, 0), (other.ResponseStart, other.FrameStart));
        Assert.Equal((0, 0, -1), (output.Start, output.End, output.ChunkStart));
    }

    // A driver has one for all its connections.
    [Theory]
    [InlineData(300_000)]
    [InlineData(5_000_000)]
    public void Memory_that_one_large_response_has_taken_is_not_kept_for_others(int size)
    {
        var output = new OutputBuffer();
        output.Append(new byte[size]);
        Assert.InRange(output.Bytes.Length, size, int.MaxValue);
        output.Clear();
        Assert.InRange(output.Bytes.Length, 1, 256 * 1024);
    }
}
