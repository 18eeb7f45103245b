// Names that were found in a folder, for a sentence. There may be any number of them, of which nobody reads more than a few.

using System.Globalization;

namespace Millrace.Command.Running;

/// <param name="Count">How many there are.</param>
/// <param name="First">The first of them in their order.</param>
internal sealed record FoundNames(int Count, IReadOnlyList<string> First)
{
    /// <summary>Names that are said.</summary>
    public const int SaidMax = 5;

    /// <param name="paths">Whose last parts are the names, no two the same.</param>
    public static FoundNames Of(IEnumerable<string> paths)
    {
        int count = 0;
        var first = new SortedSet<string>(StringComparer.Ordinal);
        foreach (string path in paths)
        {
            count++;
            first.Add(Path.GetFileName(path));
            if (first.Count > SaidMax)
            {
                first.Remove(first.Max!);
            }
        }
        return new FoundNames(count, [.. first]);
    }

    /// <summary>As "A.dll, B.dll and 3 more".</summary>
    public override string ToString() =>
        string.Join(", ", First) + (Count > First.Count ? string.Create(CultureInfo.InvariantCulture, $" and {Count - First.Count:N0} more") : "");
}
