// The web server's side of a file of `millrace serve`: one site for each shared address, and for each application that has an address of its own.

using System.Net.Sockets;
using Millrace.Command.FrontEnds;
using Millrace.Command.Serving;

namespace Millrace.Command.Verbs;

internal static class FileSites
{
    private const string FileName = "millrace";

    /// <exception cref="CommandFailure">The web server's configuration cannot say all of it.</exception>
    public static string Configure(FrontEnd frontEnd, ServeFile file)
    {
        FrontEndSite[] sites = [.. Of(file)];
        if (sites.Length > 1 && !frontEnd.TakesSeveral)
        {
            throw CommandFailure.Usage($"{file.Path} has {sites.Length} sites, and a configuration of {frontEnd.Name} is printed for one at a time: millrace config {frontEnd.Name} ADDRESS --host NAME.");
        }
        if (!frontEnd.FindsScripts && Array.Find(sites, static site => site.Scripts is { Root: null }) is { } unknown)
        {
            throw CommandFailure.Usage($"{unknown.Name} is a pool that has its scripts named by the web server, and a configuration of {frontEnd.Name} for that is not printed. Say \"root\" in {file.Path}, the folder that they lie in: the pool finds them itself then.");
        }
        string[] blocks = [.. sites.Select(frontEnd.Configure)];
        string first = frontEnd.HeadOfSeveral(FileName, sites) is { } head
            ? head + '\n' + WithoutHead(blocks[0])
            : blocks[0].Replace(frontEnd.FileFor(sites[0]), frontEnd.FileFor(sites[0] with { Name = FileName }), StringComparison.Ordinal);
        return string.Join('\n', [first, .. blocks.Skip(1).Select(WithoutHead)]);
    }

    // A shared address has the hosts of its applications. The others have names that lead to this machine, for whoever has none yet (RFC 6761 §6.3).
    private static IEnumerable<FrontEndSite> Of(ServeFile file)
    {
        foreach (AppSettings app in file.Apps)
        {
            if (app.Urls.Except(app.SharedUrls).FirstOrDefault() is { } url)
            {
                string names = app.IsRouter ? string.Join(' ', HostsOf(file, app.Name)) : $"{app.Name}.localhost";
                var address = ConfigVerb.CheckSocket(ServerAddress.ParseLocal(url.Split('?')[0]));
                yield return new FrontEndSite(address, app.Name, names, "/", Socket.OSSupportsIPv6) { Scripts = address.Scheme == ServerScheme.FastCgi ? ScriptsOf(app) : null, BodyMax = BodyMaxOf(file, app) };
            }
        }
    }

    // Behind a shared address that of whoever takes most: each refuses what is too long for itself.
    private static long BodyMaxOf(ServeFile file, AppSettings app) => app.IsRouter
        ? file.Apps.Where(each => each.SharedAs.Any(place => place.Shared == app.Name)).Select(each => BodyMaxOf(file, each)).DefaultIfEmpty(FrontEndSite.BodyMaxOfApps).Max()
        : app.Pool?.Body ?? FrontEndSite.BodyMaxOfApps;

    // Not where the pool is to send no files: the web server would send them.
    private static ScriptFolder? ScriptsOf(AppSettings app) =>
        app.Pool is { Suffixes.Count: > 0 } pool && (pool.Root is null || pool.ServeFiles) ? new ScriptFolder(pool.Root, pool.Suffixes, pool.Index, pool.Fallback, Size.Text(pool.Body)) : null;

    // One that any host leads to has the name of the machine as well.
    private static string[] HostsOf(ServeFile file, string shared)
    {
        string?[] hosts = [.. file.Apps.SelectMany(static app => app.SharedAs).Where(place => place.Shared == shared).Select(static place => place.Host).Distinct()];
        return [.. hosts.OfType<string>(), .. hosts.Contains(null) ? FrontEndSite.DefaultHostNames.Split(' ') : []];
    }

    private static string WithoutHead(string block) => string.Join('\n', block.Split('\n').SkipWhile(static line => line.StartsWith('#')));
}
