// What may stand in a response field, checked on the strings an application sets. RFC 9110 §5.1 and §5.5.

using System.Buffers;
using System.Globalization;
using System.Text;

namespace Millrace.Exchanges;

internal static class FieldText
{
    private static readonly SearchValues<char> s_token =
        SearchValues.Create("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");

    public static bool IsName(string name) => name.Length > 0 && !name.AsSpan().ContainsAnyExcept(s_token);

    /// <summary>Printable ASCII, spaces and tabs.</summary>
    public static bool IsValue(string value)
    {
        ReadOnlySpan<char> text = value;
        return !text.ContainsAnyExceptInRange(' ', '~') || !ContainsBad(text);
    }

    /// <summary>The same, and bytes beyond ASCII, each a character: obs-text.</summary>
    public static bool IsByteValue(string value)
    {
        foreach (char c in value)
        {
            if (c is (< ' ' or > '~') and not '\t' and not (>= '\u0080' and <= '\u00FF'))
            {
                return false;
            }
        }

        return true;
    }

    /// <summary>Safe to put into a message: controls are shown as escapes, and what is longer is cut.</summary>
    public static string Shown(string text, int lengthMax = 64)
    {
        var shown = new StringBuilder();
        foreach (char c in text.AsSpan(0, Math.Min(text.Length, lengthMax)))
        {
            _ = c is >= ' ' and <= '~' ? shown.Append(c) : shown.Append(CultureInfo.InvariantCulture, $"\\u{(int)c:x4}");
        }

        return shown.ToString();
    }

    private static bool ContainsBad(ReadOnlySpan<char> text)
    {
        foreach (char c in text)
        {
            if (c is (< ' ' or > '~') and not '\t')
            {
                return true;
            }
        }

        return false;
    }
}

/// <summary>Decimal text of lengths: the small ones are made once, of the others the last few are kept.</summary>
internal static class DecimalText
{
    private static readonly string?[] s_small = new string?[2048];
    private static readonly Recent?[] s_recent = new Recent?[256];

    private sealed record Recent(long Value, string Text);

    public static string Of(long value)
    {
        if ((ulong)value >= (ulong)s_small.Length)
        {
            return OfLarge(value);
        }

        return s_small[value] ??= value.ToString(CultureInfo.InvariantCulture);
    }

    // Direct-mapped; entries are replaced whole, so that threads need no lock.
    private static string OfLarge(long value)
    {
        ref Recent? entry = ref s_recent[(int)(((ulong)value * 0x9E37_79B9_7F4A_7C15) >> 56)];
        Recent? recent = Volatile.Read(ref entry);
        if (recent is null || recent.Value != value)
        {
            recent = new Recent(value, value.ToString(CultureInfo.InvariantCulture));
            Volatile.Write(ref entry, recent);
        }

        return recent.Text;
    }
}
