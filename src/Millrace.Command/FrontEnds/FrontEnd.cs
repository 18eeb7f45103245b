// The web servers Millrace can stand behind, one file each. A front end writes the part of its configuration that leads to
// one application; what the web server does otherwise (TLS, files, logs) is not Millrace's business.

using System.Globalization;

namespace Millrace.Command.FrontEnds;

/// <param name="Address">Where the application listens.</param>
/// <param name="Name">Short name, [a-z0-9_-]: names the upstream and the file.</param>
/// <param name="HostNames">The host names of the site, separated by a space.</param>
/// <param name="PathPrefix">"/" or a prefix such as "/shop", without a slash at its end.</param>
/// <param name="ListenOnIPv6">Whether the machine has IPv6 at all: web servers refuse to start on an address family that is lacking.</param>
internal sealed record FrontEndSite(ServerAddress Address, string Name, string HostNames, string PathPrefix, bool ListenOnIPv6)
{
    /// <summary>The scripts of a pool, which the web server finds; null where all requests are the application's.</summary>
    public ScriptFolder? Scripts { get; init; }

    /// <summary>Bytes that a request's body has at most; ASP.NET Core's own default, or what a pool says.</summary>
    public long BodyMax { get; init; } = BodyMaxOfApps;

    /// <summary>The same as digits.</summary>
    public string BodyMaxDigits => BodyMax.ToString(CultureInfo.InvariantCulture);

    /// <summary>Where that comes from.</summary>
    public string BodyMaxSource => BodyMax == BodyMaxOfApps ? "ASP.NET Core's own default" : "as \"limits.body\" of the pool";

    /// <summary>Bytes.</summary>
    public const long BodyMaxOfApps = 30_000_000;

    /// <summary>What a request from the same machine names.</summary>
    public const string DefaultHostNames = "localhost 127.0.0.1";
}

/// <param name="Root">Null: it is not known.</param>
/// <param name="Suffixes">What the names of scripts end in; at least one.</param>
/// <param name="Index">Files that answer for their folder.</param>
/// <param name="Fallback">The script that answers where there is no file.</param>
/// <param name="BodyMaxText">What a request's body has at most as people write it, such as 128m.</param>
internal sealed record ScriptFolder(string? Root, IReadOnlyList<string> Suffixes, IReadOnlyList<string> Index, string Fallback, string BodyMaxText);

internal abstract class FrontEnd
{
    /// <summary>As written on the command line.</summary>
    public abstract string Name { get; }

    public abstract string Description { get; }

    /// <summary>The configuration, ready to paste; lines end with '\n'.</summary>
    /// <exception cref="CommandFailure">The site cannot be served by this front end.</exception>
    public abstract string Configure(FrontEndSite site);

    /// <summary>Whether the configurations of several sites can stand in one file, one behind the other.</summary>
    public virtual bool TakesSeveral => false;

    /// <summary>The lines above the configurations of several sites in a file of this name; null: those of the first one will do, with the name of the file.</summary>
    public virtual string? HeadOfSeveral(string name, IReadOnlyList<FrontEndSite> sites) => null;

    /// <summary>Whether it can be told to find the scripts of a pool.</summary>
    public virtual bool FindsScripts => false;

    /// <summary>The file the configuration belongs in.</summary>
    public abstract string FileFor(FrontEndSite site);

    /// <summary>The command line that makes the web server read it.</summary>
    public abstract string ReloadCommand { get; }

    /// <summary>A path that means something else to the web server than to whoever has asked for it.</summary>
    private protected static CommandFailure CannotBeTold(string server, string path, string choose) => CommandFailure.Usage($"{server} cannot be told of '{path}': choose {choose}.");

    public static IReadOnlyList<FrontEnd> All { get; } = [new Nginx(), new Apache(), new Lighttpd(), new Haproxy(), new Caddy(), new H2o()];
}
