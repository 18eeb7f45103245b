// Where a path leads. Links on the way, in whatever folder, may lead elsewhere a moment later: who is to meet the same again keeps what this says.

namespace Millrace.Command.Running;

internal static class RealPath
{
    /// <summary>Of a folder: its own path, without a link in it. Of anything else: the same of the folder that it is in, and its name. What is not there, or closed, as it was given.</summary>
    public static string Of(string path) =>
        Directory.Exists(path) ? OfFolder(path)
        : Path.GetDirectoryName(path) is { Length: > 0 } folder ? Path.Combine(OfFolder(folder), Path.GetFileName(path))
        : path;

    private static string OfFolder(string folder) => Posix.RealPath(folder) ?? folder;
}
