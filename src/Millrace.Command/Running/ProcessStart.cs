// Starts processes one at a time: whoever starts one passes on all that may be inherited at that moment, and what a daemon has its applications
// inherit is meant for one of them alone.

using System.Diagnostics;

namespace Millrace.Command.Running;

internal static class ProcessStart
{
    private static readonly Lock s_one = new();

    /// <exception cref="System.ComponentModel.Win32Exception">It cannot be started.</exception>
    public static Process Now(ProcessStartInfo start) => With(() => Process.Start(start)!);

    /// <summary>Starts a process that inherits what the caller makes inheritable before, and takes back behind.</summary>
    public static T With<T>(Func<T> start)
    {
        lock (s_one)
        {
            Posix.TakeWaitingSignals();     // a thread of the runtime's that was there before (Posix.Execute) would pass its blocked ones on
            return start();
        }
    }
}
