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
    public static void BeStuck()
    {
        using var taken = PosixSignalRegistration.Create(PosixSignal.SIGTERM, static context => context.Cancel = true);
        Thread.Sleep(Timeout.Infinite);
    }

    [LibraryImport("libc", EntryPoint = "kill")]
    private static partial int Kill(int process, int signal);
}
