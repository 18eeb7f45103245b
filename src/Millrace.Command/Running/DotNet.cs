// Which `dotnet` starts applications and builds. A bare name would not do: a process is started from the folder of the command and from
// the current folder before PATH is looked at, and either may hold somebody else's file of that name.

using System.Runtime.InteropServices;

namespace Millrace.Command.Running;

internal static class DotNet
{
    private const string Name = "dotnet";

    /// <summary>The `dotnet` that runs this command, else the one its runtime belongs to, else the one on PATH; an absolute path.</summary>
    public static string Path { get; } = Find(
        Environment.ProcessPath, RuntimeEnvironment.GetRuntimeDirectory(), Environment.GetEnvironmentVariable("PATH"), File.Exists);

    /// <summary>The same with everything it looks at passed in.</summary>
    internal static string Find(string? process, string runtime, string? path, Func<string, bool> exists)
    {
        if (process is ['/', ..] && System.IO.Path.GetFileName(process) == Name)
        {
            return process;
        }

        // ROOT/shared/Microsoft.NETCore.App/10.0.0/
        string beside = System.IO.Path.GetFullPath(System.IO.Path.Combine(runtime, "../../..", Name));
        IEnumerable<string> onPath = (path ?? string.Empty).Split(':').Where(static folder => folder.StartsWith('/')).Select(static folder => System.IO.Path.Combine(folder, Name));
        return onPath.Prepend(beside).FirstOrDefault(exists)
            ?? throw new CommandFailure(ExitCode.Failure, "There is no `dotnet` on the PATH. Install .NET 10: https://dotnet.microsoft.com/download");
    }
}
