// Which application a request of a shared address is for: that of its host, or of the nearest wildcard, or of any host; among these that of the longest path.

using System.Text.Json;
using System.Text.Json.Serialization;

namespace Millrace.Command.Routing;

/// <param name="App">The application's name.</param>
/// <param name="Socket">The Unix socket, in the folder that the router is given, on which it speaks FastCGI.</param>
/// <param name="UpgradeSocket">The Unix socket on which it speaks HTTP, for a switch of protocols; null where no client can ask for one.</param>
/// <param name="Host">In lower case; "*.example" for all below it, null for any.</param>
/// <param name="Path">Empty for all, or '/' and segments, without a '/' at the end.</param>
internal sealed record Route(string App, string Socket, string? UpgradeSocket, string? Host, string Path)
{
    /// <summary>Whether the route leads where a path leads, by whole segments.</summary>
    public bool Leads(ReadOnlySpan<char> path) =>
        path.StartsWith(Path, StringComparison.Ordinal) && (path.Length == Path.Length || path[Path.Length] == '/' || Path.Length == 0);
}

internal sealed class RouteTable
{
    private readonly Dictionary<string, Route[]>.AlternateLookup<ReadOnlySpan<char>> _hosts;
    private readonly (string Suffix, Route[] Routes)[] _wildcards;
    private readonly Route[] _any;

    public RouteTable(IEnumerable<Route> routes)
    {
        var byHost = routes.OrderByDescending(static route => route.Path.Length).ToLookup(static route => route.Host);
        _any = [.. byHost[null]];
        _hosts = byHost.Where(static host => host.Key is [not '*', ..]).ToDictionary(static host => host.Key!, static host => host.ToArray(), StringComparer.OrdinalIgnoreCase).GetAlternateLookup<ReadOnlySpan<char>>();
        _wildcards = [.. byHost.Where(static host => host.Key is ['*', ..]).Select(static host => (Suffix: host.Key![1..], host.ToArray())).OrderByDescending(static host => host.Suffix.Length)];
    }

    /// <summary>The route of a request, or null where no application is meant.</summary>
    /// <param name="host">Without a port.</param>
    /// <param name="path">Decoded.</param>
    public Route? Find(ReadOnlySpan<char> host, ReadOnlySpan<char> path)
    {
        if (host is [.., '.'])
        {
            host = host[..^1];      // the same name, written as a whole (RFC 1034 §3.1)
        }
        if (_hosts.TryGetValue(host, out Route[]? routes) && Find(routes, path) is { } exact)
        {
            return exact;
        }
        foreach (var (suffix, its) in _wildcards)
        {
            if (host.Length > suffix.Length && host.EndsWith(suffix, StringComparison.OrdinalIgnoreCase) && Find(its, path) is { } found)
            {
                return found;
            }
        }
        return Find(_any, path);
    }

    private static Route? Find(Route[] routes, ReadOnlySpan<char> path)
    {
        foreach (Route route in routes)
        {
            if (route.Leads(path))
            {
                return route;
            }
        }
        return null;
    }
}

/// <summary>Routes on their way to the process of a router.</summary>
[JsonSerializable(typeof(Route[]))]
internal sealed partial class RouteJson : JsonSerializerContext
{
    /// <summary>The variable that says where their sockets lie.</summary>
    public const string FolderVariable = "MILLRACE_ROUTES_FOLDER";

    private const string Variable = "MILLRACE_ROUTES_";

    /// <summary>The variables that hold them.</summary>
    public static IEnumerable<KeyValuePair<string, string>> Write(IEnumerable<Route> routes) => LongVariable.Write(Variable, JsonSerializer.Serialize([.. routes], Default.RouteArray));

    /// <summary>Takes them out of the environment; null where there are none.</summary>
    /// <exception cref="JsonException">They are no list of routes.</exception>
    public static IReadOnlyList<Route>? Take() => LongVariable.Take(Variable) is { } text ? JsonSerializer.Deserialize(text, Default.RouteArray) : null;
}
