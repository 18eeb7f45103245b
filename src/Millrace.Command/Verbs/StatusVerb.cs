// `millrace status`: what a running daemon serves, once or again and again. Ctrl+C ends it as it ends any program: nothing of the terminal is changed that would have to be put back.

using System.CommandLine;
using System.Text.Json;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;

namespace Millrace.Command.Verbs;

internal static class StatusVerb
{
    // What the applications have to do is known when they have been asked twice, with a second between.
    private const int LooksMax = 6;
    private static readonly TimeSpan s_lookAgain = TimeSpan.FromMilliseconds(300);
    private static readonly TimeSpan s_period = TimeSpan.FromSeconds(1);

    public static System.CommandLine.Command Create(CommandConsole console)
    {
        var control = DaemonVerbs.ControlOption();
        var json = new Option<bool>("--json") { Description = "As the daemon says it, for programs; at once, and what is not measured yet is null" };
        var watch = new Option<bool>("--watch", "-w") { Description = "Again every second: a terminal is written over, anything else gets a line for each application" };
        var command = new System.CommandLine.Command("status", "Show the applications of a running daemon, and what they have to do.") { json, watch, control };
        command.SetAction(async (result, ct) =>
        {
            using var client = DaemonVerbs.Connect(result.GetValue(control));
            bool isJson = result.GetValue(json);
            if (result.GetValue(watch))
            {
                await WatchAsync(console, client, isJson, ct);
            }
            else
            {
                Print(console, isJson ? await client.StatusAsync(ct) : await MeasuredAsync(client, ct), isJson);
            }
            return ExitCode.Success;
        });
        return command.WithHelp(new Help(
            [("millrace status", "a table, of the last second"), ("millrace status --watch", "the same again every second, until Ctrl+C"), ("millrace status --json", "everything, what has happened included")], DaemonVerbs.ExitCodes));
    }

    private static async Task<DaemonStatus> MeasuredAsync(ControlClient client, CancellationToken ct)
    {
        var status = await client.StatusAsync(ct);
        for (int i = 0; i < LooksMax && status.Apps.Any(static app => app is { State: "serving" or "deploying", Traffic: null }); i++)
        {
            await Task.Delay(s_lookAgain, ct);
            status = await client.StatusAsync(ct);
        }
        return status;
    }

    private static async Task WatchAsync(CommandConsole console, ControlClient client, bool isJson, CancellationToken ct)
    {
        while (true)
        {
            var status = await client.StatusAsync(ct);
            if (isJson)
            {
                Print(console, status, isJson);
            }
            else if (!console.IsTerminal)
            {
                console.Output.WriteLine(StatusTable.Lines(status, DateTimeOffset.UtcNow));
            }
            else
            {
                // To the corner, each line to its end, and what is below.
                string table = StatusTable.Of(status, DateTimeOffset.UtcNow, console.Colour).Replace("\n", "\e[K\n", StringComparison.Ordinal);
                console.Output.Write($"\e[H{table}\e[K\n\e[J");
            }
            await Task.Delay(s_period, ct);
        }
    }

    private static void Print(CommandConsole console, DaemonStatus status, bool isJson) =>
        console.Output.WriteLine(isJson ? JsonSerializer.Serialize(status, ControlJson.Default.DaemonStatus) : StatusTable.Of(status, DateTimeOffset.UtcNow, console.Colour));
}
