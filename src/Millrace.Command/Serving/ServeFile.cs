// What `millrace serve` is to do, as values: the file after it has been read and found right (ServeFileReader).

using System.Globalization;

namespace Millrace.Command.Serving;

/// <param name="Path">The file itself; absolute.</param>
/// <param name="Places">Where the daemon keeps what it makes.</param>
/// <param name="Apps">The applications in the order of the file, the pools, and behind them a router for each shared address; no two have the same name or the same address.</param>
internal sealed record ServeFile(string Path, DaemonPlaces Places, IReadOnlyList<AppSettings> Apps)
{
    /// <summary>Where its values stand; of none where a daemon goes on with what it has not read.</summary>
    public WrittenPlaces Written { get; init; } = WrittenPlaces.None;

    /// <summary>How long the daemon's start waits for its applications: each has had its time by then, unless its code has not rested or is being built.</summary>
    public TimeSpan StartPatience => Apps.Max(static app => app.StartTimeout) + TimeSpan.FromSeconds(30);

    /// <summary>How long its applications may take for the requests that they have when all of them end: those on a shared address begin a little behind its router.</summary>
    public TimeSpan StopPatience => Apps.Max(static app => app.DrainTimeout + (app.SharedUrls.Count > 0 ? Daemon.RoutersAhead : TimeSpan.Zero));

    /// <summary>For a sentence: "3 applications and 1 pool".</summary>
    public string CountText
    {
        get
        {
            int apps = Apps.Count(static app => !app.IsOfCommand);
            int pools = Apps.Count(static app => app.Pool is not null);
            return string.Join(" and ", (string[])[.. apps > 0 ? [Count(apps, "application")] : Array.Empty<string>(), .. pools > 0 ? [Count(pools, "pool")] : Array.Empty<string>()]);
            static string Count(int count, string what) => string.Create(CultureInfo.InvariantCulture, $"{count} {what}{(count == 1 ? "" : "s")}");
        }
    }
}

/// <param name="Control">The socket on which the daemon is asked and told; absolute.</param>
/// <param name="Snapshots">Where the applications' code is copied to; absolute.</param>
internal sealed record DaemonPlaces(string Control, string Snapshots);

/// <summary>Addresses that applications share.</summary>
/// <param name="Name">As of an application.</param>
/// <param name="Urls">Where its router listens; at least one.</param>
/// <param name="Instances">Processes of the router, in [1, 64].</param>
/// <param name="User">Whom they run as; null: whom the daemon runs as.</param>
internal sealed record SharedSettings(string Name, IReadOnlyList<string> Urls, int Instances, string? User);

/// <summary>What of a shared address is for an application; as text "front:blog.example/wiki".</summary>
/// <param name="Shared">Name of the address.</param>
/// <param name="Host">Null for any.</param>
/// <param name="Path">Empty for all.</param>
internal sealed record SharedPlace(string Shared, string? Host, string Path)
{
    public override string ToString() => $"{Shared}:{Host}{(Path.Length == 0 ? "/" : Path)}";
}

/// <summary>One application.</summary>
internal sealed record AppSettings
{
    /// <summary>[a-z0-9], then up to 39 of [a-z0-9_-].</summary>
    public required string Name { get; init; }

    /// <summary>An App.dll, a published folder, a project folder or a project file; absolute.</summary>
    public required string Target { get; init; }

    /// <summary>Where it listens; at least one.</summary>
    public required IReadOnlyList<string> Urls { get; init; }

    /// <summary>The path that leads to it at a shared address: empty, or '/' and segments, without a '/' at the end.</summary>
    public string PathBase { get; init; } = "";

    /// <summary>Those of <see cref="Urls"/> on which it is reached from shared addresses, which are nobody else's business; none where it is on none.</summary>
    public IReadOnlyList<string> SharedUrls { get; init; } = [];

    /// <summary>What of shared addresses is for it. Its processes know nothing of that.</summary>
    public IReadOnlyList<SharedPlace> SharedAs { get; init; } = [];

    /// <summary>Whether it passes the requests of a shared address on, and is no application of the file.</summary>
    public bool IsRouter { get; init; }

    /// <summary>What it has to do where it is a pool of processes, and no application of the file; null for others.</summary>
    public PoolSettings? Pool { get; init; }

    /// <summary>Whether its program is the command itself.</summary>
    public bool IsOfCommand => IsRouter || Pool is not null;

    /// <summary>Whether its processes run from a copy of its code.</summary>
    public bool Snapshot { get; init; } = true;

    /// <summary>Whether a change of its code deploys it.</summary>
    public bool Watch { get; init; } = true;

    /// <summary>Whether a change of the sources of a project deploys it.</summary>
    public bool WatchSources { get; init; }

    /// <summary>Whether one that has not started is tried again by itself, and not only when something has changed.</summary>
    public bool TriesAgain { get; init; } = true;

    /// <summary>For the application's command line.</summary>
    public IReadOnlyList<string> Arguments { get; init; } = [];

    /// <summary>Variables on top of the daemon's own.</summary>
    public IReadOnlyDictionary<string, string> Environment { get; init; } = new Dictionary<string, string>();

    /// <summary>Absolute; null: the folder of the target.</summary>
    public string? WorkingDirectory { get; init; }

    /// <summary>Whom it runs as; null: whom the daemon runs as.</summary>
    public string? User { get; init; }

    /// <summary>Processes that serve it, in [1, 64].</summary>
    public int Instances { get; init; } = 1;

    /// <summary>Whether it is started by the first who connects.</summary>
    public bool OnDemand { get; init; }

    /// <summary>After how long without a request it is stopped, until somebody connects; null: never.</summary>
    public TimeSpan? Idle { get; init; }

    /// <summary>What each of its processes may use at most.</summary>
    public AppLimits Limits { get; init; } = AppLimits.None;

    /// <summary>When each of its processes is replaced by a fresh one.</summary>
    public AppRecycling Recycling { get; init; } = AppRecycling.None;

    /// <summary>A path that answers 200 to 399 as long as the application is well; null: nobody asks.</summary>
    public string? Health { get; init; }

    /// <summary>The Host header of what is asked for its health and to warm it up.</summary>
    public string HealthHost { get; init; } = "localhost";

    /// <summary>Paths that are asked for before a new generation serves anybody.</summary>
    public IReadOnlyList<string> WarmUp { get; init; } = [];

    /// <summary>From its start until it must be healthy.</summary>
    public TimeSpan StartTimeout { get; init; } = TimeSpan.FromSeconds(60);

    /// <summary>How long the processes of a generation must stay well before they take over from another.</summary>
    public TimeSpan SettleTimeout { get; init; } = TimeSpan.FromSeconds(2);

    /// <summary>How long the health path may be without a right answer before the process counts as hung.</summary>
    public TimeSpan HangTimeout { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>How long a process that is to end may take for the requests it has.</summary>
    public TimeSpan DrainTimeout { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>Whether a process of this can go on as one of the other.</summary>
    public bool IsSame(AppSettings other) =>
        this with { Urls = other.Urls, Arguments = other.Arguments, Environment = other.Environment, WarmUp = other.WarmUp, Pool = other.Pool, SharedUrls = other.SharedUrls, SharedAs = other.SharedAs } == other
        && Urls.SequenceEqual(other.Urls)
        && Arguments.SequenceEqual(other.Arguments)
        && WarmUp.SequenceEqual(other.WarmUp)
        && Environment.Count == other.Environment.Count
        && Environment.All(pair => other.Environment.TryGetValue(pair.Key, out string? value) && value == pair.Value);
}
