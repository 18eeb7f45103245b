// Name-value pairs (FastCGI 1.0 §3.4): the coding of PARAMS and GET_VALUES contents. What the names mean is in Cgi/.
using System.Buffers.Binary;

namespace Millrace.Protocols.FastCgi;

/// <summary>Where a pair's name and value lie in the stream that was read.</summary>
/// <param name="NameStart">Offset of the name, in bytes.</param>
/// <param name="NameLength">Bytes of the name; may be 0.</param>
/// <param name="ValueStart">Offset of the value, in bytes.</param>
/// <param name="ValueLength">Bytes of the value; may be 0.</param>
public readonly record struct PairRange(int NameStart, int NameLength, int ValueStart, int ValueLength)
{
    /// <summary>The name's bytes.</summary>
    /// <param name="stream">The stream the pair was read from.</param>
    /// <returns>A part of <paramref name="stream"/>.</returns>
    public ReadOnlySpan<byte> NameIn(ReadOnlySpan<byte> stream) => stream.Slice(NameStart, NameLength);

    /// <summary>The value's bytes.</summary>
    /// <param name="stream">The stream the pair was read from.</param>
    /// <returns>A part of <paramref name="stream"/>.</returns>
    public ReadOnlySpan<byte> ValueIn(ReadOnlySpan<byte> stream) => stream.Slice(ValueStart, ValueLength);
}

/// <summary>Reads and writes name-value pairs (FastCGI 1.0 §3.4).</summary>
public static class NameValuePairs
{
    // pair   = length(name) length(value) name value
    // length = %x00-7F / ( %x80-FF 3OCTET )   ; big-endian, the top bit is not part of the number
    private const int ShortLengthMax = 127;
    private const uint LongFlag = 0x80000000;

    /// <summary>Reads one pair.</summary>
    /// <param name="stream">The contents of the stream's records, joined.</param>
    /// <param name="position">Where the pair begins, in [0, stream.Length]; the stream is read to its end where this equals its length.</param>
    /// <param name="pair">The pair, where the answer is <see cref="ReadResult.Done"/>.</param>
    /// <param name="next">Where the next pair begins; <paramref name="position"/> unless the answer is <see cref="ReadResult.Done"/>.</param>
    /// <param name="fault"><see cref="FastCgiFault.PairLength"/> where the answer is <see cref="ReadResult.Faulty"/>.</param>
    /// <returns><see cref="ReadResult.NeedMore"/> where the stream ends before or inside the pair.</returns>
    public static ReadResult Read(ReadOnlySpan<byte> stream, int position, out PairRange pair, out int next, out FastCgiFault fault)
    {
        fault = FastCgiFault.None;
        uint at = (uint)position;
        if (at + 1 < (uint)stream.Length && (stream[(int)at] | stream[(int)at + 1]) <= ShortLengthMax)
        {
            int nameLength = stream[(int)at];
            int valueLength = stream[(int)at + 1];
            int nameStart = position + 2;
            if (nameLength + valueLength <= stream.Length - nameStart)
            {
                pair = new PairRange(nameStart, nameLength, nameStart + nameLength, valueLength);
                next = nameStart + nameLength + valueLength;
                return ReadResult.Done;
            }
        }

        return ReadSlow(stream, position, out pair, out next, out fault);
    }

    /// <summary>Bytes of a pair as <see cref="Write"/> writes it.</summary>
    /// <param name="nameLength">Bytes of the name.</param>
    /// <param name="valueLength">Bytes of the value.</param>
    /// <returns>Both lengths, name and value together.</returns>
    public static int SizeOf(int nameLength, int valueLength) => SizeOfLength(nameLength) + SizeOfLength(valueLength) + nameLength + valueLength;

    /// <summary>Writes a pair, with the short form of a length wherever it fits.</summary>
    /// <param name="destination">At least <see cref="SizeOf"/> bytes.</param>
    /// <param name="name">The name.</param>
    /// <param name="value">The value.</param>
    /// <returns>Bytes written.</returns>
    public static int Write(Span<byte> destination, ReadOnlySpan<byte> name, ReadOnlySpan<byte> value)
    {
        int position = WriteLength(destination, name.Length);
        position += WriteLength(destination[position..], value.Length);
        name.CopyTo(destination[position..]);
        position += name.Length;
        value.CopyTo(destination[position..]);
        return position + value.Length;
    }

    private static ReadResult ReadSlow(ReadOnlySpan<byte> stream, int position, out PairRange pair, out int next, out FastCgiFault fault)
    {
        pair = default;
        next = position;
        fault = FastCgiFault.None;
        int at = position;
        if (!TryReadLength(stream, ref at, out int nameLength) || !TryReadLength(stream, ref at, out int valueLength))
        {
            return ReadResult.NeedMore;
        }

        long end = (long)at + nameLength + valueLength;
        if (end > int.MaxValue)
        {
            fault = FastCgiFault.PairLength;
            return ReadResult.Faulty;
        }

        if (end > stream.Length)
        {
            return ReadResult.NeedMore;
        }

        pair = new PairRange(at, nameLength, at + nameLength, valueLength);
        next = (int)end;
        return ReadResult.Done;
    }

    private static bool TryReadLength(ReadOnlySpan<byte> stream, ref int position, out int length)
    {
        length = 0;
        if (position >= stream.Length)
        {
            return false;
        }

        if (stream[position] <= ShortLengthMax)
        {
            length = stream[position++];
            return true;
        }

        if (!BinaryPrimitives.TryReadUInt32BigEndian(stream[position..], out uint flagged))
        {
            return false;
        }

        length = (int)(flagged & ~LongFlag);
        position += sizeof(uint);
        return true;
    }

    private static int SizeOfLength(int length) => length <= ShortLengthMax ? 1 : sizeof(uint);

    private static int WriteLength(Span<byte> destination, int length)
    {
        if (length <= ShortLengthMax)
        {
            destination[0] = (byte)length;
            return 1;
        }

        BinaryPrimitives.WriteUInt32BigEndian(destination, (uint)length | LongFlag);
        return sizeof(uint);
    }
}
