// An application whose process is there, and does nothing more.

using System.Runtime.InteropServices;

namespace HostKinds;

internal static partial class Standing
{
    private const int SIGSTOP = 19;

    /// <summary>It is stopped from then on: it has told that it is well.</summary>
    public static Task BeginAsync()
    {
        _ = Kill(Environment.ProcessId, SIGSTOP);
        return Task.CompletedTask;
    }

    /// <summary>Its start never ends, and it takes no notice of being told to.</summary>
    /// <param name="mark">A file; another beside it says that it is so far.</param>
    public static void BeStuck(string mark)
    {
        using var taken = PosixSignalRegistration.Create(PosixSignal.SIGTERM, static context => context.Cancel = true);
        File.WriteAllText(mark + ".now", "");
        Thread.Sleep(Timeout.Infinite);
    }

    [LibraryImport("libc", EntryPoint = "kill")]
    private static partial int Kill(int process, int signal);
}
