// From the bytes of a file to what is to be served, or to everything that is wrong with it: each mistake is a sentence with its place and
// what to write instead. Looks at the text alone; what it names need not exist (CheckVerb).

using System.Globalization;
using System.Text.Json;
using Millrace.Listeners;

namespace Millrace.Command.Serving;

internal sealed partial class ServeFileReader
{
    private const int AppsMax = 1000;
    public const int InstancesMax = 64;
    private const int NameMax = 40;
    private const string AppText = "An application";
    private const string NameText = "a name of letters a to z, digits, '-' and '_'";
    private const string AddressText = "an address such as \"fastcgi://unix:/run/shop.sock\"";

    public static readonly string[] FileNames = ["$schema", "control", "snapshots", "shared", "apps", "pools"];

    public static readonly string[] AppNames =
        ["name", "target", "urls", "on", "host", "path", "arguments", "environment", "workingDirectory", "user", "instances", "health", "healthHost", "warmUp", "snapshot", "watch", "timeouts", "limits", "recycle", "onDemand", "idle"];

    public static readonly string[] TimeoutNames = ["start", "settle", "hang", "drain"];

    private readonly string _folder;
    private readonly List<Mistake> _mistakes = [];

    private ServeFileReader(string folder) => _folder = folder;

    /// <summary>Reads a file's bytes.</summary>
    /// <param name="path">The file; absolute. Paths in it are relative to its folder.</param>
    /// <param name="bytes">What it holds.</param>
    /// <param name="defaults">The control socket and the folder of snapshots, where the file names none.</param>
    /// <param name="mistakes">All that is wrong, in the order of the file; empty when the answer is not null.</param>
    public static ServeFile? Read(string path, ReadOnlySpan<byte> bytes, DaemonPlaces defaults, out IReadOnlyList<Mistake> mistakes)
    {
        var reader = new ServeFileReader(Path.GetDirectoryName(path)!);
        ServeFile? file = null;
        try
        {
            file = reader.ReadFile(path, PlacedJson.Parse(bytes), defaults);
        }
        catch (PlacedJsonException error)
        {
            reader._mistakes.Add(new Mistake(error.Place, $"This is no JSON: {error.Message}"));
        }
        mistakes = [.. Mistake.InOrder(reader._mistakes)];
        return mistakes.Count == 0 ? file : null;
    }

    private ServeFile? ReadFile(string path, PlacedValue root, DaemonPlaces defaults)
    {
        if (Members(root, "The file", FileNames) is not { } members)
        {
            return null;
        }
        string control = members.TryGetValue("control", out var place) ? PathOf(place, "control") ?? "" : defaults.Control;
        _sockets = Path.GetDirectoryName(control) ?? "";
        ReadShared(members.GetValueOrDefault("shared"));
        List<AppSettings> apps = [];
        var pools = members.GetValueOrDefault("pools");
        if (!members.TryGetValue("apps", out var list))
        {
            if (pools is null)
            {
                Add(root.Place, "\"apps\" is missing: a list of applications, such as { \"name\": \"shop\", \"target\": \"apps/shop\", \"urls\": \"fastcgi://unix:/run/shop.sock\" }.");
            }
        }
        else if (Require(list, JsonValueKind.Array, "apps", "a list of applications"))
        {
            apps.AddRange(list.Items.Take(AppsMax).Select(ReadApp).OfType<AppSettings>());
            if (list.Items.Count is 0 or > AppsMax)
            {
                Add(list.Place, list.Items.Count == 0 ? "\"apps\" is empty: there is nothing to serve. Name an application." : string.Create(CultureInfo.InvariantCulture, $"\"apps\" holds {list.Items.Count} applications; at most {AppsMax} can be served by one daemon."));
            }
        }
        IReadOnlyList<PlacedValue> poolItems = pools is not null && Require(pools, JsonValueKind.Array, "pools", "a list of pools") ? pools.Items : [];
        apps.AddRange(ReadPools(pools, poolItems));
        PlacedValue[] items = [.. list is { Kind: JsonValueKind.Array } ? list.Items.Take(AppsMax) : [], .. poolItems.Take(AppsMax)];
        RefuseTwice(items, poolItems.Count > 0, members.GetValueOrDefault("shared"));
        RequireUsed(members.GetValueOrDefault("shared"), items);
        RequireUsable(place, control, apps);
        string snapshots = members.TryGetValue("snapshots", out var folder) ? PathOf(folder, "snapshots") ?? "" : defaults.Snapshots;
        return new ServeFile(path, new DaemonPlaces(control, snapshots), [.. apps, .. Routers()]) { Written = WrittenPlaces.Of(items, members.GetValueOrDefault("shared")) };
    }

    private AppSettings? ReadApp(PlacedValue app)
    {
        if (Members(app, AppText, AppNames) is not { } members)
        {
            return null;
        }
        string name = Required(app, members, "name", "a name such as \"shop\"") is { } named ? NameOf(named) : "";
        string? target = Required(app, members, "target", "an App.dll, a published folder or a project folder") is { } at ? PathOf(at, "target") : null;
        var settings = ReadPlace(app, members, name) with { Name = name, Target = target ?? "" };
        settings = settings with
        {
            Arguments = members.TryGetValue("arguments", out var arguments) ? TextsOf(arguments, "arguments") : [],
            Environment = members.TryGetValue("environment", out var environment) ? VariablesOf(environment) : settings.Environment,
            WorkingDirectory = members.TryGetValue("workingDirectory", out var directory) ? PathOf(directory, "workingDirectory") : null,
            User = members.TryGetValue("user", out var user) ? UserOf(user) : null,
            Instances = members.TryGetValue("instances", out var instances) ? NumberOf(instances, "instances", 1, InstancesMax) : 1,
            Health = members.TryGetValue("health", out var health) ? UrlPathOf(health, "health") : null,
            HealthHost = members.TryGetValue("healthHost", out var host) ? HostOf(host) : settings.HealthHost,
            WarmUp = members.TryGetValue("warmUp", out var warmUp) ? [.. ItemsOf(warmUp, "warmUp").Select(item => UrlPathOf(item, "warmUp")).OfType<string>()] : [],
            Snapshot = !members.TryGetValue("snapshot", out var snapshot) || IsTrue(snapshot, "snapshot"),
            Watch = !members.TryGetValue("watch", out var watch) || IsTrue(watch, "watch"),
            Limits = members.TryGetValue("limits", out var limits) ? LimitsOf(limits) : settings.Limits,
            Recycling = members.TryGetValue("recycle", out var recycle) ? RecyclingOf(recycle) : settings.Recycling,
            OnDemand = members.TryGetValue("onDemand", out var onDemand) && IsTrue(onDemand, "onDemand"),
            Idle = members.ContainsKey("idle") ? TimeOf(members, "idle", s_idleMin, s_idleMin, s_timeMax) : null,
        };
        RequireRecycledFirst(members, settings);
        RequireOnDemand(members);
        return WithTimes(settings, members);
    }

    // Where it is reached.
    private AppSettings ReadPlace(PlacedValue app, Dictionary<string, PlacedValue> members, string name, string who = AppText)
    {
        var routes = ReadRoutes(members, name);
        string[] sharedUrls = SharedUrls(members, name);
        return new AppSettings { Name = name, Target = "", Urls = [.. UrlsOf(app, members, who), .. sharedUrls], SharedUrls = sharedUrls, PathBase = routes.Path, SharedAs = routes.As };
    }

    private AppSettings WithTimes(AppSettings settings, Dictionary<string, PlacedValue> members)
    {
        var times = members.TryGetValue("timeouts", out var timeouts) ? Members(timeouts, "\"timeouts\"", TimeoutNames) : null;
        return settings with
        {
            StartTimeout = TimeOf(times, "start", settings.StartTimeout),
            SettleTimeout = TimeOf(times, "settle", settings.SettleTimeout),
            HangTimeout = TimeOf(times, "hang", settings.HangTimeout),
            DrainTimeout = TimeOf(times, "drain", settings.DrainTimeout),
        };
    }

    // The sockets of the processes lie beside it, and have longer names.
    private void RequireUsable(PlacedValue? place, string control, IEnumerable<AppSettings> apps)
    {
        string longest = apps.Select(static app => app.Name).Where(static name => name.Length <= NameMax).MaxBy(static name => name.Length) ?? "";
        string socket = Path.Combine(Path.GetDirectoryName(control) ?? "", longest + "-9999-999.channel");
        try
        {
            if (control.Length == 0 || (!control.Contains(';', StringComparison.Ordinal) && ListenAddress.Parse("http://unix:" + socket).Path == socket && ListenAddress.Parse("http://unix:" + control).Path == control))
            {
                return;
            }
        }
        catch (FormatException)
        {
        }
        Add(place?.Place ?? new Place(1, 1), $"{control} cannot be the daemon's socket: such a path holds no '?', ';' or '%', and it and those of the processes beside it ({socket}) have at most 107 bytes. Name another with \"control\".");
    }

    // Two applications of one name could not be told apart, and one socket serves one of them.
    private void RefuseTwice(IReadOnlyList<PlacedValue> apps, bool hasPools, PlacedValue? shared)
    {
        var members = apps.SelectMany(static app => app.Members).ToArray();
        var names = members.Where(static member => member.Name == "name").Select(static member => (Name: member.Value.Text, member.Value.Place));
        string[] taken = [.. _shared.Select(static shared => shared.Name)];
        string orPools = hasPools ? ", or pools," : "";
        foreach (var (name, place) in names.GroupBy(static item => item.Name).SelectMany(same => same.Skip(taken.Contains(same.Key) ? 0 : 1)))
        {
            Add(place, $"There are two applications{(taken.Contains(name) ? ", or shared addresses," : orPools)} with the name \"{name}\". Give one of them another.");
        }
        var urls = members.Where(static member => member.Name == "urls").Select(static member => member.Value).Concat(SharedUrls(shared))
            .SelectMany(static value => value.Kind == JsonValueKind.Array ? value.Items : [value])
            .SelectMany(static value => value.Text.Split(';', StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries).Select(url => (Url: Bare(url), value.Place)));
        foreach (var (url, place) in urls.GroupBy(static item => BoundPlace.Of(item.Url)).SelectMany(static same => same.Skip(1)))
        {
            Add(place, $"{url} is given twice. Each application{(hasPools ? ", and each pool," : "")} has addresses of its own.");
        }
    }

    /// <summary>An address without what may be said of it besides: two that are the same are one socket.</summary>
    internal static string Bare(string url)
    {
        try
        {
            return ListenAddress.Parse(url).Url;
        }
        catch (FormatException)
        {
            return url;
        }
    }

    // ---- one value each ----

    private Dictionary<string, PlacedValue>? Members(PlacedValue value, string what, string[] known)
    {
        if (value.Kind != JsonValueKind.Object)
        {
            Add(value.Place, $"{what} is an object, {{ ... }}, and this is {value.KindText}.");
            return null;
        }
        var found = new Dictionary<string, PlacedValue>(StringComparer.Ordinal);
        foreach (var member in value.Members)
        {
            if (!known.Contains(member.Name))
            {
                Add(member.Place, $"There is no setting \"{member.Name}\" here. The nearest is \"{NearestName.To(member.Name, known)}\"; there are {string.Join(", ", known.Where(static name => name[0] != '$'))}.");
            }
            else if (!found.TryAdd(member.Name, member.Value))
            {
                Add(member.Place, $"\"{member.Name}\" is there twice. Take one of them out.");
            }
        }
        return found;
    }

    private PlacedValue? Required(PlacedValue app, Dictionary<string, PlacedValue> members, string name, string what, string who = AppText)
    {
        if (members.TryGetValue(name, out var value))
        {
            return value;
        }
        Add(app.Place, $"{who} needs \"{name}\": {what}.");
        return null;
    }

    private bool Require(PlacedValue value, JsonValueKind kind, string name, string what)
    {
        if (value.Kind == kind)
        {
            return true;
        }
        Add(value.Place, $"\"{name}\" is {what}, and this is {value.KindText}.");
        return false;
    }

    private string? TextOf(PlacedValue value, string name, string what)
    {
        if (!Require(value, JsonValueKind.String, name, what))
        {
            return null;
        }
        if (value.Text.Length > 0 && !value.Text.Any(char.IsControl))
        {
            return value.Text;
        }
        Add(value.Place, value.Text.Length == 0 ? $"\"{name}\" is empty; it is {what}." : $"\"{name}\" holds a control character; it is {what}.");
        return null;
    }

    private string NameOf(PlacedValue value)
    {
        if (TextOf(value, "name", NameText) is not { } name)
        {
            return "";
        }
        RequireName(name, value.Place);
        return name;
    }

    private void RequireName(string name, Place place)
    {
        if (name.Length is 0 or > NameMax || !char.IsAsciiLetterOrDigit(name[0]) || !name.All(static c => char.IsAsciiLetterLower(c) || char.IsAsciiDigit(c) || c is '-' or '_'))
        {
            Add(place, string.Create(CultureInfo.InvariantCulture, $"\"{name}\" cannot be {NameText}: at most {NameMax} of them, the first a letter or a digit, since files and sockets are named after it."));
        }
    }

    private string? PathOf(PlacedValue value, string name) => TextOf(value, name, "a path") is { } path ? Path.GetFullPath(path, _folder) : null;

    private string? UrlPathOf(PlacedValue value, string name)
    {
        if (TextOf(value, name, "a path such as \"/healthz\"") is not { } path)
        {
            return null;
        }
        if (!path.StartsWith('/') || path.Any(static c => c is ' ' or '#' or '"' or '\\' || !char.IsAscii(c)))
        {
            Add(value.Place, $"\"{path}\" is no path of a URL: it begins with '/', and what is not ASCII, a space or '#' is percent-encoded, as in \"/healthz\".");
        }
        return path;
    }

    private string HostOf(PlacedValue value)
    {
        if (TextOf(value, "healthHost", "a host name") is not { } host)
        {
            return "localhost";
        }
        string[] parts = host.Split(':');
        bool isPort = parts is [_] || (parts is [_, var port] && ushort.TryParse(port, NumberStyles.None, CultureInfo.InvariantCulture, out _));
        if (!isPort || Uri.CheckHostName(parts[0]) is not (UriHostNameType.Dns or UriHostNameType.IPv4))
        {
            Add(value.Place, $"\"{host}\" is no host name; write one such as \"shop.example\", perhaps with a port.");
        }
        return host;
    }

    private IReadOnlyList<PlacedValue> ItemsOf(PlacedValue value, string name)
    {
        if (value.Kind is JsonValueKind.Array or JsonValueKind.String)
        {
            return value.Kind == JsonValueKind.Array ? value.Items : [value];
        }
        Add(value.Place, $"\"{name}\" is a string or a list of strings, and this is {value.KindText}.");
        return [];
    }

    private string[] TextsOf(PlacedValue value, string name)
    {
        const string what = "a list of strings";
        string[] texts = Require(value, JsonValueKind.Array, name, what) ? [.. value.Items.Where(item => Require(item, JsonValueKind.String, name, what)).Select(static item => item.Text)] : [];
        if (texts.Any(static text => text.Contains('\0', StringComparison.Ordinal)))
        {
            Add(value.Place, $"\"{name}\" holds a NUL, which no argument of a process can.");
        }
        return texts;
    }

    private List<string> UrlsOf(PlacedValue value)
    {
        List<string> urls = [];
        foreach (var item in ItemsOf(value, "urls"))
        {
            string[] list = TextOf(item, "urls", AddressText)?.Split(';', StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries) ?? [];
            foreach (string url in list)
            {
                try
                {
                    ListenAddress address = ListenAddress.Parse(url);
                    if (address.Kind == EndPointKind.Inherited)
                    {
                        Add(item.Place, $"{url} is a descriptor, and the daemon opens its sockets by itself. Write an address such as fastcgi://unix:/run/shop.sock.");
                    }
                    urls.Add(url);
                }
                catch (FormatException error)
                {
                    Add(item.Place, error.Message);
                }
            }
        }
        if (value.Kind == JsonValueKind.Array ? value.Items.All(IsNone) : IsNone(value))
        {
            Add(value.Place, "\"urls\" is empty. Name an address such as \"fastcgi://unix:/run/shop.sock\".");
        }
        return urls;

        static bool IsNone(PlacedValue item) => item.Kind == JsonValueKind.String && item.Text.Contains(';', StringComparison.Ordinal) && item.Text.AsSpan().Trim("; ").IsEmpty;
    }

    private Dictionary<string, string> VariablesOf(PlacedValue value)
    {
        var variables = new Dictionary<string, string>(StringComparer.Ordinal);
        if (!Require(value, JsonValueKind.Object, "environment", "an object of strings, such as { \"Title\": \"Shop\" }"))
        {
            return variables;
        }
        foreach (var member in value.Members)
        {
            if (member.Name.Length == 0 || member.Name.Contains('=', StringComparison.Ordinal) || member.Name.Any(char.IsControl))
            {
                Add(member.Place, $"\"{member.Name}\" is no name of a variable: it has a character, and no '='.");
            }
            else if (member.Name.StartsWith("MILLRACE_", StringComparison.Ordinal))
            {
                Add(member.Place, $"\"{member.Name}\" is a variable of the daemon's own, by which it speaks with the application. Take another name, or settings of the server's such as Millrace__DrainTimeout.");
            }
            else if (member.Value.Kind != JsonValueKind.String)
            {
                Add(member.Value.Place, $"The variable \"{member.Name}\" is a string, and this is {member.Value.KindText}. Put it in quotes.");
            }
            else if (member.Value.Text.Contains('\0', StringComparison.Ordinal))
            {
                Add(member.Value.Place, $"The variable \"{member.Name}\" holds a NUL, which no environment can.");
            }
            else if (!variables.TryAdd(member.Name, member.Value.Text))
            {
                Add(member.Place, $"The variable \"{member.Name}\" is there twice. Take one of them out.");
            }
        }
        return variables;
    }
}
