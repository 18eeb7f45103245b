// The usual case of Http1Head: a new request that is here in one piece, in visible ASCII and in the usual spelling.
// Line ends come from block masks, so finding a line does not wait for the line before.
// Whatever is not usual (an unfinished or malformed line, odd white space, other bytes, a full table) ends this road without a verdict:
// the close reading of Http1Head.cs goes on from the line it happened in, and only there the faults of lines are named.

using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Millrace.Protocols.Http1;

public sealed partial class Http1Head
{
    private const byte Padding = HttpChars.Sp;

    // Behind a short request there is nothing to look at 64 bytes at a time: it is copied in front of spaces, which end no line.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private ReadResult ReadShort(ReadOnlySpan<byte> input, in Http1Limits limits, out int consumed)
    {
        Span<byte> padded = stackalloc byte[2 * ByteSet.BlockSize];
        padded.Fill(Padding);
        input.CopyTo(padded);
        return ReadWholeLines(ref MemoryMarshal.GetReference(padded), padded.Length, in limits, out consumed);
    }

    /// <summary>Reads from the buffer's start; <paramref name="length"/> is at least a block. NeedMore: read on closely from Line.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private ReadResult ReadWholeLines(ref byte start, int length, in Http1Limits limits, out int consumed)
    {
        consumed = 0;
        nint line = 0;
        nint endMax = 0;
        int room = Math.Min(_fields.Length, limits.HeaderCountMax);
        ulong carry = 0;
        for (nint block = 0; block < length; block += ByteSet.BlockSize)
        {
            LineBlock.LookInside(ref start, block, length, out ulong ends, out ulong unprintable);

            // Before each LF stands one unprintable byte, and no other is in the block; whether it is a CR is seen line by line.
            ulong before = unprintable ^ ends;
            if ((before << 1 | carry) != ends)
            {
                break;
            }

            carry = before >> 63;
            for (; ends != 0; ends &= ends - 1)
            {
                nint end = block + (nint)(uint)BitOperations.TrailingZeroCount(ends) - 1;
                if (Unsafe.Add(ref start, end) != HttpChars.Cr)
                {
                    return Stop(line);
                }

                if (line == 0)
                {
                    if (end == 0 || !ReadWholeRequestLine(ref start, (int)end, length, in limits))
                    {
                        return Stop(0);
                    }

                    endMax = end + limits.HeaderBytesMax;
                }
                else if (end == line)
                {
                    consumed = end <= endMax ? (int)end + 2 : 0;
                    return end <= endMax ? Finish(ref start, ref consumed) : Fail(Http1Fault.HeadersTooLarge);
                }
                else if (_now.Count >= room || !ReadWholeField(ref start, line, end, length))
                {
                    // A line behind the limit is too much, whatever else is wrong with it.
                    return _now.Stage == Stage.Faulty && end > endMax ? Fail(Http1Fault.HeadersTooLarge) : Stop(line);
                }

                line = end + 2;
            }
        }

        return Stop(line);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private ReadResult Stop(nint line)
    {
        _now.Line = _now.Scanned = (int)line;
        return _now.Stage == Stage.Faulty ? ReadResult.Faulty : ReadResult.NeedMore;
    }

    // The request line [0, end), which is known to end with CRLF and to hold no other control. False after a fault.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private bool ReadWholeRequestLine(ref byte start, int end, int length, in Http1Limits limits)
    {
        Http1Fault fault = ReadMethod(ref start, 0, length);
        if (fault == Http1Fault.None)
        {
            fault = end > limits.RequestLineMax - 2 ? Http1Fault.RequestLineTooLong : ReadVersionAndTarget(ref start, Method.End + 1, end, length);
            fault = fault == Http1Fault.None ? JudgePath(ref start, in limits) : fault;
        }

        _now.FieldsStart = end + 2;
        _now.Stage = Stage.Fields;
        return fault == Http1Fault.None || Fail(fault) == ReadResult.Done;
    }

    // name ":" SP value, the value neither empty nor with more white space around it. False: not that, or a fault in what it means.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private bool ReadWholeField(ref byte start, nint line, nint end, nint length)
    {
        if (length - line < ByteSet.BlockSize)
        {
            return ReadLastField(ref start, line, end, length);
        }

        // Clients send the same fields in the same order, so the name that stood in this place last time is tried first.
        ref byte first = ref Unsafe.Add(ref start, line);
        KnownHeader known = Unsafe.Add(ref MemoryMarshal.GetArrayDataReference(_fields), (nint)_now.Count).Known;
        if (!KnownHeaders.Is(ref first, known, out nint name))
        {
            known = FindName(ref first, out name);
        }

        return name != 0 && TakeField(ref start, line, name, end, known, (int)length);
    }

    // The name before the first colon of a line; of no length if that is no token or too long for one look.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static KnownHeader FindName(ref byte first, out nint name)
    {
        name = (nint)(uint)LineBlock.IndexOf(ref first, (byte)':');
        if (name is 0 or ByteSet.BlockSize)
        {
            name = 0;
            return KnownHeader.Other;
        }

        // A known name is a token; another must be looked at.
        KnownHeader known = KnownHeaders.FindInside(ref first, name);
        if (known == KnownHeader.Other && HttpChars.Token.StopsOfBlock(ref first) << (63 - (int)name) != 1UL << 63)
        {
            name = 0;
        }

        return known;
    }

    // The same for a line among the last 64 bytes of the buffer.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private bool ReadLastField(ref byte start, nint line, nint end, nint length)
    {
        nint name = BitOperations.TrailingZeroCount(HttpChars.Token.Stops(ref start, (int)line, (int)length));
        return name != 0 &&
            TakeField(ref start, line, name, end, KnownHeaders.Find(MemoryMarshal.CreateReadOnlySpan(ref Unsafe.Add(ref start, line), (int)name)), (int)length);
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private bool TakeField(ref byte start, nint line, nint name, nint end, KnownHeader known, int length)
    {
        nint value = line + name + 2;
        if (value >= end || Unsafe.ReadUnaligned<ushort>(ref Unsafe.Add(ref start, value - 2)) != MemoryMarshal.Read<ushort>(": "u8) ||
            Unsafe.Add(ref start, value) == HttpChars.Sp || Unsafe.Add(ref start, end - 1) == HttpChars.Sp)
        {
            return false;
        }

        nint index = _now.Count;
        ref HeaderField field = ref Unsafe.Add(ref MemoryMarshal.GetArrayDataReference(_fields), index);
        _now.Count = (int)index + 1;
        field.NameStart = (int)line;
        field.NameLength = (int)name;
        field.ValueStart = (int)value;
        field.ValueLength = (int)(end - value);
        field.Known = known;
        return known is KnownHeader.Other or > LastFramingField || TakeFramingField(ref start, value, end - value, known, length);
    }

    // Host and Connection as nearly every client sends them, and the rest.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private bool TakeFramingField(ref byte start, nint value, nint valueLength, KnownHeader known, int length)
    {
        ref byte first = ref Unsafe.Add(ref start, value);
        if (known == KnownHeader.Connection && valueLength == 10 && ConnectionField.IsKeepAlive(ref first))
        {
            _now.Seen |= FramingFacts.KeepAlive;
            return true;
        }

        if (known == KnownHeader.Host && _now.HostIndexPlusOne == 0 && length - value >= ByteSet.BlockSize && HostSyntax.IsPlain(ref first, valueLength))
        {
            _now.HostIndexPlusOne = _now.Count;
            return true;
        }

        Http1Fault fault = NoteFramingField(ref start, (int)value, (int)valueLength, known);
        return fault == Http1Fault.None || Fail(fault) == ReadResult.Done;
    }
}
