// Copies of code that earlier daemons have left, and that no process runs from: they are removed by a thread that nobody waits for. To read the command line of a process is to
// read its memory, of which it may have made something that never answers.

using Millrace.Command.Running;

namespace Millrace.Command.Serving;

internal static class LeftSnapshots
{
    private const int CommandMax = 1024 * 1024;     // what a process was started with stands at the beginning

    /// <summary>Begins to remove what lies in a folder now; what is made there from now on has other names.</summary>
    /// <param name="path">The folder.</param>
    /// <param name="goOn">What is in use.</param>
    /// <param name="commandLines">Those of all processes. Where one does not answer all stays, for the next daemon.</param>
    /// <returns>Ends when it has been removed, which may be never.</returns>
    public static Task BeginRemoving(string path, IReadOnlySet<string> goOn, Func<IEnumerable<string>> commandLines)
    {
        using var folder = OwnFolder.Open(path);
        string[] left = [.. folder.Names.Where(name => !goOn.Contains(name))];
        try
        {
            return left.Length == 0 ? Task.CompletedTask : Task.Factory.StartNew(() => Remove(path, left, commandLines()), CancellationToken.None, TaskCreationOptions.LongRunning | TaskCreationOptions.DenyChildAttach, TaskScheduler.Default);
        }
        catch (Exception error)     // of the system's, of whatever kind: there is no thread
        {
            return Task.FromException(error);
        }
    }

    /// <summary>Those of all processes of the machine.</summary>
    public static IEnumerable<string> CommandLines()
    {
        char[] command = new char[CommandMax];
        foreach (string process in Directory.EnumerateDirectories("/proc").Where(static each => char.IsAsciiDigit(Path.GetFileName(each)[0])))
        {
            int length = 0;
            try
            {
                using var text = new StreamReader(process + "/cmdline");
                length = text.ReadBlock(command);
            }
            catch (Exception error) when (error is IOException or UnauthorizedAccessException)
            {
                // It has ended meanwhile, or is somebody else's.
            }
            yield return new string(command, 0, length);
        }
    }

    private static void Remove(string path, IReadOnlyList<string> left, IEnumerable<string> commandLines)
    {
        HashSet<string> unused = [.. left];
        foreach (string command in commandLines)
        {
            unused.RemoveWhere(name => command.Contains($"{path}/{name}/", StringComparison.Ordinal));
        }
        try
        {
            using var folder = OwnFolder.Open(path);
            foreach (string name in unused)
            {
                folder.Remove(name);
            }
        }
        catch (IOException)
        {
            // Somebody has removed all of it.
        }
    }
}
