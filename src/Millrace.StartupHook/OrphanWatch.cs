// A process that has not been told to accept serves nobody, and nobody would ever tell it once its daemon has gone: it ends.

using System.Globalization;
using System.Runtime.InteropServices;

namespace Millrace.StartupHooks;

internal static partial class OrphanWatch
{
    private const int Kill = 9;
    private static readonly TimeSpan s_period = TimeSpan.FromMilliseconds(500);
    private static Timer? s_timer;

    /// <param name="daemon">The number of the process that has started this one.</param>
    public static void Begin(string? daemon)
    {
        if (int.TryParse(daemon, NumberStyles.None, CultureInfo.InvariantCulture, out int process))
        {
            s_timer = new Timer(_ => Look(process), null, s_period, s_period);
        }
    }

    /// <summary>It serves from now on, whatever becomes of the daemon.</summary>
    public static void End() => s_timer?.Dispose();

    private static void Look(int daemon)
    {
        if (ParentProcess() != daemon)
        {
            _ = Signal(Environment.ProcessId, Kill);
        }
    }

    [LibraryImport("libc", EntryPoint = "getppid")]
    private static partial int ParentProcess();

    [LibraryImport("libc", EntryPoint = "kill")]
    private static partial int Signal(int process, int signal);
}
