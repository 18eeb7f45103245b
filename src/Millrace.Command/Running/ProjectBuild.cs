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
        var start = new ProcessStartInfo(DotNet.Path)
        {
            RedirectStandardOutput = true,
            RedirectStandardError = true,
            ArgumentList = { "build", project, "-c", "Release", "--nologo", "-v", "quiet", "-t:Build", "-getProperty:TargetPath" },
        };
        // A build server that outlives us would keep our pipes open.
        start.Environment["MSBUILDDISABLENODEREUSE"] = "1";
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
        using var build = Process.Start(start)!;
        var output = build.StandardOutput.ReadToEndAsync(ct);
        var complaints = build.StandardError.ReadToEndAsync(ct);
        try
        {
            await build.WaitForExitAsync(stopping.Token);
        }
        catch (OperationCanceledException)
        {
            build.Kill(entireProcessTree: true);
            ct.ThrowIfCancellationRequested();
            throw new CommandFailure(128 + signalled, "The build was stopped.");
        }
        string assembly = (await output).Trim();
        if (build.ExitCode != 0)
        {
            // What MSBuild says before it has begun, such as of a path that it cannot read, is on standard output.
            string errors = await complaints;
            console.Error.Write(errors.Length > 0 ? errors : assembly + "\n");
            throw new CommandFailure(ExitCode.Failure, $"{Path.GetFileName(project)} does not build; the errors are above.");
        }
        if (assembly.Length == 0 || !File.Exists(assembly))
        {
            throw new CommandFailure(ExitCode.Failure, $"{Path.GetFileName(project)} builds no single assembly (several target frameworks?). Publish it, and run the published folder.");
        }
        return assembly;
    }
}
