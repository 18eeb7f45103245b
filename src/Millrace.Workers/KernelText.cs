// What the kernel says in files (proc(5)); nothing where it does not.

namespace Millrace.Workers;

internal static class KernelText
{
    /// <summary>A file; empty: it is not there, or may not be read.</summary>
    public static string Read(string path)
    {
        try
        {
            return File.ReadAllText(path).Trim();
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            return "";
        }
    }

    /// <summary>What stands behind a name in a text of lines; empty: it is in none.</summary>
    public static string Line(string text, string name) =>
        text.Split('\n').FirstOrDefault(line => line.StartsWith(name, StringComparison.Ordinal))?[name.Length..].Trim() ?? "";
}
