// Runs the command inside the test process and keeps what it printed.

using System.Text;
using Millrace.Command;
using Millrace.Command.Terminals;

namespace Millrace.Tests.Command;

internal sealed record CommandLine(int ExitCode, string Output, string Error)
{
    public static async Task<CommandLine> RunAsync(params string[] args)
    {
        using var output = new MemoryStream();
        using var error = new MemoryStream();
        using var console = new CommandConsole(output, error, colour: false);
        int exitCode = await MillraceCommand.InvokeAsync(args, console);
        return new CommandLine(exitCode, Encoding.UTF8.GetString(output.ToArray()), Encoding.UTF8.GetString(error.ToArray()));
    }
}
