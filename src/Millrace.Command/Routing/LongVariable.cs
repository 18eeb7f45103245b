// A text on its way to a process that is started: in variables, none of which is longer than the system allows.

using System.Globalization;
using System.Text;

namespace Millrace.Command.Routing;

internal static class LongVariable
{
    private const int LengthMax = 100_000;

    /// <summary>The variables that hold a text.</summary>
    /// <param name="prefix">What their names begin with; a number follows.</param>
    /// <param name="text">The text.</param>
    public static IEnumerable<KeyValuePair<string, string>> Write(string prefix, string text) =>
        text.Chunk(LengthMax).Select((part, i) => new KeyValuePair<string, string>(NameOf(prefix, i), new string(part)));

    /// <summary>Takes it out of the environment; null where there is none.</summary>
    public static string? Take(string prefix)
    {
        var text = new StringBuilder();
        for (int i = 0; Environment.GetEnvironmentVariable(NameOf(prefix, i)) is { } part; i++)
        {
            text.Append(part);
            Environment.SetEnvironmentVariable(NameOf(prefix, i), null);
        }
        return text.Length == 0 ? null : text.ToString();
    }

    private static string NameOf(string prefix, int index) => prefix + index.ToString(CultureInfo.InvariantCulture);
}
