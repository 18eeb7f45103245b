// Comparing and cutting ASCII field values without culture and without strings.

using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace Millrace.Protocols.Http1;

internal static class Ascii
{
    /// <summary>Whether a value is this word, its letters in any case.</summary>
    /// <param name="value">What came.</param>
    /// <param name="lower">The word in lower case.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal static bool EqualsIgnoreCase(ReadOnlySpan<byte> value, ReadOnlySpan<byte> lower) =>
        value.Length == lower.Length && System.Text.Ascii.EqualsIgnoreCase(value, lower);

    /// <summary>Not empty, and tchars only (RFC 9110 §5.6.2).</summary>
    internal static bool IsToken(ReadOnlySpan<byte> value) =>
        !value.IsEmpty && HttpChars.Token.IndexOfStop(ref MemoryMarshal.GetReference(value), 0, value.Length) == value.Length;

    /// <summary>Cuts the first list element and its comma off, white space around it removed. The list is empty when nothing is left behind a comma.</summary>
    internal static ReadOnlySpan<byte> NextElement(scoped ref ReadOnlySpan<byte> list)
    {
        int comma = list.IndexOf((byte)',');
        ReadOnlySpan<byte> element = comma < 0 ? list : list[..comma];
        list = comma < 0 ? default : list[(comma + 1)..];
        return Trim(element);
    }

    /// <summary>Without the SP and HTAB at both ends (OWS, RFC 9110 §5.6.3).</summary>
    internal static ReadOnlySpan<byte> Trim(ReadOnlySpan<byte> value)
    {
        while (!value.IsEmpty && HttpChars.IsWhite(value[0]))
        {
            value = value[1..];
        }

        while (!value.IsEmpty && HttpChars.IsWhite(value[^1]))
        {
            value = value[..^1];
        }

        return value;
    }
}
