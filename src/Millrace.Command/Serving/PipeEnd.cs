// The reading end of a pipe that somebody else has as well. That it does not block is said of an open file, and whoever has the same one can take it back: then a read of it holds a thread for as long as
// nobody writes. So nobody is given the daemon's, and what comes from another process is opened anew before it is read.

using Millrace.Listeners;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal static class PipeEnd
{
    private const string Anonymous = "pipe:[";

    /// <summary>Another open file of a pipe that has no name, to read from it; -1 where it is none, or cannot be opened.</summary>
    public static int Another(int descriptor)
    {
        string path = SystemCalls.PathOf(descriptor);
        bool isPipe = FileFacts.Of(descriptor, out _) is { IsPipe: true } && new FileInfo(path).LinkTarget?.StartsWith(Anonymous, StringComparison.Ordinal) == true;
        return isPipe ? SystemCalls.Open(path, SystemCalls.O_NONBLOCK | SystemCalls.O_CLOEXEC) : -1;
    }

    /// <summary>Puts another open file under the number of one that came from another process.</summary>
    /// <returns>False: it is no such pipe.</returns>
    public static bool TryRenew(int descriptor)
    {
        int fresh = Another(descriptor);
        if (fresh < 0)
        {
            return false;
        }
        bool isRenewed = SystemCalls.Dup3(fresh, descriptor, SystemCalls.O_CLOEXEC) >= 0;
        _ = SystemCalls.Close(fresh);
        return isRenewed;
    }
}
