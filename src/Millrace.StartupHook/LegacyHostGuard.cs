// Notices a legacy web host that asks no hosting start-up of the environment, because its code says so (UseSetting): then
// nothing leads to its server. It is refused before that server, which knows nothing of FastCGI, has tried.

using System.Diagnostics;
using System.Runtime.CompilerServices;

namespace Millrace.StartupHooks;

internal static class LegacyHostGuard
{
    private const string Builder = "Microsoft.AspNetCore.Hosting.WebHostBuilder";

    private const string Refusal =
        "The application's WebHostBuilder asks no hosting start-up assembly of the environment (PreventHostingStartup or HostingStartupAssemblies is set in its code): "
        + "its server cannot be swapped. Take that setting out, or call UseMillrace() in its code.";

    /// <summary>Whether the host that is being built on this thread has asked ours.</summary>
    [field: ThreadStatic]
    public static bool WasAsked { get; set; }

    public static void Check()
    {
        bool wasAsked = WasAsked;
        WasAsked = false;
        if (!wasAsked && !ServerSwap.HasSwapped && IsBuildingLegacyHost())
        {
            Refuse();
        }
    }

    private static bool IsBuildingLegacyHost() =>
        Array.Exists(new StackTrace().GetFrames(), static frame => DiagnosticMethodInfo.Create(frame)?.DeclaringTypeName == Builder);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Refuse()
    {
        if (RunRequest.HasReportPipe)
        {
            RunRequest.ReportFailure(Refusal, isAddress: false);
            Environment.Exit(1);
        }
        Console.Error.WriteLine("millrace: " + Refusal);
    }
}
