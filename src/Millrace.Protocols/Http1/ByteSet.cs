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

    // Each table four times over, once for every 128-bit lane: a lane shuffles for itself.
    private readonly Vector512<byte> _low;
    private readonly Vector512<byte> _high;

    private ByteSet(Vector128<byte> low, Vector128<byte> high)
    {
        _low = FourTimes(low);
        _high = FourTimes(high);
    }

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

    private static Vector512<byte> FourTimes(Vector128<byte> table) => Vector512.Create(Vector256.Create(table, table), Vector256.Create(table, table));

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
            ulong stops = Stops(ref start, from, length);
            return stops != 0 ? from + BitOperations.TrailingZeroCount(stops) : length;
        }

        return length;
    }

    /// <summary>
    /// Bit i is set if the byte at from + i is inside the buffer and not a member; 64 bytes are looked at.
    /// Near the end of the buffer those are the last 64, and the ones before <paramref name="from"/>, which must be inside, are shifted out.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal ulong Stops(ref byte start, int from, int length)
    {
        if (length < BlockSize)
        {
            return StopsOfShort(ref start, from, length);
        }

        int skip = Math.Max(0, from + BlockSize - length);
        return StopsOfBlock(ref Unsafe.Add(ref start, from - skip)) >> skip;
    }

    // A buffer shorter than a block is copied.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private ulong StopsOfShort(ref byte start, int from, int length)
    {
        int count = length - from;
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
        Vector512<byte> l = Avx512BW.Shuffle(_low, bytes & nibble);
        Vector512<byte> h = Avx512BW.Shuffle(_high, (bytes.AsUInt16() >>> 4).AsByte() & nibble);
        return Vector512.Equals(l & h, Vector512<byte>.Zero).ExtractMostSignificantBits();
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private uint Stops256(ref byte block)
    {
        Vector256<byte> bytes = Vector256.LoadUnsafe(ref block);
        Vector256<byte> nibble = Vector256.Create((byte)0x0F);
        Vector256<byte> l = Avx2.Shuffle(_low.GetLower(), bytes & nibble);
        Vector256<byte> h = Avx2.Shuffle(_high.GetLower(), (bytes.AsUInt16() >>> 4).AsByte() & nibble);
        return Vector256.Equals(l & h, Vector256<byte>.Zero).ExtractMostSignificantBits();
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private ulong Stops128(ref byte block)
    {
        Vector128<byte> bytes = Vector128.LoadUnsafe(ref block);
        Vector128<byte> nibble = Vector128.Create((byte)0x0F);
        Vector128<byte> l = Vector128.ShuffleNative(_low.GetLower().GetLower(), bytes & nibble);
        Vector128<byte> h = Vector128.ShuffleNative(_high.GetLower().GetLower(), (bytes.AsUInt16() >>> 4).AsByte() & nibble);
        return Vector128.Equals(l & h, Vector128<byte>.Zero).ExtractMostSignificantBits();
    }
}
