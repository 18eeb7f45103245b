// `millrace unit FILE`: prints the systemd unit for `millrace serve FILE`. Writes nothing but its standard output.

using System.CommandLine;
using Millrace.Command.Running;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;

namespace Millrace.Command.Verbs;

internal static class UnitVerb
{
    private static readonly Help s_help = new(
        Examples:
        [
            ("millrace unit /etc/millrace/millrace.json > /etc/systemd/system/millrace.service", "for root; then: systemctl daemon-reload && systemctl enable --now millrace"),
            ("millrace unit > ~/.config/systemd/user/millrace.service", "for a user, and millrace.json in this folder; then: systemctl --user enable --now millrace"),
        ],
        ExitCodes: [(ExitCode.Success, "printed"), (ExitCode.Usage, "the command line or the file is wrong")]);

    public static System.CommandLine.Command Create(CommandConsole console)
    {
        var file = new Argument<string?>("FILE") { Description = "What is to be served; default: millrace.json in this folder", Arity = ArgumentArity.ZeroOrOne };
        var command = new System.CommandLine.Command("unit", "Print a systemd unit that serves a file.") { file };
        command.SetAction(result =>
        {
            var served = ServeFileSource.Read(ServeFileSource.Find(result.GetValue(file)));
            if (served.Path.Any(char.IsControl))
            {
                throw CommandFailure.Usage($"The path {served.Path} holds a control character, which a unit would take for more than a path. Rename the folder.");
            }
            console.Output.Write(UnitFile.Write(served, HowStarted(), Environment.IsPrivilegedProcess));
            return ExitCode.Success;
        });
        return command.WithHelp(s_help);
    }

    // A script that stands for the command, the command itself, or `dotnet` and its assembly.
    private static string[] HowStarted()
    {
        string process = Environment.ProcessPath ?? DotNet.Path;
        return Environment.GetEnvironmentVariable(AppProcess.CommandVariable) is { Length: > 0 } script && File.Exists(script) ? [Path.GetFullPath(script)]
            : Path.GetFileNameWithoutExtension(process) == "dotnet" ? [process, typeof(UnitVerb).Assembly.Location]
            : [process];
    }
}
