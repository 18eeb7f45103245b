// `millrace stacks PID`: what the threads of a process do. `millrace serve` calls it before it kills one, as the user of that process.

using System.CommandLine;
using Millrace.Command.Serving;
using Millrace.Command.Stacks;
using Millrace.Command.Terminals;

namespace Millrace.Command.Verbs;

internal static class StacksVerb
{
    public static System.CommandLine.Command Create(CommandConsole console)
    {
        var process = new Argument<int>("PID") { Description = "A .NET process" };
        var command = new System.CommandLine.Command(StackReader.Verb, "Print what the threads of a process do; `millrace serve` calls it.") { process };
        command.Hidden = true;
        command.SetAction(async (result, ct) =>
        {
            using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct);
            limit.CancelAfter(StackReader.Patience);
            foreach (string line in StackText.Lines(await ReadAsync(result.GetRequiredValue(process), limit.Token)))
            {
                console.Output.WriteLine(CommandConsole.Readable(line));      // names are the process's
            }
            return ExitCode.Success;
        });
        return command;
    }

    private static async Task<IReadOnlyList<ThreadStack>> ReadAsync(int process, CancellationToken ct)
    {
        try
        {
            return await ThreadStacks.ReadAsync(process, ct);
        }
        catch (OperationCanceledException)
        {
            throw new CommandFailure(ExitCode.Failure, $"The stacks of process {process} cannot be had: its runtime has not answered within {StackReader.Patience.TotalSeconds:0} s.");
        }
    }
}
