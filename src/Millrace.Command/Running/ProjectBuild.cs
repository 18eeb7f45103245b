// Builds a project in Release and finds its assembly, with one call of `dotnet build`. Says that it builds, which may take a
// while, and what is wrong if that fails; nothing else.

using System.Diagnostics;
using System.Runtime.InteropServices;
using System.Text;
using Millrace.Command.Terminals;

namespace Millrace.Command.Running;

internal static class ProjectBuild
{
    private const int CharsMax = 256 * 1024;

    private static readonly TimeSpan s_lastWordsPatience = TimeSpan.FromSeconds(10);

    /// <param name="project">The project file.</param>
    /// <param name="folders">Of the projects that this builds, as far as they are known.</param>
    /// <param name="console">Is told.</param>
    /// <param name="ct">Ends the build.</param>
    /// <returns>The path of the built assembly.</returns>
    /// <exception cref="CommandFailure">The build failed; its complaints have been written to standard error.</exception>
    public static async Task<string> BuildAsync(string project, IEnumerable<string> folders, CommandConsole console, CancellationToken ct)
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
            await using var turn = await BuildTurn.TakeAsync(folders, user: null, stopping.Token);
            return await BuildAsync(new Order(project, User: null), errors => console.Error.Write(errors), "the errors are above", stopping.Token);
        }
        catch (OperationCanceledException) when (!ct.IsCancellationRequested)
        {
            throw new CommandFailure(128 + signalled, "The build was stopped.");
        }
    }

    /// <param name="Project">The project file.</param>
    /// <param name="User">Who builds it; null: this process's own.</param>
    /// <param name="IsAnew">Whether nothing of what an earlier build has made is to be believed.</param>
    /// <param name="IsThere">Whether there is a file, where that may not be known for long; null: it is looked for as always.</param>
    /// <param name="Builder">The program that builds; null: `dotnet`.</param>
    public sealed record Order(string Project, OtherUser? User, bool IsAnew = false, Func<string, Task<bool>>? IsThere = null, string? Builder = null);

    /// <summary>The same where nobody looks on, and signals and turns are somebody else's.</summary>
    /// <param name="order">What to build.</param>
    /// <param name="complain">Is given what the build complains of, several lines at once.</param>
    /// <param name="where">Where these are to be read, as the end of a sentence.</param>
    /// <param name="ct">Ends the build.</param>
    /// <returns>The path of the built assembly.</returns>
    /// <exception cref="CommandFailure">The build failed.</exception>
    public static async Task<string> BuildAsync(Order order, Action<string> complain, string where, CancellationToken ct)
    {
        var (project, user, isAnew, isThere, builder) = order;
        var start = new ProcessStartInfo(builder ?? DotNet.Path)
        {
            RedirectStandardOutput = true,
            RedirectStandardError = true,
            ArgumentList = { "build", project, "-c", "Release", "--nologo", "-v", "quiet", isAnew ? "-t:Rebuild" : "-t:Build", "-getProperty:TargetPath" },
        };
        // A build server that outlives us would keep our pipes open.
        start.Environment["MSBUILDDISABLENODEREUSE"] = "1";
        if (user is not null)
        {
            user.Describe(start.Environment);
            start.WorkingDirectory = Path.GetDirectoryName(project)!;
            _ = ProcessStart.Defer(start);
            _ = ProcessStart.BecomeUser(start, user);
            start.RedirectStandardInput = true;
        }
        _ = ProcessStart.LeaveSession(start);
        using var build = ProcessStart.Now(start);
        if (user is not null)
        {
            build.StandardInput.Close();        // not the terminal of whoever has started this one
        }
        // What it has left behind may hold the other ends for good. Disposing of the process closes neither of these: somebody has asked for them.
        using var printed = build.StandardOutput;
        using var complained = build.StandardError;
        var output = ReadAsync(printed);
        var complaints = ReadAsync(complained);
        try
        {
            await build.WaitForExitAsync(ct);
        }
        catch (OperationCanceledException)
        {
            // Whom it has started is looked for among all processes, and there may be many: that is a thread's of its own.
            var kill = Task.Factory.StartNew(() => ProcessTree.Kill(build, user), CancellationToken.None, TaskCreationOptions.LongRunning | TaskCreationOptions.DenyChildAttach, TaskScheduler.Default);
            var end = Task.WhenAll(kill, build.WaitForExitAsync(CancellationToken.None));
            if (await Task.WhenAny(end, Task.Delay(s_lastWordsPatience, CancellationToken.None)) != end)     // the next one writes where it did
            {
                build.Kill();
            }
            _ = end.ContinueWith(static its => its.Exception, TaskScheduler.Default);
            throw;
        }
        string assembly = (await LastWordsAsync(output, ct)).Trim();
        if (build.ExitCode != 0)
        {
            // What MSBuild says before it has begun, such as of a path that it cannot read, is on standard output.
            string errors = await LastWordsAsync(complaints, ct);
            complain(errors.Length > 0 ? errors : assembly + "\n");
            string who = user is null ? "" : $" User {user.Name}, whom the application runs as, builds it, and must be able to write in its folder and in a home of his own; or publish it, and name the published folder.";
            throw new CommandFailure(ExitCode.Failure, $"{Path.GetFileName(project)} does not build; {where}.{who}");
        }
        if (assembly.Length == 0 || !await (isThere?.Invoke(assembly) ?? Task.FromResult(File.Exists(assembly))))
        {
            throw new CommandFailure(ExitCode.Failure, $"{Path.GetFileName(project)} builds no single assembly (several target frameworks?). Publish it, and run the published folder.");
        }
        return assembly;
    }

    // All of it, so that it can go on; and no more is kept than anybody wants to read.
    private static async Task<string> ReadAsync(StreamReader from)
    {
        var text = new StringBuilder();
        char[] part = new char[4096];
        try
        {
            while (await from.ReadAsync(part, CancellationToken.None) is > 0 and int got)
            {
                text.Append(part, 0, Math.Min(got, CharsMax - text.Length));
            }
        }
        catch (Exception error) when (error is IOException or ObjectDisposedException or OperationCanceledException)
        {
            // Nobody waits for it any more.
        }
        return text.ToString();
    }

    // What a build has started and left behind may hold its pipes.
    private static async Task<string> LastWordsAsync(Task<string> read, CancellationToken ct)
    {
        try
        {
            return await read.WaitAsync(s_lastWordsPatience, ct);
        }
        catch (TimeoutException)
        {
            throw new CommandFailure(ExitCode.Failure, "The build has ended, and a process that it has started holds its output open. End that process, and build again.");
        }
    }
}
