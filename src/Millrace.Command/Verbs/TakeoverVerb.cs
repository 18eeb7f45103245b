// `millrace takeover`: whether this program can go on from the state of a daemon, which comes by standard input. `millrace serve` calls it before it becomes this one.

using Millrace.Command.Running;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;
using Millrace.Platform;

namespace Millrace.Command.Verbs;

internal static class TakeoverVerb
{
    public static System.CommandLine.Command Create(CommandConsole console)
    {
        var command = new System.CommandLine.Command(CommandImage.ProbeVerb, "Say whether this program understands the state of a daemon; `millrace serve` calls it.") { Hidden = true };
        command.SetAction(async (_, ct) =>
        {
            using var text = new MemoryStream();
            await using var input = Console.OpenStandardInput();
            await input.CopyToAsync(text, ct);
            if (DaemonState.Read(text.ToArray(), out string why) is null)
            {
                throw new CommandFailure(ExitCode.Failure, why);
            }
            if (Posix.OpenProcess(Environment.ProcessId) < 0)
            {
                throw new CommandFailure(ExitCode.Failure, $"Processes that go on cannot be held here: {SystemCalls.Describe(SystemCalls.Errno)} (pidfd_open).");
            }
            console.Output.WriteLine(Daemon.Version);
            return ExitCode.Success;
        });
        return command;
    }
}
