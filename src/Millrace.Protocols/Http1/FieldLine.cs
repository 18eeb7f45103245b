// One field line, of a header or of a trailer section, split into name and value. Grammar only; what the field means is decided elsewhere.
//
//   field-line = field-name ":" OWS field-value OWS CRLF     (RFC 9112 §5)
//   field-name = token                                       (RFC 9110 §5.1)

using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Millrace.Protocols.Http1;

internal static class FieldLine
{
    /// <summary>Splits the line [line, end); no byte in it is a control other than HTAB, and at <paramref name="end"/> stands CR.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal static Http1Fault Split(ref byte start, int line, int end, int length, out HeaderField field)
    {
        // The first byte that is no tchar ends the name. There is always one: the CR.
        ulong stops = HttpChars.Token.Stops(ref start, line, length);
        int colon = stops != 0 ? line + BitOperations.TrailingZeroCount(stops) : HttpChars.Token.IndexOfStop(ref start, line + ByteSet.BlockSize, length);
        Unsafe.SkipInit(out field);
        if (Unsafe.Add(ref start, colon) != ':' || colon == line)
        {
            return NameFault(ref start, line, colon);
        }

        int value = colon + 1;
        if (Unsafe.Add(ref start, value) == HttpChars.Sp)
        {
            value++;
        }

        while (value < end && HttpChars.IsWhite(Unsafe.Add(ref start, value)))
        {
            value++;
        }

        while (end > value && HttpChars.IsWhite(Unsafe.Add(ref start, end - 1)))
        {
            end--;
        }

        field.NameStart = line;
        field.NameLength = colon - line;
        field.ValueStart = value;
        field.ValueLength = end - value;
        field.Known = KnownHeaders.Find(MemoryMarshal.CreateReadOnlySpan(ref Unsafe.Add(ref start, line), colon - line));
        return Http1Fault.None;
    }

    /// <summary>
    /// What the control byte at <paramref name="at"/> is: Done for the CR of a CRLF, NeedMore for a CR at the end of the buffer or no byte at all.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal static ReadResult LineEnd(ref byte start, int at, int length, out Http1Fault fault)
    {
        fault = Http1Fault.None;
        if (at + 1 < length && Unsafe.Add(ref start, at) == HttpChars.Cr && Unsafe.Add(ref start, at + 1) == HttpChars.Lf)
        {
            return ReadResult.Done;
        }

        return OddLineEnd(ref start, at, length, out fault);
    }

    private static ReadResult OddLineEnd(ref byte start, int at, int length, out Http1Fault fault)
    {
        fault = Http1Fault.None;
        if (at == length)
        {
            return ReadResult.NeedMore;
        }

        byte control = Unsafe.Add(ref start, at);
        if (control == HttpChars.Cr && at + 1 == length)
        {
            return ReadResult.NeedMore;
        }

        fault = control switch
        {
            HttpChars.Cr => Http1Fault.BareCr,
            HttpChars.Lf => Http1Fault.BareLf,
            _ => Http1Fault.ControlByte,
        };
        return ReadResult.Faulty;
    }

    private static Http1Fault NameFault(ref byte start, int line, int stop)
    {
        byte b = Unsafe.Add(ref start, stop);
        bool white = HttpChars.IsWhite(b);
        if (stop == line)
        {
            return white ? Http1Fault.LineFolding : b == ':' ? Http1Fault.FieldNameEmpty : Http1Fault.FieldName;
        }

        while (HttpChars.IsWhite(Unsafe.Add(ref start, stop)))
        {
            stop++;
        }

        return white && Unsafe.Add(ref start, stop) == ':' ? Http1Fault.SpaceBeforeColon : Http1Fault.FieldName;
    }
}
