// The folder of a daemon's sockets is one daemon's: they are named after applications, which another's may be as well. The lock goes with the process, however it ends;
// the files of one that was killed do not, and nobody has a use for them.

using System.Text.RegularExpressions;
using Millrace.Command.Running;
using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal sealed partial class SocketsOfOne : IDisposable
{
    private const int ReadOnly = 0;     // O_RDONLY

    private readonly int _descriptor;

    private SocketsOfOne(int descriptor) => _descriptor = descriptor;

    /// <summary>That of this process from before it became another program.</summary>
    public static SocketsOfOne Resume(int descriptor) => new(descriptor);

    /// <summary>The lock itself.</summary>
    public int Descriptor => _descriptor;

    /// <summary>Takes the folder for this process.</summary>
    /// <param name="control">The control socket; absolute. Its folder is this user's.</param>
    /// <exception cref="CommandFailure">Another daemon has it.</exception>
    public static SocketsOfOne Take(string control)
    {
        string path = Path.GetDirectoryName(control)!;
        int descriptor = Open(path);
        if (descriptor < 0 || !Posix.TryLock(descriptor))
        {
            string why = descriptor < 0 ? $"cannot be opened: {SystemCalls.Describe(SystemCalls.Errno)}" : "holds the sockets of another daemon";
            _ = SystemCalls.Close(descriptor);
            throw new CommandFailure(ExitCode.Failure, $"{path} {why}. Name a \"control\" in a folder that no other daemon uses.");
        }
        return new SocketsOfOne(descriptor);
    }

    /// <summary>Removes what processes of a daemon before have left.</summary>
    /// <param name="control">As it was taken.</param>
    /// <param name="goOn">Those that go on.</param>
    public static void RemoveLeft(string control, IReadOnlySet<string> goOn)
    {
        using var folder = OwnFolder.Open(Path.GetDirectoryName(control)!);
        foreach (string name in folder.Names.Where(name => OfProcess().IsMatch(name) && !goOn.Contains(Path.GetFileNameWithoutExtension(name))).ToArray())
        {
            folder.Remove(name);
        }
    }

    public void Dispose() => _ = SystemCalls.Close(_descriptor);

    private static unsafe int Open(string path)
    {
        fixed (byte* at = FileFacts.Encode(path))
        {
            var here = SystemCalls.ArchitectureNumbers.Here;
            return SystemCalls.OpenAt(SystemCalls.AT_FDCWD, at, ReadOnly | SystemCalls.O_CLOEXEC | here.O_DIRECTORY | here.O_NOFOLLOW);
        }
    }

    [GeneratedRegex(@"^[a-z0-9][a-z0-9_-]*-[0-9]+-[0-9]+\.(http|channel)$")]
    private static partial Regex OfProcess();
}
