// Pools of processes, beside the applications: "pools": [{ "name": "php", "command": "php-cgi", "urls": "fastcgi://unix:/run/php.sock", "max": 8 }]

using System.Globalization;
using System.Text.Json;

namespace Millrace.Command.Serving;

internal sealed partial class ServeFileReader
{
    public static readonly string[] PoolNames =
        ["name", "command", "arguments", "urls", "on", "host", "path", "root", "suffixes", "index", "fallback", "serveFiles", "min", "max", "idle", "environment", "workingDirectory", "user", "timeouts", "limits", "recycle"];

    public static readonly string[] PoolLimitNames = ["memory", "call", "wait", "queue", "abort", "body", "descriptors", "processes", "cpu"];

    private const string PoolText = "A pool";
    private const int PoolRequestsMin = 1;

    private IEnumerable<AppSettings> ReadPools(PlacedValue? pools, IReadOnlyList<PlacedValue> items)
    {
        if (pools is { Kind: JsonValueKind.Array } && items.Count is 0 or > AppsMax)
        {
            Add(pools.Place, items.Count == 0 ? "\"pools\" is empty. Name a pool, or take it out." : string.Create(CultureInfo.InvariantCulture, $"\"pools\" holds {items.Count} pools; at most {AppsMax} can be served by one daemon."));
        }
        return [.. items.Take(AppsMax).Select(ReadPool).OfType<AppSettings>()];
    }

    private AppSettings? ReadPool(PlacedValue pool)
    {
        if (Members(pool, PoolText, PoolNames) is not { } members)
        {
            return null;
        }
        string name = Required(pool, members, "name", "a name such as \"php\"", PoolText) is { } named ? NameOf(named) : "";
        var app = ReadPlace(pool, members, name, PoolText) with
        {
            Name = name,
            User = members.TryGetValue("user", out var user) ? UserOf(user) : null,
        };
        app = WithTimes(app, members);
        string? root = members.TryGetValue("root", out var folder) ? PathOf(folder, "root") : null;
        var settings = new PoolSettings { Start = app.StartTimeout, Drain = app.DrainTimeout, Root = root };
        (settings, app) = ReadPoolLimits(members.GetValueOrDefault("limits"), settings, app);
        settings = ReadScripts(members, settings) with
        {
            Command = members.TryGetValue("command", out var command) ? CommandOf(command) : settings.Command,
            Arguments = members.TryGetValue("arguments", out var arguments) ? TextsOf(arguments, "arguments") : [],
            Environment = members.TryGetValue("environment", out var environment) ? VariablesOf(environment) : settings.Environment,
            WorkingDirectory = (members.TryGetValue("workingDirectory", out var directory) ? PathOf(directory, "workingDirectory") : root) ?? "/",
            Idle = TimeOf(members, "idle", settings.Idle, s_idleMin, s_timeMax),
            Recycling = members.TryGetValue("recycle", out var recycle) ? RecyclingOf(recycle, PoolRequestsMin) : settings.Recycling,
        };
        settings = ReadSize(members, settings);
        RequireRecycledFirst(members, app with { Limits = app.Limits with { Memory = settings.Memory }, Recycling = settings.Recycling });
        RequireRoot(members, settings);
        return settings.In(app);
    }

    // "min": 2, "max": 8. One that is named alone moves the other's default along.
    private PoolSettings ReadSize(Dictionary<string, PlacedValue> members, PoolSettings settings)
    {
        int? min = members.TryGetValue("min", out var least) ? NumberOf(least, "min", 0, PoolSettings.SizeMax) : null;
        int? max = members.TryGetValue("max", out var most) ? NumberOf(most, "max", 1, PoolSettings.SizeMax) : null;
        if (min > max)
        {
            Add(least!.Place, string.Create(CultureInfo.InvariantCulture, $"\"min\" is {min}, and \"max\" is {max}: there are never more processes than that. Make \"max\" larger, or \"min\" smaller."));
        }
        return settings with { Min = min ?? Math.Min(settings.Min, max ?? settings.Min), Max = max ?? Math.Max(settings.Max, min ?? settings.Max) };
    }

    private (PoolSettings Pool, AppSettings App) ReadPoolLimits(PlacedValue? limits, PoolSettings pool, AppSettings app)
    {
        if (limits is null || Members(limits, "\"limits\"", PoolLimitNames) is not { } its)
        {
            return (pool, app);
        }
        RequireAny(limits, its, "limits", PoolLimitNames);
        pool = pool with
        {
            Memory = its.TryGetValue("memory", out var memory) ? SizeOf(memory, "memory") : null,
            Call = TimeOf(its, "call", pool.Call),
            Wait = TimeOf(its, "wait", pool.Wait),
            Abort = TimeOf(its, "abort", pool.Abort, s_timeMin, TimeSpan.FromHours(1)),
            Queue = its.TryGetValue("queue", out var queue) ? NumberOf(queue, "queue", 0, PoolSettings.QueueMost) : pool.Queue,
            Body = its.TryGetValue("body", out var body) ? SizeOf(body, "body", PoolSettings.BodyMin) : pool.Body,
        };
        return (pool, app with { Limits = KernelLimitsOf(its) });
    }

    // What runs: "root": "/srv/www", "suffixes": [".php"], "index": ["index.php"], "fallback": "index.php"
    private PoolSettings ReadScripts(Dictionary<string, PlacedValue> members, PoolSettings settings)
    {
        settings = settings with
        {
            Suffixes = members.TryGetValue("suffixes", out var suffixes) ? TextsOf(suffixes, "suffixes") : settings.Suffixes,
            Index = members.TryGetValue("index", out var index) ? TextsOf(index, "index") : settings.Index,
            Fallback = members.TryGetValue("fallback", out var fallback) ? TextOf(fallback, "fallback", "a script such as \"index.php\"") ?? "" : settings.Fallback,
            ServeFiles = !members.TryGetValue("serveFiles", out var files) || IsTrue(files, "serveFiles"),
        };
        if (settings.Suffixes.Any(static suffix => suffix.Length < 2 || suffix[0] != '.' || !suffix.Skip(1).All(char.IsAsciiLetterOrDigit)))
        {
            Add(suffixes!.Place, "\"suffixes\" is what the names of scripts end in: each begins with '.', and goes on with letters or digits, as in \".php\".");
        }
        if (suffixes is { Kind: JsonValueKind.Array, Items.Count: 0 } && settings.Root is not null)
        {
            Add(suffixes.Place, "\"suffixes\" is empty, and so every request is the program's: that is for programs that are no collection of scripts, which have no \"root\". Name a suffix, or take \"root\" out.");
        }
        if (settings.Index.Any(static name => name.Length == 0 || name.Contains('/', StringComparison.Ordinal)))
        {
            Add(index!.Place, "\"index\" is a list of names of files, without '/', such as [\"index.php\", \"index.html\"].");
        }
        if (fallback is not null && settings.Fallback.Length > 0 && settings.Root is not null && settings.Suffixes.Count > 0 && !settings.Suffixes.Any(suffix => settings.Fallback.EndsWith(suffix, StringComparison.Ordinal)))
        {
            Add(fallback.Place, $"\"fallback\" is the script that answers where there is no file, and {settings.Fallback} ends in none of \"suffixes\" ({string.Join(", ", settings.Suffixes)}).");
        }
        foreach (string name in (string[])["index", "fallback", "serveFiles"])
        {
            if (settings.Root is null && members.TryGetValue(name, out var lonely))
            {
                Add(lonely.Place, $"\"{name}\" is for a pool that finds its scripts itself: say \"root\", the folder that they lie in. Without it the web server names each (SCRIPT_FILENAME).");
            }
        }
        return settings;
    }

    // A web server that speaks FastCGI names the script. Nobody else does.
    private void RequireRoot(Dictionary<string, PlacedValue> members, PoolSettings settings)
    {
        if (members.ContainsKey("root") || settings.Suffixes.Count == 0)
        {
            return;
        }
        if (members.TryGetValue("on", out var on))
        {
            Add(on.Place, "A pool on a shared address finds its scripts itself: say \"root\", the folder that they lie in.");
        }
        foreach (var http in members.TryGetValue("urls", out var urls) ? ItemsOf(urls, "urls").Where(static url => url.Text.Split(';').Any(static its => its.Trim().StartsWith("http:", StringComparison.OrdinalIgnoreCase))) : [])
        {
            Add(http.Place, $"{http.Text} is for HTTP, where nobody says which script is meant. Say \"root\", the folder that the scripts lie in, or write an address for FastCGI such as \"fastcgi://unix:/run/php.sock\".");
        }
    }

    // A name is looked for in PATH; a path is relative to the file.
    private string CommandOf(PlacedValue value) =>
        TextOf(value, "command", "a program such as \"php-cgi\"") is not { } command ? ""
        : command.Contains('/', StringComparison.Ordinal) ? Path.GetFullPath(command, _folder)
        : command.Contains(' ', StringComparison.Ordinal) ? Refuse(value.Place, $"\"command\" is one program, and this is {command}. Put what follows its name into \"arguments\": [{string.Join(", ", command.Split(' ', StringSplitOptions.RemoveEmptyEntries).Skip(1).Select(static word => $"\"{word}\""))}].")
        : command;

    private string Refuse(Place place, string sentence)
    {
        Add(place, sentence);
        return "";
    }
}
