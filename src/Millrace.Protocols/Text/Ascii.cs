// Character classes of HTTP (RFC 9110 §5.6) over bytes. No decoding, no strings.
using System.Buffers;

namespace Millrace.Protocols.Text;

/// <summary>Questions about bytes that HTTP and CGI ask alike. All are vectorised and free of culture.</summary>
public static class Ascii
{
    // tchar = "!" / "#" / "$" / "%" / "&" / "'" / "*" / "+" / "-" / "." / "^" / "_" / "`" / "|" / "~" / DIGIT / ALPHA   (RFC 9110 §5.6.2)
    private static readonly SearchValues<byte> TokenCharacters =
        SearchValues.Create("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"u8);

    /// <summary>Whether <paramref name="text"/> is a token: one or more tchar (RFC 9110 §5.6.2).</summary>
    /// <param name="text">A method or a field name.</param>
    /// <returns>False for the empty text.</returns>
    public static bool IsToken(ReadOnlySpan<byte> text) => !text.IsEmpty && !text.ContainsAnyExcept(TokenCharacters);

    /// <summary>Whether <paramref name="text"/> may stand as a field value: no CR, LF or NUL (RFC 9110 §5.5). Other bytes are taken as they are.</summary>
    /// <param name="text">A field value without its line end.</param>
    /// <returns>True for the empty text.</returns>
    public static bool IsFieldValue(ReadOnlySpan<byte> text) => !text.ContainsAny((byte)'\r', (byte)'\n', (byte)0);

    /// <summary>Whether every byte is a visible ASCII character, %x21-7E: what a request target is made of (RFC 9112 §3.2).</summary>
    /// <param name="text">A request target.</param>
    /// <returns>True for the empty text.</returns>
    public static bool IsVisible(ReadOnlySpan<byte> text) => !text.ContainsAnyExceptInRange((byte)0x21, (byte)0x7E);

    /// <summary>Takes optional white space, SP and HTAB, off both ends (RFC 9110 §5.6.3).</summary>
    /// <param name="text">Any bytes.</param>
    /// <returns>A part of <paramref name="text"/>.</returns>
    public static ReadOnlySpan<byte> TrimOptionalWhiteSpace(ReadOnlySpan<byte> text)
    {
        int start = 0;
        int end = text.Length;
        while (start < end && IsOptionalWhiteSpace(text[start]))
        {
            start++;
        }

        while (end > start && IsOptionalWhiteSpace(text[end - 1]))
        {
            end--;
        }

        return text[start..end];
    }

    /// <summary>Whether <paramref name="text"/> equals <paramref name="lowerCase"/> when its letters are lowered.</summary>
    /// <param name="text">Any bytes.</param>
    /// <param name="lowerCase">ASCII without capital letters.</param>
    /// <returns>True where they are equal but for the case of ASCII letters.</returns>
    public static bool EqualsLowerCase(ReadOnlySpan<byte> text, ReadOnlySpan<byte> lowerCase)
    {
        if (text.Length != lowerCase.Length)
        {
            return false;
        }

        for (int i = 0; i < text.Length; i++)
        {
            byte b = text[i];
            if (b - 'A' <= 'Z' - 'A' && b >= 'A')
            {
                b |= 0x20;
            }

            if (b != lowerCase[i])
            {
                return false;
            }
        }

        return true;
    }

    /// <summary>Reads Content-Length = 1*DIGIT (RFC 9110 §8.6): no sign, no white space, no list, no number above <see cref="long.MaxValue"/>.</summary>
    /// <param name="text">The field value.</param>
    /// <param name="value">The number of bytes, or 0 where the answer is false.</param>
    /// <returns>Whether the whole text is such a number.</returns>
    public static bool TryParseContentLength(ReadOnlySpan<byte> text, out long value)
    {
        value = 0;
        if (text.IsEmpty)
        {
            return false;
        }

        long number = 0;
        foreach (byte b in text)
        {
            uint digit = (uint)(b - '0');
            if (digit > 9 || number > (long.MaxValue - digit) / 10)
            {
                return false;
            }

            number = (number * 10) + digit;
        }

        value = number;
        return true;
    }

    private static bool IsOptionalWhiteSpace(byte b) => b is (byte)' ' or (byte)'\t';
}
