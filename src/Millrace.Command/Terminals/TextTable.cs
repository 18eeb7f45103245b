// Rows as lines whose columns stand below each other.

namespace Millrace.Command.Terminals;

internal static class TextTable
{
    private const int WidthMax = 80;

    /// <param name="rows">All of the same length. What is in them may come from another user: nothing of it commands the terminal.</param>
    public static string[] Lines(IReadOnlyList<string[]> rows)
    {
        string[][] cells = [.. rows.Select(static row => Array.ConvertAll(row, static cell => CommandConsole.Readable(cell)))];
        int[] widths = [.. Enumerable.Range(0, cells[0].Length).Select(column => Math.Min(WidthMax, cells.Max(row => row[column].Length)))];
        return Array.ConvertAll(cells, row => string.Join("  ", row.Select((cell, column) => cell.PadRight(widths[column]))).TrimEnd());
    }
}
