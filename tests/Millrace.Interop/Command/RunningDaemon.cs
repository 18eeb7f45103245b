// Verbs that only ask a daemon, in the process of the tests: they ask again and again, and .NET needs half a second to start. What the command is as a process of its own (signals, terminals, completion, its exit
// code) is in the tests that start one.
using System.Text;
using System.Text.Json;
using Millrace.Command;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;

namespace Millrace.Interop.Command;

internal static class RunningDaemon
{
    /// <summary>What the command says to a command line, as <see cref="CommandProcess.RunAsync"/>.</summary>
    public static async Task<(int ExitCode, string Output, string Error)> DoAsync(params string[] arguments)
    {
        using var output = new MemoryStream();
        using var error = new MemoryStream();
        using var console = new CommandConsole(output, error, colour: false);
        int exitCode = await MillraceCommand.InvokeAsync(arguments, console);
        return (exitCode, Encoding.UTF8.GetString(output.ToArray()), Encoding.UTF8.GetString(error.ToArray()));
    }

    /// <summary>What <c>millrace status --json</c> prints; empty where there is no daemon, or it does not say.</summary>
    public static async Task<string> StatusAsync(string control)
    {
        using var client = new ControlClient(control);
        try
        {
            return JsonSerializer.Serialize(await client.StatusAsync(CancellationToken.None), ControlJson.Default.DaemonStatus);
        }
        catch (CommandFailure)
        {
            return "";
        }
    }
}
