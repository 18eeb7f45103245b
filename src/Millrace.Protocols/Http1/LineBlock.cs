// Where lines end, 64 bytes at a time: bit masks of a block, from which whole lines are walked without looking at their bytes again.

using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.Intrinsics;
using System.Runtime.Intrinsics.X86;

namespace Millrace.Protocols.Http1;

internal static class LineBlock
{
    private const byte FirstPrintable = 0x20;
    private const byte PrintableCount = 0x7F - FirstPrintable;

    /// <summary>Among the 64 bytes at <paramref name="block"/>, which are LF, and which are anything but SP and visible ASCII.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal static void Look(ref byte block, out ulong lf, out ulong unprintable)
    {
        if (Avx512BW.IsSupported && Vector512.IsHardwareAccelerated)
        {
            Vector512<byte> bytes = Vector512.LoadUnsafe(ref block);
            lf = Vector512.Equals(bytes, Vector512.Create(HttpChars.Lf)).ExtractMostSignificantBits();
            unprintable = Vector512.GreaterThanOrEqual(bytes - Vector512.Create(FirstPrintable), Vector512.Create(PrintableCount)).ExtractMostSignificantBits();
            return;
        }

        lf = 0;
        unprintable = 0;
        for (int i = 0; i < ByteSet.BlockSize; i += Vector256<byte>.Count)
        {
            Vector256<byte> bytes = Vector256.LoadUnsafe(ref block, (nuint)i);
            lf |= (ulong)Vector256.Equals(bytes, Vector256.Create(HttpChars.Lf)).ExtractMostSignificantBits() << i;
            unprintable |= (ulong)Vector256.GreaterThanOrEqual(bytes - Vector256.Create(FirstPrintable), Vector256.Create(PrintableCount))
                .ExtractMostSignificantBits() << i;
        }
    }

    /// <summary>
    /// The same for the block at <paramref name="from"/> of a buffer that may end in it: then the last 64 bytes are looked at and those before it shifted out.
    /// </summary>
    /// <param name="start">The buffer's first byte.</param>
    /// <param name="from">Where the block begins, inside the buffer.</param>
    /// <param name="length">Bytes in the buffer, at least 64.</param>
    /// <param name="lf">Bit i is set if the byte at from + i is LF.</param>
    /// <param name="unprintable">Bit i is set if the byte at from + i is neither SP nor visible ASCII.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal static void LookInside(ref byte start, nint from, nint length, out ulong lf, out ulong unprintable)
    {
        if (length - from >= ByteSet.BlockSize)
        {
            Look(ref Unsafe.Add(ref start, from), out lf, out unprintable);
            return;
        }

        Look(ref Unsafe.Add(ref start, length - ByteSet.BlockSize), out lf, out unprintable);
        int skip = ByteSet.BlockSize - (int)(length - from);
        lf >>= skip;
        unprintable >>= skip;
    }

    /// <summary>Index of the first <paramref name="value"/> among the 64 bytes at <paramref name="block"/>, or 64.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal static int IndexOf(ref byte block, byte value)
    {
        if (Avx512BW.IsSupported && Vector512.IsHardwareAccelerated)
        {
            return BitOperations.TrailingZeroCount(Vector512.Equals(Vector512.LoadUnsafe(ref block), Vector512.Create(value)).ExtractMostSignificantBits());
        }

        Vector256<byte> wanted = Vector256.Create(value);
        return BitOperations.TrailingZeroCount(Vector256.Equals(Vector256.LoadUnsafe(ref block), wanted).ExtractMostSignificantBits() |
            (ulong)Vector256.Equals(Vector256.LoadUnsafe(ref block, 32), wanted).ExtractMostSignificantBits() << 32);
    }
}
