// A process that has not been told to accept serves nobody, and nobody would ever tell it once its daemon has gone: it ends. So does one that serves where no other daemon takes it over (`millrace run --reload`).

using System.Globalization;
using System.Runtime.InteropServices;

namespace Millrace.StartupHooks;

internal static partial class OrphanWatch
{
    private const int Kill = 9;
    private static readonly TimeSpan s_period = TimeSpan.FromMilliseconds(500);
    private static Timer? s_timer;
    private static bool s_isForGood;

    /// <param name="daemon">The number of the process that has started this one.</param>
    /// <param name="isForGood">Whether it ends with that one also when it serves.</param>
    public static void Begin(string? daemon, bool isForGood)
    {
        s_isForGood = isForGood;
        if (int.TryParse(daemon, NumberStyles.None, CultureInfo.InvariantCulture, out int process))
        {
            s_timer = new Timer(_ => Look(process), null, s_period, s_period);
        }
    }

    /// <summary>It serves from now on, whatever becomes of a daemon that another one can come behind.</summary>
    public static void End()
    {
        if (!s_isForGood)
        {
            s_timer?.Dispose();
        }
    }

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
