// Where a path leads when all of its symbolic links have been followed (realpath(3)), and whether that is below a folder.

namespace Millrace.Connector;

internal static class RealPath
{
    private const int LinksMax = 40;

    /// <summary>Without links, "." and "..". What is not there stays as it is. Null: too many links, as in a circle.</summary>
    public static string? Of(string path)
    {
        var left = new Stack<string>();
        Push(left, path);
        string found = "";
        for (int links = 0; left.TryPop(out string? name);)
        {
            if (name == "..")
            {
                found = found[..Math.Max(0, found.LastIndexOf('/'))];
                continue;
            }
            string next = found + "/" + name;
            if (new FileInfo(next).LinkTarget is not { } target)
            {
                found = next;
                continue;
            }
            if (++links > LinksMax)
            {
                return null;
            }
            Push(left, target);
            found = target.StartsWith('/') ? "" : found;
        }
        return found.Length == 0 ? "/" : found;
    }

    /// <param name="path">Without links.</param>
    /// <param name="folder">Without links, and without '/' at its end.</param>
    public static bool IsBelow(string path, string folder) =>
        path.Length > folder.Length + 1 && path.StartsWith(folder, StringComparison.Ordinal) && (folder == "/" || path[folder.Length] == '/');

    private static void Push(Stack<string> left, string path)
    {
        foreach (string name in path.Split('/').Reverse())
        {
            if (name is not ("" or "."))
            {
                left.Push(name);
            }
        }
    }
}
