// What the daemon has got from whoever started it, and what its applications, which may be other users', are not to get from it: open files, and a
// terminal. Whoever shares one with a shell can type for its user, also when the daemon has ended (TIOCSTI, ioctl_tty(2)). A daemon that leads its session (`exec millrace serve`, `docker run -it`)
// cannot leave its terminal: Ctrl+C would not reach it any more. But each process that it starts for others is in a session of its own, which has no terminal (ProcessStart.LeaveSession, RunRequest.BeginSession).

using System.Globalization;
using Millrace.Platform;

namespace Millrace.Command.Running;

internal static class Inheritance
{
    private const int StandardMax = 2;

    /// <summary>From now on this process passes on no open files, and has no terminal unless it leads its session. Ctrl+C still reaches it, and what it prints the terminal.</summary>
    public static void End()
    {
        EndOfFiles();
        Posix.LeaveTerminal();
    }

    /// <summary>The same of open files alone, for applications of whoever sits at the terminal, which have a session of their own all the same.</summary>
    public static void EndOfFiles()
    {
        foreach (string entry in Directory.GetFileSystemEntries("/proc/self/fd"))
        {
            if (int.TryParse(Path.GetFileName(entry), NumberStyles.None, CultureInfo.InvariantCulture, out int descriptor) && descriptor > StandardMax)
            {
                _ = SystemCalls.Fcntl(descriptor, SystemCalls.F_SETFD, SystemCalls.FD_CLOEXEC);
            }
        }
    }
}
