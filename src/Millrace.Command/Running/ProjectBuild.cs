// Builds a project in Release and finds its assembly, with one call of `dotnet build`. Says that it builds, which may take a
// while, and what is wrong if that fails; nothing else.

using System.Diagnostics;
using System.Runtime.InteropServices;
using Millrace.Command.Terminals;

namespace Millrace.Command.Running;

internal static class ProjectBuild
{
    /// <returns>The path of the built assembly.</returns>
    /// <exception cref="CommandFailure">The build failed; its complaints have been written to standard error.</exception>
    public static async Task<string> BuildAsync(string project, CommandConsole console, CancellationToken ct)
    {
        console.Say($"building {Path.GetFileName(project)}...");
        using var stopping = CancellationTokenSource.CreateLinkedTokenSource(ct);
        int signalled = 0;
        void Stop(PosixSignalContext context)
        {
            context.Cancel = true;
            signalled = context.Signal switch { PosixSignal.SIGINT => Posix.SigInt, PosixSignal.SIGHUP => Posix.SigHup, _ => Posix.SigTerm };
            stopping.Cancel();
        }
        using var interrupted = PosixSignalRegistration.Create(PosixSignal.SIGINT, Stop);
        using var terminated = PosixSignalRegistration.Create(PosixSignal.SIGTERM, Stop);
        using var hungUp = PosixSignalRegistration.Create(PosixSignal.SIGHUP, Stop);
        using var quit = PosixSignalRegistration.Create(PosixSignal.SIGQUIT, Stop);
        try
        {
            return await BuildAsync(project, errors => console.Error.Write(errors), "the errors are above", stopping.Token);
        }
        catch (OperationCanceledException) when (!ct.IsCancellationRequested)
        {
            throw new CommandFailure(128 + signalled, "The build was stopped.");
        }
    }

    /// <summary>The same where nobody looks on, and signals are somebody else's.</summary>
    /// <param name="project">The project file.</param>
    /// <param name="complain">Is given what the build complains of, several lines at once.</param>
    /// <param name="where">Where these are to be read, as the end of a sentence.</param>
    /// <param name="ct">Ends the build.</param>
    /// <returns>The path of the built assembly.</returns>
    /// <exception cref="CommandFailure">The build failed.</exception>
    public static async Task<string> BuildAsync(string project, Action<string> complain, string where, CancellationToken ct)
    {
        var start = new ProcessStartInfo(DotNet.Path)
        {
            RedirectStandardOutput = true,
            RedirectStandardError = true,
            ArgumentList = { "build", project, "-c", "Release", "--nologo", "-v", "quiet", "-t:Build", "-getProperty:TargetPath" },
        };
        // A build server that outlives us would keep our pipes open.
        start.Environment["MSBUILDDISABLENODEREUSE"] = "1";
        using var build = ProcessStart.Now(start);
        var output = build.StandardOutput.ReadToEndAsync(CancellationToken.None);
        var complaints = build.StandardError.ReadToEndAsync(CancellationToken.None);
        try
        {
            await build.WaitForExitAsync(ct);
        }
        catch (OperationCanceledException)
        {
            build.Kill(entireProcessTree: true);
            throw;
        }
        string assembly = (await output).Trim();
        if (build.ExitCode != 0)
        {
            // What MSBuild says before it has begun, such as of a path that it cannot read, is on standard output.
            string errors = await complaints;
            complain(errors.Length > 0 ? errors : assembly + "\n");
            throw new CommandFailure(ExitCode.Failure, $"{Path.GetFileName(project)} does not build; {where}.");
        }
        if (assembly.Length == 0 || !File.Exists(assembly))
        {
            throw new CommandFailure(ExitCode.Failure, $"{Path.GetFileName(project)} builds no single assembly (several target frameworks?). Publish it, and run the published folder.");
        }
        return assembly;
    }
}
