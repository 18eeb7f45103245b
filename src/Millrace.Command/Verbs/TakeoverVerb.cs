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
            await using var input = Console.OpenStandardInput();
            byte[] text = await DaemonState.ReadAllAsync(input, ct) ?? throw new CommandFailure(ExitCode.Failure, DaemonState.WhyTooLong(DaemonState.LengthMax + 1L)!);
            if (DaemonState.Read(text, out string why) is null)
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
