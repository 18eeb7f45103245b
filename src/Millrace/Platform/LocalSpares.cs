// Spare buffers that one thread takes and gives back again and again (BufferPool.cs): nobody else looks at them.

using System.Numerics;

namespace Millrace.Platform;

/// <summary>Spare buffers of one thread: of the sizes that requests which outlive their turn take, a few each.</summary>
internal sealed class LocalSpares
{
    private const int SizeMax = 4 * 1024;
    private const int SpareMax = 8;

    private readonly byte[]?[] _buffers = new byte[]?[(BitOperations.Log2(SizeMax) + 1) * SpareMax];
    private readonly int[] _counts = new int[BitOperations.Log2(SizeMax) + 1];

    public byte[]? TryTake(int size)
    {
        int bits = BitOperations.Log2((uint)size);
        if (size > SizeMax || _counts[bits] == 0)
        {
            return null;
        }

        ref byte[]? place = ref _buffers[(bits * SpareMax) + --_counts[bits]];
        byte[]? buffer = place;
        place = null;
        return buffer;
    }

    /// <summary>All of them are everybody's.</summary>
    public void Leave()
    {
        foreach (ref byte[]? place in _buffers.AsSpan())
        {
            if (place is not null)
            {
                BufferPool.Return(place);
                place = null;
            }
        }

        _counts.AsSpan().Clear();
    }

    public bool TryKeep(byte[] buffer)
    {
        int bits = BitOperations.Log2((uint)buffer.Length);
        if (buffer.Length > SizeMax || _counts[bits] == SpareMax)
        {
            return false;
        }

        _buffers[(bits * SpareMax) + _counts[bits]++] = buffer;
        return true;
    }
}
