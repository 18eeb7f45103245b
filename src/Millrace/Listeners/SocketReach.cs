// Who may open a Unix socket by its path, as far as modes say: connecting takes the right to write to the file, and to search every directory on the way.

namespace Millrace.Listeners;

internal static class SocketReach
{
    /// <summary>
    /// Whether every user of the machine may connect. False as well where that cannot be seen: the path may be one of another root directory, or of a socket that has been removed.
    /// </summary>
    /// <param name="path">An absolute path.</param>
    public static bool IsOpenToAll(string path)
    {
        if (FileFacts.At(path, out _) is not { IsSocket: true } file || !file.Mode.HasFlag(UnixFileMode.OtherWrite))
        {
            return false;
        }

        string? directory = Path.GetDirectoryName(path);
        while (directory is not null)
        {
            if (FileFacts.At(directory, out _) is not FileFacts facts || (facts.IsDirectory && !facts.Mode.HasFlag(UnixFileMode.OtherExecute)))
            {
                return false;
            }

            directory = Path.GetDirectoryName(directory);
        }

        return true;
    }
}
