// What the daemon says of itself over its control socket, as JSON. Field names are what programs read: they are added to, and never changed.

using System.Text.Encodings.Web;
using System.Text.Json;
using System.Text.Json.Serialization;

namespace Millrace.Command.Serving;

/// <param name="Process">Of the daemon.</param>
/// <param name="Version">Of Millrace.</param>
/// <param name="File">What it serves.</param>
/// <param name="Since">When it was started.</param>
/// <param name="Upgrades">How often it has become another program since.</param>
/// <param name="UpgradeFailure">Why it has not the last time, or null.</param>
/// <param name="Apps">In the order of the file.</param>
internal sealed record DaemonStatus(int Process, string Version, string File, DateTimeOffset Since, int Upgrades, string? UpgradeFailure, IReadOnlyList<AppStatus> Apps)
{
    /// <summary>Whether all is there that is always there: what has been read may come from somebody else than a daemon.</summary>
    [JsonIgnore]
    public bool IsWhole => Version is not null && File is not null && Apps is not null && Apps.All(static app => app is { IsWhole: true });
}

/// <param name="Name">As in the file.</param>
/// <param name="State">See <see cref="AppState"/>; in lower case.</param>
/// <param name="Reason">Why, where that is not plain.</param>
/// <param name="Urls">Where it listens.</param>
/// <param name="Generation">The one that serves; 0 for none.</param>
/// <param name="Restarts">Processes that have been replaced since the daemon was started.</param>
/// <param name="Recycles">Processes that have been replaced while they were well, for what they had used.</param>
/// <param name="Limits">What its processes are kept to, and by whom; null where they have no limits.</param>
/// <param name="Traffic">What it has to do; null unless somebody has asked for it (<c>/status?traffic=1</c>) within the last seconds, and for as long as there is no answer.</param>
/// <param name="Processes">Of the generation that serves.</param>
/// <param name="Events">What has happened, oldest first; at most 100.</param>
internal sealed record AppStatus(
    string Name, string State, string? Reason, IReadOnlyList<string> Urls, int Generation, int Restarts, int Recycles, string? Limits, TrafficStatus? Traffic, IReadOnlyList<ProcessStatus> Processes, IReadOnlyList<AppEvent> Events)
{
    private const long MemoryMax = 1L << 50;
    private const int ProcessesMax = 8192;

    /// <summary>Since when it is in its state, which attempts to start it do not change; null from a daemon that does not say.</summary>
    public DateTimeOffset? StateSince { get; init; }

    /// <summary>Processes beside those that serve: ending what they have begun, or about to take the place of one; null from a daemon that does not say.</summary>
    public IReadOnlyList<ProcessStatus>? Others { get; init; }

    /// <summary>See <see cref="DaemonStatus.IsWhole"/>.</summary>
    [JsonIgnore]
    public bool IsWhole =>
        Name is not null && State is not null && Urls is not null && !Urls.Contains(null!)
        && ArePossible(Processes) && (Others is null || ArePossible(Others))
        && Events is not null && Events.All(static one => one is { What: not null });

    private static bool ArePossible(IReadOnlyList<ProcessStatus>? processes) =>
        processes is { Count: < ProcessesMax } && processes.All(static process => process is { MemoryBytes: >= 0 and <= MemoryMax });
}

/// <param name="RequestsPerSecond">Over the last seconds.</param>
/// <param name="Running">Requests that are under way.</param>
/// <param name="P50Ms">Half of them were answered within so long; null where there were none.</param>
/// <param name="P99Ms">And of a hundred all but one.</param>
internal sealed record TrafficStatus(double RequestsPerSecond, long Running, double? P50Ms, double? P99Ms);

/// <param name="Process">Its number.</param>
/// <param name="Since">When it was started.</param>
/// <param name="MemoryBytes">Resident.</param>
internal sealed record ProcessStatus(int Process, DateTimeOffset Since, long MemoryBytes)
{
    /// <summary>Those that have not ended.</summary>
    public static IReadOnlyList<ProcessStatus> Of(IEnumerable<AppInstance> instances) =>
        [.. instances.Where(static instance => !instance.Exited.IsCompleted).Select(static instance => new ProcessStatus(instance.ProcessId, instance.Started, instance.Memory))];
}

/// <param name="At">When.</param>
/// <param name="What">A sentence without its capital letter and its full stop.</param>
internal sealed record AppEvent(DateTimeOffset At, string What);

/// <param name="Ok">Whether what was asked for has been done.</param>
/// <param name="Message">What has been done, or why not.</param>
internal sealed record ControlAnswer(bool Ok, string Message);

[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase, WriteIndented = true)]
[JsonSerializable(typeof(DaemonStatus))]
[JsonSerializable(typeof(ControlAnswer))]
internal sealed partial class ControlJson : JsonSerializerContext
{
    private static readonly Lazy<ControlJson> s_short = new(static () => new ControlJson(new JsonSerializerOptions(Default!.Options) { Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping }));

    /// <summary>Writes characters as they are, where others take six bytes for each: it goes to a program, and to no terminal.</summary>
    public static ControlJson Short => s_short.Value;
}
