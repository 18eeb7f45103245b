// Text of others as it may be shown: of a process's name, of what an application prints, of what a visitor has sent. Nothing of it commands a terminal, turns the writing round or begins a line.

using System.Globalization;
using System.Text;

namespace Millrace.Listeners;

internal static class PlainText
{
    /// <summary>The same, with another character in the place of each that would be obeyed and not shown.</summary>
    /// <param name="text">Anything.</param>
    /// <param name="instead">What is shown.</param>
    /// <param name="kept">Those that are let through all the same, such as tabs.</param>
    public static string Of(string text, char instead, string kept = "")
    {
        int i = 0;
        while (i < text.Length && (IsShown(text, i) || kept.Contains(text[i], StringComparison.Ordinal)))
        {
            i++;
        }
        if (i == text.Length)
        {
            return text;
        }
        var shown = new StringBuilder(text, 0, i, text.Length);
        for (; i < text.Length; i++)
        {
            shown.Append(IsShown(text, i) || kept.Contains(text[i], StringComparison.Ordinal) ? text[i] : instead);
        }
        return shown.ToString();
    }

    // Of two halves each is judged as what both are; one that stands alone is shown.
    private static bool IsShown(string text, int i)
    {
        if (text[i] is >= ' ' and <= '~')
        {
            return true;
        }
        int at = char.IsLowSurrogate(text[i]) && i > 0 && char.IsHighSurrogate(text[i - 1]) ? i - 1 : i;
        return CharUnicodeInfo.GetUnicodeCategory(text, at) is not (UnicodeCategory.Control or UnicodeCategory.Format or UnicodeCategory.LineSeparator or UnicodeCategory.ParagraphSeparator);
    }
}
