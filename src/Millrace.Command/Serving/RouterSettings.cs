// A router as the daemon runs it: an application like the others, whose program is the command itself. So it is started, watched, replaced while it serves, and
// its connections move on, as theirs do.

using Millrace.Command.Routing;

namespace Millrace.Command.Serving;

internal static class RouterSettings
{
    /// <summary>The verb that runs it.</summary>
    public const string Verb = "route";

    // What waits for a socket goes on where the news of it comes in: to hand it to another thread costs as much as all the rest. Nothing in a router blocks.
    private static readonly KeyValuePair<string, string>[] s_runtime = [new("DOTNET_TieredPGO", "1"), new("DOTNET_SYSTEM_NET_SOCKETS_INLINE_COMPLETIONS", "1")];

    // Other processes of its user could have the runtime run code in it.
    private static readonly KeyValuePair<string, string>[] s_alone = [new("DOTNET_EnableDiagnostics", "0")];

    /// <summary>Variables for the runtime of a process whose program is the command.</summary>
    public static IEnumerable<KeyValuePair<string, string>> RuntimeFor(string? user) => s_runtime.Concat(user is null ? [] : s_alone);

    /// <summary>The command itself.</summary>
    public static string Program => Path.Combine(AppContext.BaseDirectory, typeof(RouterSettings).Assembly.GetName().Name + ".dll");

    /// <param name="shared">The addresses that applications share.</param>
    /// <param name="routes">Which is whose.</param>
    public static AppSettings Of(SharedSettings shared, IEnumerable<Route> routes) => new()
    {
        Name = shared.Name,
        Target = Program,
        Urls = shared.Urls,
        Instances = shared.Instances,
        User = shared.User,
        Arguments = [Verb],
        Environment = RouteJson.Write(routes).Concat(RuntimeFor(shared.User)).ToDictionary(),
        IsRouter = true,
        Health = "/",
        HealthHost = Router.HealthHost,
        Snapshot = false,
        Watch = false,
    };
}
