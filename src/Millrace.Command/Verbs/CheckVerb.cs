// `millrace check FILE`: what is wrong with a file before a daemon is given it. Starts nothing and changes nothing.

using System.CommandLine;
using Millrace.Command.Running;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;

namespace Millrace.Command.Verbs;

internal static class CheckVerb
{
    private static readonly Help s_help = new(
        Examples: [("millrace check /etc/millrace/millrace.json", "one line for each mistake, with its place: FILE:LINE:COLUMN")],
        ExitCodes: [(ExitCode.Success, "nothing is wrong"), (ExitCode.Failure, "what it names is not there, or is no application"), (ExitCode.Usage, "the file is wrong, or there is none")]);

    public static System.CommandLine.Command Create(CommandConsole console)
    {
        var file = new Argument<string?>("FILE") { Description = "What `millrace serve` is to be given; default: millrace.json in this folder", Arity = ArgumentArity.ZeroOrOne };
        var command = new System.CommandLine.Command("check", "Say what is wrong with a file of `millrace serve`.") { file };
        command.SetAction(result => Check(console, ServeFileSource.Read(ServeFileSource.Find(result.GetValue(file)))));
        return command.WithHelp(s_help);
    }

    private static int Check(CommandConsole console, ServeFile file)
    {
        var found = file.Apps.SelectMany(app => ProblemsOf(app).Select(problem => new Mistake(file.Written.Of(app.Name, problem.Member), $"{app.Name}: {problem.Sentence}")));
        string[] problems = [.. Mistake.InOrder(found).Select(mistake => mistake.In(file.Path))];
        Array.ForEach(problems, console.Say);
        if (problems.Length == 0)
        {
            console.Output.WriteLine(CommandConsole.Readable($"{file.Path}: nothing is wrong with its {file.CountText}"));
        }
        return problems.Length == 0 ? ExitCode.Success : ExitCode.Failure;
    }

    // What the text cannot show.
    private static IEnumerable<(string Member, string Sentence)> ProblemsOf(AppSettings app)
    {
        if (app.Pool is { } pool)
        {
            foreach (var problem in ProblemsOf(pool))
            {
                yield return problem;
            }
        }
        else if (TargetProblem(app) is { } problem)
        {
            yield return ("target", problem);
        }
        if (app.WorkingDirectory is { } directory && !Directory.Exists(directory))
        {
            yield return ("workingDirectory", WorkingDirectoryMissing(directory));
        }
        if (app.User is { } user && !UserExists(user))
        {
            yield return ("user", $"there is no user '{user}' on this machine. Make one (adduser --system {user}), or name another.");
        }
    }

    private static IEnumerable<(string Member, string Sentence)> ProblemsOf(PoolSettings pool)
    {
        if (!IsProgram(pool.Command))
        {
            yield return ("command", $"there is no program {pool.Command}{(pool.Command.Contains('/', StringComparison.Ordinal) ? "" : " in PATH")}. Install it{(pool.Command == "php-cgi" ? " (apt install php-cgi)" : "")}, or name another with \"command\".");
        }
        if (pool.Root is { } root && !Directory.Exists(root))
        {
            yield return ("root", $"the folder of its scripts {root} is not there. Make it, or name another with \"root\".");
        }
        if (pool.WorkingDirectory != pool.Root && !Directory.Exists(pool.WorkingDirectory))
        {
            yield return ("workingDirectory", WorkingDirectoryMissing(pool.WorkingDirectory));
        }
    }

    private static string WorkingDirectoryMissing(string directory) => $"the working directory {directory} is not there. Make it, or name another.";

    private static bool IsProgram(string command)
    {
        const UnixFileMode executable = UnixFileMode.UserExecute | UnixFileMode.GroupExecute | UnixFileMode.OtherExecute;
        string[] folders = command.Contains('/', StringComparison.Ordinal) ? [""] : (Environment.GetEnvironmentVariable("PATH") ?? "").Split(':', StringSplitOptions.RemoveEmptyEntries);
        return folders.Select(folder => Path.Combine(folder, command)).Any(static path => File.Exists(path) && OperatingSystem.IsLinux() && (File.GetUnixFileMode(path) & executable) != 0);
    }

    private static string? TargetProblem(AppSettings app)
    {
        try
        {
            return OtherUser.Read(app.User is { } user && UserExists(user) ? OtherUser.Find(user) : null, () =>
            {
                if (AppTarget.FindProject(app.Target) is null)
                {
                    AppTarget.FindApp(app.Target, app.Environment);
                }
                return null as string;
            });
        }
        catch (CommandFailure failure)
        {
            return failure.Message;
        }
    }

    private static bool UserExists(string user)
    {
        try
        {
            _ = Listeners.Accounts.Find(user);
            return true;
        }
        catch (MillraceStartException)
        {
            return false;
        }
    }
}
