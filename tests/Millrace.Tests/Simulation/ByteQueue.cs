// Bytes first in, first out: what a socket buffer holds.

namespace Millrace.Tests.Simulation;

internal sealed class ByteQueue
{
    private byte[] _bytes = new byte[256];
    private int _start;

    public int Count { get; private set; }

    public void Append(ReadOnlySpan<byte> bytes)
    {
        if (_start + Count + bytes.Length > _bytes.Length)
        {
            byte[] larger = Count + bytes.Length > _bytes.Length ? new byte[Math.Max(_bytes.Length * 2, Count + bytes.Length)] : _bytes;
            Buffer.BlockCopy(_bytes, _start, larger, 0, Count);
            _bytes = larger;
            _start = 0;
        }

        bytes.CopyTo(_bytes.AsSpan(_start + Count));
        Count += bytes.Length;
    }

    /// <summary>The first bytes; valid until the queue changes.</summary>
    public ReadOnlySpan<byte> Peek(int max) => _bytes.AsSpan(_start, Math.Min(max, Count));

    public void Skip(int count)
    {
        _start += count;
        Count -= count;
    }

    public int Take(Span<byte> destination)
    {
        ReadOnlySpan<byte> bytes = Peek(destination.Length);
        bytes.CopyTo(destination);
        Skip(bytes.Length);
        return bytes.Length;
    }

    /// <summary>Forgets all but the first <paramref name="count"/> bytes.</summary>
    public void Truncate(int count) => Count = Math.Min(Count, count);
}
