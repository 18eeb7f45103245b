// Which of the names that there are somebody may have meant by one that there is not.

namespace Millrace;

internal static class NearestName
{
    /// <summary>The name that is spelt most like another; null where there is none.</summary>
    public static string? To(string written, IEnumerable<string> names) => names.MinBy(name => Distance(written, name));

    /// <summary>Levenshtein's distance, without regard to case.</summary>
    public static int Distance(string a, string b)
    {
        int[] row = [.. Enumerable.Range(0, b.Length + 1)];
        for (int i = 0; i < a.Length; i++)
        {
            int diagonal = row[0];
            row[0] = i + 1;
            for (int j = 0; j < b.Length; j++)
            {
                int change = diagonal + (char.ToUpperInvariant(a[i]) == char.ToUpperInvariant(b[j]) ? 0 : 1);
                diagonal = row[j + 1];
                row[j + 1] = Math.Min(change, 1 + Math.Min(row[j], row[j + 1]));
            }
        }

        return row[^1];
    }
}
