// The table of `millrace status`.

using System.Globalization;
using System.Text;
using Millrace.Command.Terminals;

namespace Millrace.Command.Serving;

internal static class StatusTable
{
    private static readonly string[] s_heads = ["APP", "STATE", "GEN", "PROCESSES", "UP", "MEMORY", "REQ/S", "ACTIVE", "P50", "P99", "RESTARTS", "ADDRESSES"];

    /// <param name="status">What the daemon has said.</param>
    /// <param name="now">For how long something has been up.</param>
    /// <param name="colour">Whether colours mean something there.</param>
    public static string Of(DaemonStatus status, DateTimeOffset now, bool colour)
    {
        string[] lines = TextTable.Lines([s_heads, .. status.Apps.Select(app => Row(app, now))]);
        var text = new StringBuilder();
        for (int i = 0; i < lines.Length; i++)
        {
            string line = lines[i];
            text.AppendLine(colour ? Coloured(line, i == 0 ? null : status.Apps[i - 1].State) : line);
            if (i > 0 && status.Apps[i - 1].Limits is { } limits)
            {
                text.AppendLine($"    limits: {CommandConsole.Readable(limits)}");
            }
            if (i > 0 && status.Apps[i - 1].Others is { Count: > 0 } others)
            {
                text.AppendLine($"    also running: {Numbers(others)}");
            }
            if (i > 0 && status.Apps[i - 1].Reason is { } reason)
            {
                text.AppendLine($"    {CommandConsole.Readable(reason, keepsLines: true).Replace("\n", "\n    ", StringComparison.Ordinal)}");      // an application's own words may be in it
            }
        }
        return text.ToString().TrimEnd();
    }

    private static string[] Row(AppStatus app, DateTimeOffset now) =>
    [
        app.Name,
        app.State is "serving" or "stopped" or "idle" || app.StateSince is not { } since ? app.State : $"{app.State} {Span(now - since)}",
        app.Generation == 0 ? "-" : Number(app.Generation),
        app.Processes.Count == 0 ? "-" : Numbers(app.Processes),
        app.Processes.Count == 0 ? "-" : Span(now - app.Processes.Min(static process => process.Since)),
        app.Processes.Count == 0 ? "-" : string.Create(CultureInfo.InvariantCulture, $"{app.Processes.Sum(static process => process.MemoryBytes) / 1_048_576} MiB"),
        app.Traffic is { } traffic ? string.Create(CultureInfo.InvariantCulture, $"{traffic.RequestsPerSecond:0.#}") : "-",
        app.Traffic is { } its ? its.Running.ToString(CultureInfo.InvariantCulture) : "-",
        Time(app.Traffic?.P50Ms),
        Time(app.Traffic?.P99Ms),
        Number(app.Restarts),
        string.Join(' ', app.Urls),
    ];

    /// <summary>A line for each application, for whoever is no terminal.</summary>
    public static string Lines(DaemonStatus status, DateTimeOffset now) => string.Join('\n', status.Apps.Select(app => CommandConsole.Readable(string.Create(
        CultureInfo.InvariantCulture,
        $"{now:yyyy-MM-ddTHH:mm:ssZ} {app.Name} {app.State} processes={app.Processes.Count} requests/s={(app.Traffic is { } its ? its.RequestsPerSecond : 0)} active={app.Traffic?.Running ?? 0} p50={Time(app.Traffic?.P50Ms)} p99={Time(app.Traffic?.P99Ms)}"))));

    private static string Time(double? ms) => ms is { } its ? string.Create(CultureInfo.InvariantCulture, $"{its:0.##}ms") : "-";

    private static string Numbers(IReadOnlyList<ProcessStatus> processes) => string.Join(',', processes.Select(static process => Number(process.Process)));

    private static string Number(int number) => number.ToString(CultureInfo.InvariantCulture);

    internal static string Span(TimeSpan span) => span switch
    {
        { TotalDays: >= 1 } => string.Create(CultureInfo.InvariantCulture, $"{span.Days}d{span.Hours}h"),
        { TotalHours: >= 1 } => string.Create(CultureInfo.InvariantCulture, $"{span.Hours}h{span.Minutes}m"),
        { TotalMinutes: >= 1 } => string.Create(CultureInfo.InvariantCulture, $"{span.Minutes}m{span.Seconds}s"),
        _ => string.Create(CultureInfo.InvariantCulture, $"{Math.Max(0, (int)span.TotalSeconds)}s"),
    };

    private static string Coloured(string line, string? state) => state switch
    {
        null => $"\e[1m{line}\e[0m",
        "serving" => line,
        "stopped" => $"\e[2m{line}\e[0m",
        _ => $"\e[33m{line}\e[0m",
    };
}
