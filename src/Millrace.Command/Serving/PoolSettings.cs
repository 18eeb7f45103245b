// A pool of processes as the daemon runs it: an application like the others, whose program is the command itself (Millrace.Command.Pools). So it is started, watched, replaced while it serves, and its connections
// move on, as theirs do.

using System.Text.Json;
using System.Text.Json.Serialization;
using Millrace.Command.Routing;

namespace Millrace.Command.Serving;

/// <summary>The processes of a pool, and what they may be asked. Defaults and ranges are those of the file.</summary>
internal sealed record PoolSettings
{
    public const int SizeMax = 1000;
    public const int QueueMost = 1_000_000;
    public const long BodyMin = 1024 * 1024;

    /// <summary>The program: absolute, or a name that is looked for in PATH.</summary>
    public string Command { get; init; } = "php-cgi";

    /// <summary>For its command line.</summary>
    public IReadOnlyList<string> Arguments { get; init; } = [];

    /// <summary>Variables on top of the daemon's own.</summary>
    public IReadOnlyDictionary<string, string> Environment { get; init; } = new Dictionary<string, string>();

    /// <summary>The folder that it begins in; absolute.</summary>
    public string WorkingDirectory { get; init; } = "/";

    /// <summary>The folder of the scripts; absolute. Null: the web server names each script.</summary>
    public string? Root { get; init; }

    /// <summary>What the names of scripts end in; empty: the program is no collection of scripts.</summary>
    public IReadOnlyList<string> Suffixes { get; init; } = [".php"];

    /// <summary>Files that answer for their folder.</summary>
    public IReadOnlyList<string> Index { get; init; } = ["index.php", "index.html"];

    /// <summary>The script that answers where there is no file.</summary>
    public string Fallback { get; init; } = "index.php";

    /// <summary>Whether files that are no scripts are sent.</summary>
    public bool ServeFiles { get; init; } = true;

    /// <summary>Processes that are there when nobody asks.</summary>
    public int Min { get; init; } = 2;

    /// <summary>Processes in all.</summary>
    public int Max { get; init; } = 8;

    /// <summary>How long one beyond <see cref="Min"/> may be without a request.</summary>
    public TimeSpan Idle { get; init; } = TimeSpan.FromSeconds(60);

    /// <summary>How long a request may take.</summary>
    public TimeSpan Call { get; init; } = TimeSpan.FromSeconds(120);

    /// <summary>How long a request may wait for a process.</summary>
    public TimeSpan Wait { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>Requests that may wait.</summary>
    public int Queue { get; init; } = 1000;

    /// <summary>How long a process may go on with a request that has been given up.</summary>
    public TimeSpan Abort { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>Bytes above which a process is killed.</summary>
    public long? Memory { get; init; }

    /// <summary>Bytes of a request's body.</summary>
    public long Body { get; init; } = 128L * 1024 * 1024;

    /// <summary>When a process is replaced by a fresh one.</summary>
    public AppRecycling Recycling { get; init; } = AppRecycling.None;

    /// <summary>How long the pool may take to start its first processes, and to end.</summary>
    public TimeSpan Start { get; init; } = TimeSpan.FromSeconds(60);

    /// <summary>How long its end waits for requests.</summary>
    public TimeSpan Drain { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>The pool as an application of the daemon.</summary>
    /// <param name="app">Its name, addresses, user, limits and times.</param>
    public AppSettings In(AppSettings app) => app with
    {
        Target = RouterSettings.Program,
        Pool = this,
        Arguments = [PoolSettingsJson.Verb],
        Environment = PoolSettingsJson.Write(this).Concat(RouterSettings.RuntimeFor(app.User)).ToDictionary(),
        Health = "/",
        HealthHost = PoolSettingsJson.HealthHost,
        Snapshot = false,
        Watch = false,
    };
}

/// <summary>A pool on its way to its process.</summary>
[JsonSerializable(typeof(PoolSettings))]
internal sealed partial class PoolSettingsJson : JsonSerializerContext
{
    /// <summary>The verb that runs it.</summary>
    public const string Verb = "pool-host";

    /// <summary>The variable that has its name.</summary>
    public const string NameVariable = "MILLRACE_POOL_NAME";

    /// <summary>The variable that has the key of whoever may have something done to it.</summary>
    public const string KeyVariable = "MILLRACE_POOL_KEY";

    /// <summary>What the daemon asks for this host the pool's process answers itself: that it is well.</summary>
    public const string HealthHost = "health.pool.invalid";

    /// <summary>The field by which the daemon is known, who asks for the pool itself. A visitor's does not count: he does not have the key.</summary>
    public const string KeyField = "Millrace-Pool-Key";

    private const string Variable = "MILLRACE_POOL_";

    public static IEnumerable<KeyValuePair<string, string>> Write(PoolSettings pool) => LongVariable.Write(Variable, JsonSerializer.Serialize(pool, Default.PoolSettings));

    /// <summary>Takes it out of the environment; null where there is none.</summary>
    public static PoolSettings? Take() => LongVariable.Take(Variable) is { } text ? JsonSerializer.Deserialize(text, Default.PoolSettings) : null;
}
