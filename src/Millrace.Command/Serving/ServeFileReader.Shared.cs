// Shared addresses, and which requests of them are for which application.

using System.Text.Json;
using Millrace.Command.Routing;

namespace Millrace.Command.Serving;

internal sealed partial class ServeFileReader
{
    public static readonly string[] SharedNames = ["urls", "instances", "user"];

    private readonly List<SharedSettings> _shared = [];
    private readonly List<(string Shared, Route Route)> _routes = [];
    private string _sockets = "";

    // "shared": { "front": "fastcgi://unix:/run/front.sock", "inner": { "urls": [ ... ], "instances": 2 } }
    private void ReadShared(PlacedValue? shared)
    {
        if (shared is null || !Require(shared, JsonValueKind.Object, "shared", "an object of names and addresses, such as { \"front\": \"fastcgi://unix:/run/front.sock\" }"))
        {
            return;
        }
        foreach (var member in shared.Members)
        {
            RequireName(member.Name, member.Place);
            if (_shared.Any(other => other.Name == member.Name))
            {
                Add(member.Place, $"\"{member.Name}\" is there twice. Take one of them out.");
            }
            if (member.Value.Kind != JsonValueKind.Object)
            {
                _shared.Add(new SharedSettings(member.Name, UrlsOf(member.Value), Instances: 1, User: null));
            }
            else if (Members(member.Value, $"\"{member.Name}\"", SharedNames) is { } its)
            {
                IReadOnlyList<string> urls = Required(member.Value, its, "urls", AddressText, "A shared address") is { } where ? UrlsOf(where) : [];
                _shared.Add(new SharedSettings(member.Name, urls, its.TryGetValue("instances", out var instances) ? NumberOf(instances, "instances", 1, InstancesMax) : 1,
                    its.TryGetValue("user", out var user) ? UserOf(user) : null));
            }
        }
    }

    private static IEnumerable<PlacedValue> SharedUrls(PlacedValue? shared) => shared is not { Kind: JsonValueKind.Object } ? [] :
        shared.Members.SelectMany(static member => member.Value.Kind == JsonValueKind.Object ? member.Value.Members.Where(static its => its.Name == "urls").Select(static its => its.Value) : [member.Value]);

    private List<string> UrlsOf(PlacedValue app, Dictionary<string, PlacedValue> members, string who)
    {
        if (members.TryGetValue("urls", out var own))
        {
            return UrlsOf(own);
        }
        if (!members.ContainsKey("on"))
        {
            _ = Required(app, members, "urls", $"{AddressText}, or \"on\": the name of a shared one", who);
        }
        return [];
    }

    // As a router sees them: in the folder whose descriptor it has.
    private static string SharedSocket(string app) => app + ".app.sock";

    // For what FastCGI cannot carry: a switch of protocols.
    private static string UpgradeSocket(string app) => app + ".up.sock";

    private bool Upgrades(string shared) => _shared.Any(other => other.Name == shared && other.Urls.Any(static url => url.StartsWith("http:", StringComparison.OrdinalIgnoreCase)));

    private string[] SharedUrls(Dictionary<string, PlacedValue> members, string app)
    {
        if (!members.TryGetValue("on", out var on))
        {
            return [];
        }
        string owner = _shared.FirstOrDefault(other => other.Name == on.Text)?.User is { } user ? $"&owner={user}" : "";
        string UrlOf(string protocol, string socket) => $"{protocol}://unix:{Path.Combine(_sockets, DaemonFolders.SharedName, socket)}?mode=600{owner}";
        return Upgrades(on.Text) ? [UrlOf("fastcgi", SharedSocket(app)), UrlOf("http", UpgradeSocket(app))] : [UrlOf("fastcgi", SharedSocket(app))];
    }

    // "on": "front", "host": "blog.example", "path": "/wiki"
    private (string Path, SharedPlace[] As) ReadRoutes(Dictionary<string, PlacedValue> members, string app)
    {
        PlacedValue? on = members.GetValueOrDefault("on");
        foreach (string name in (string[])["host", "path"])
        {
            if (on is null && members.TryGetValue(name, out var lonely))
            {
                Add(lonely.Place, $"\"{name}\" chooses among the requests of a shared address: name that with \"on\".");
            }
        }
        string path = members.TryGetValue("path", out var place) ? PrefixOf(place) : "";
        string?[] hosts = members.TryGetValue("host", out var named) ? [.. ItemsOf(named, "host").Select(RouteHostOf)] : [null];
        if (named is { Kind: JsonValueKind.Array, Items.Count: 0 })
        {
            Add(named.Place, "\"host\" is empty, and so nobody would be led here. Name a host, or take \"host\" out: then any leads here.");
        }
        if (on is null || TextOf(on, "on", "the name of a shared address") is not { } shared)
        {
            return (path, []);
        }
        if (_shared.All(other => other.Name != shared))
        {
            Add(on.Place, _shared.Count == 0
                ? $"There is no shared address \"{shared}\". Name it beside \"apps\": \"shared\": {{ \"{shared}\": {AddressText["an address such as ".Length..]} }}."
                : $"There is no shared address \"{shared}\". The nearest is \"{NearestName.To(shared, [.. _shared.Select(static other => other.Name)])}\".");
        }
        foreach (string? host in hosts)
        {
            var route = new Route(app, SharedSocket(app), Upgrades(shared) ? UpgradeSocket(app) : null, host, path);
            if (_routes.FirstOrDefault(other => other.Shared == shared && other.Route.Host == host && other.Route.Path == path).Route is { } taken)
            {
                Add((named ?? place ?? on).Place, $"{host ?? "any host"}{(path.Length == 0 ? "/" : path)} of \"{shared}\" is for \"{taken.App}\" already. Give one of them another \"host\" or \"path\".");
            }
            _routes.Add((shared, route));
        }
        return (path, [.. hosts.Select(host => new SharedPlace(shared, host, path))]);
    }

    // One that nobody is reached by is a mistake somewhere else in the file.
    private void RequireUsed(PlacedValue? shared, IReadOnlyList<PlacedValue> apps)
    {
        bool IsUsed(string name) => apps.SelectMany(static app => app.Members).Any(member => member.Name == "on" && (_mistakes.Count > 0 || member.Value.Text == name));
        foreach (var member in shared is { Kind: JsonValueKind.Object } ? shared.Members.Where(member => member.Name.Length > 0 && !IsUsed(member.Name)) : [])
        {
            Add(member.Place, $"No application is on \"{member.Name}\". Say \"on\": \"{member.Name}\" of one, or take the address out.");
        }
    }

    private IEnumerable<AppSettings> Routers() =>
        _shared.Select(shared => RouterSettings.Of(shared, _routes.Where(route => route.Shared == shared.Name).Select(static route => route.Route)));

    private string PrefixOf(PlacedValue value)
    {
        if (TextOf(value, "path", "a path such as \"/wiki\"") is not { } path)
        {
            return "";
        }
        string prefix = path.TrimEnd('/');
        if (!path.StartsWith('/') || prefix.Contains("//", StringComparison.Ordinal) || prefix.Split('/').Any(static segment => segment is "." or "..") || prefix.Any(static c => c is '?' or '#' or '%' or '\\'))
        {
            Add(value.Place, $"\"{path}\" is no path that leads to an application: it begins with '/', is written as it is read (without %), and has no empty, '.' or '..' segment, as in \"/wiki\".");
        }
        return prefix;
    }

    private string RouteHostOf(PlacedValue value)
    {
        if (TextOf(value, "host", "a host name") is not { } host)
        {
            return "";
        }
        if (!HostName.TryWriteAsSent(host, out string sent))
        {
            Add(value.Place, $"\"{host}\" is no host name: write one such as \"blog.example\", without a port, or \"*.example\" for all below one.");
        }
        return sent;
    }
}
