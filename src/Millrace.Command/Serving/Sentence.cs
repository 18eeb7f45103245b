// What is said of an application is kept a hundred times over, logged, written into the state and sent to whoever asks. Anybody's words may be in it, such as names of files:
// they make it no longer than somebody reads, and begin no line that looks like another sentence.

using System.Globalization;

namespace Millrace.Command.Serving;

internal static class Sentence
{
    /// <summary>Characters of one that are kept.</summary>
    public const int LengthMax = 2048;

    private const int EndLength = 512;      // where the cure stands
    private const int GapMax = 64;

    private const string Indent = "    ";

    /// <summary>The same, of which no line but the first begins where a line begins, without the middle of one that is longer than <see cref="LengthMax"/>. That of such a one is the same.</summary>
    public static string Of(string sentence) => Cut(sentence.Contains('\n', StringComparison.Ordinal) ? string.Join('\n', sentence.Split('\n').Select(static (line, i) => i == 0 || line.StartsWith(Indent, StringComparison.Ordinal) ? line : Indent + line)) : sentence);

    private static string Cut(string sentence)
    {
        if (sentence.Length <= LengthMax)
        {
            return sentence;
        }
        string begin = WithoutHalf(sentence.AsSpan(0, LengthMax - EndLength - GapMax));
        string end = WithoutHalf(sentence.AsSpan(sentence.Length - EndLength));
        return string.Create(CultureInfo.InvariantCulture, $"{begin} ... ({sentence.Length - begin.Length - end.Length} characters more) ... {end}");
    }

    // Of two that are one character.
    private static string WithoutHalf(ReadOnlySpan<char> part)
    {
        part = char.IsLowSurrogate(part[0]) ? part[1..] : part;
        return (char.IsHighSurrogate(part[^1]) ? part[..^1] : part).ToString();
    }
}
