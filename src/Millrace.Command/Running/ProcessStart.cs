// Starts processes one at a time: whoever starts one passes on all that may be inherited at that moment, and what a daemon has its applications
// inherit is meant for one of them alone. So nothing that lies with an application may keep a start waiting: between fork and exec a child touches neither a folder nor a
// program of theirs, whose file system may stand still; and nobody waits for another's start without end.

using System.Diagnostics;

namespace Millrace.Command.Running;

internal static class ProcessStart
{
    private const string Shell = "/bin/sh";

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(20);
    private static readonly Lock s_one = new();

    /// <exception cref="System.ComponentModel.Win32Exception">It cannot be started.</exception>
    /// <exception cref="CommandFailure">Another one is being started, and that does not come to an end.</exception>
    public static Process Now(ProcessStartInfo start) => With(() => Process.Start(start)!);

    /// <summary>Starts a process that inherits what the caller makes inheritable before, and takes back behind.</summary>
    /// <exception cref="CommandFailure">Another one is being started, and that does not come to an end.</exception>
    public static T With<T>(Func<T> start)
    {
        if (!s_one.TryEnter(s_patience))
        {
            throw new CommandFailure(ExitCode.Failure, $"Another process has been about to start for {s_patience.TotalSeconds:0} s, and no other can meanwhile: its program lies on a file system that stands still. Have that answer, or unmount it (umount -l).");
        }
        try
        {
            Posix.TakeWaitingSignals();     // a thread of the runtime's that was there before (Posix.Execute) would pass its blocked ones on
            return start();
        }
        finally
        {
            s_one.Exit();
        }
    }

    /// <summary>Has a shell enter the folder, and become the program: the start is over before either is touched. Without a shell all is as it was.</summary>
    public static void LeaveToShell(ProcessStartInfo start)
    {
        if (!File.Exists(Shell))
        {
            return;
        }
        string[] words = ["-c", "cd -- \"$0\" && exec \"$@\"", start.WorkingDirectory, start.FileName, .. start.ArgumentList];
        start.ArgumentList.Clear();
        Array.ForEach(words, start.ArgumentList.Add);
        (start.FileName, start.WorkingDirectory) = (Shell, "/");
    }
}
