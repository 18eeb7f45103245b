// A set of bytes that is tested 64 at a time. Any set of ASCII bytes can be one; the bytes over 0x7F are in it all or none.
//
// How: two 16-entry tables, one shuffle each. low[b & 15] has bit h set if the byte h << 4 | (b & 15) is a member; high[b >> 4] is 1 << (b >> 4).
// The byte is a member if the two have a bit in common. The same code runs in 512, 256 and 128 bit, whichever the machine has.

using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Runtime.Intrinsics;
using System.Runtime.Intrinsics.X86;

namespace Millrace.Protocols.Http1;

internal readonly struct ByteSet
{
    /// <summary>Bytes looked at in one step.</summary>
    internal const int BlockSize = 64;

    private readonly Vector128<byte> _low;
    private readonly Vector128<byte> _high;

    private ByteSet(Vector128<byte> low, Vector128<byte> high) => (_low, _high) = (low, high);

    /// <summary>The ASCII bytes for which <paramref name="isMember"/> is true; bytes over 0x7F as <paramref name="withHigh"/> says.</summary>
    internal static ByteSet Of(Func<byte, bool> isMember, bool withHigh = false)
    {
        Span<byte> low = stackalloc byte[16];
        Span<byte> high = stackalloc byte[16];
        low.Clear();
        for (int b = 0; b < 128; b++)
        {
            if (isMember((byte)b))
            {
                low[b & 15] |= (byte)(1 << (b >> 4));
            }
        }

        for (int h = 0; h < 16; h++)
        {
            high[h] = h < 8 ? (byte)(1 << h) : withHigh ? (byte)0xFF : (byte)0;
        }

        // With high bytes in the set every low entry must have a bit for them to meet.
        return withHigh && low.Contains((byte)0)
            ? throw new ArgumentException("A set with the high bytes needs a member for every low nibble.", nameof(withHigh))
            : new ByteSet(Vector128.Create<byte>(low), Vector128.Create<byte>(high));
    }

    internal bool Contains(byte b) => (_low[b & 15] & _high[b >> 4]) != 0;

    /// <summary>Index of the first byte in [from, length) that is not a member, or length.</summary>
    /// <param name="start">The buffer's first byte.</param>
    /// <param name="from">Where to begin, at most <paramref name="length"/>.</param>
    /// <param name="length">Bytes in the buffer; none behind them is touched.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal int IndexOfStop(ref byte start, int from, int length)
    {
        while (length - from >= BlockSize)
        {
            ulong stops = StopsOfBlock(ref Unsafe.Add(ref start, from));
            if (stops != 0)
            {
                return from + BitOperations.TrailingZeroCount(stops);
            }

            from += BlockSize;
        }

        if (from < length)
        {
            ulong stops = StopsOfTail(ref start, from, length);
            return stops != 0 ? from + BitOperations.TrailingZeroCount(stops) : length;
        }

        return length;
    }

    /// <summary>Bit i is set if the byte at from + i is inside the buffer and not a member; 64 bytes are looked at.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal ulong Stops(ref byte start, int from, int length) =>
        length - from >= BlockSize ? StopsOfBlock(ref Unsafe.Add(ref start, from)) : from < length ? StopsOfTail(ref start, from, length) : 0;

    // The last bytes of a buffer: look at the 64 that end there and shift the ones before `from` out; a shorter buffer is copied.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private ulong StopsOfTail(ref byte start, int from, int length)
    {
        int count = length - from;
        if (length >= BlockSize)
        {
            return StopsOfBlock(ref Unsafe.Add(ref start, length - BlockSize)) >> (BlockSize - count);
        }

        Span<byte> copy = stackalloc byte[BlockSize];
        MemoryMarshal.CreateReadOnlySpan(ref Unsafe.Add(ref start, from), count).CopyTo(copy);
        return StopsOfBlock(ref MemoryMarshal.GetReference(copy)) & ((1UL << count) - 1);
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal ulong StopsOfBlock(ref byte block)
    {
        if (Avx512BW.IsSupported && Vector512.IsHardwareAccelerated)
        {
            return Stops512(ref block);
        }

        if (Avx2.IsSupported)
        {
            return Stops256(ref block) | (ulong)Stops256(ref Unsafe.Add(ref block, 32)) << 32;
        }

        return Stops128(ref block) | Stops128(ref Unsafe.Add(ref block, 16)) << 16 |
            Stops128(ref Unsafe.Add(ref block, 32)) << 32 | Stops128(ref Unsafe.Add(ref block, 48)) << 48;
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private ulong Stops512(ref byte block)
    {
        Vector512<byte> bytes = Vector512.LoadUnsafe(ref block);
        Vector512<byte> nibble = Vector512.Create((byte)0x0F);
        Vector256<byte> low = Vector256.Create(_low, _low);
        Vector256<byte> high = Vector256.Create(_high, _high);
        Vector512<byte> l = Avx512BW.Shuffle(Vector512.Create(low, low), bytes & nibble);
        Vector512<byte> h = Avx512BW.Shuffle(Vector512.Create(high, high), (bytes.AsUInt16() >>> 4).AsByte() & nibble);
        return Vector512.Equals(l & h, Vector512<byte>.Zero).ExtractMostSignificantBits();
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private uint Stops256(ref byte block)
    {
        Vector256<byte> bytes = Vector256.LoadUnsafe(ref block);
        Vector256<byte> nibble = Vector256.Create((byte)0x0F);
        Vector256<byte> l = Avx2.Shuffle(Vector256.Create(_low, _low), bytes & nibble);
        Vector256<byte> h = Avx2.Shuffle(Vector256.Create(_high, _high), (bytes.AsUInt16() >>> 4).AsByte() & nibble);
        return Vector256.Equals(l & h, Vector256<byte>.Zero).ExtractMostSignificantBits();
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private ulong Stops128(ref byte block)
    {
        Vector128<byte> bytes = Vector128.LoadUnsafe(ref block);
        Vector128<byte> nibble = Vector128.Create((byte)0x0F);
        Vector128<byte> l = Vector128.ShuffleNative(_low, bytes & nibble);
        Vector128<byte> h = Vector128.ShuffleNative(_high, (bytes.AsUInt16() >>> 4).AsByte() & nibble);
        return Vector128.Equals(l & h, Vector128<byte>.Zero).ExtractMostSignificantBits();
    }
}
