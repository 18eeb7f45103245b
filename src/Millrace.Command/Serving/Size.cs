// Amounts of memory in the file of `millrace serve`.

using System.Globalization;

namespace Millrace.Command.Serving;

/// <summary>Amounts of memory as people write them: a number and k, m or g, of 1024 each.</summary>
internal static class Size
{
    public static bool TryParse(string text, out long bytes)
    {
        int shift = text is [.., var unit] ? char.ToLowerInvariant(unit) switch { 'k' => 10, 'm' => 20, 'g' => 30, _ => 0 } : 0;
        bool isNumber = int.TryParse(shift == 0 ? "" : text[..^1], NumberStyles.None, CultureInfo.InvariantCulture, out int number);
        bytes = isNumber ? (long)number << shift : 0;
        return isNumber;
    }

    /// <summary>In the largest unit that says it exactly.</summary>
    public static string Text(long bytes)
    {
        int shift = bytes % (1L << 30) == 0 ? 30 : bytes % (1L << 20) == 0 ? 20 : 10;
        return string.Create(CultureInfo.InvariantCulture, $"{bytes >> shift}{(shift == 30 ? 'g' : shift == 20 ? 'm' : 'k')}");
    }
}
