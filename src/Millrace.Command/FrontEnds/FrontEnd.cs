// The web servers Millrace can stand behind, one file each. A front end writes the part of its configuration that leads to
// one application; what the web server does otherwise (TLS, files, logs) is not Millrace's business.

namespace Millrace.Command.FrontEnds;

/// <param name="Address">Where the application listens.</param>
/// <param name="Name">Short name, [a-z0-9_-]: names the upstream and the file.</param>
/// <param name="HostNames">The host names of the site, separated by a space.</param>
/// <param name="PathPrefix">"/" or a prefix such as "/shop", without a slash at its end.</param>
/// <param name="ListenOnIPv6">Whether the machine has IPv6 at all: web servers refuse to start on an address family that is lacking.</param>
internal sealed record FrontEndSite(ServerAddress Address, string Name, string HostNames, string PathPrefix, bool ListenOnIPv6)
{
    /// <summary>What a request from the same machine names.</summary>
    public const string DefaultHostNames = "localhost 127.0.0.1";
}

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

    /// <summary>The file the configuration belongs in.</summary>
    public abstract string FileFor(FrontEndSite site);

    /// <summary>The command line that makes the web server read it.</summary>
    public abstract string ReloadCommand { get; }

    public static IReadOnlyList<FrontEnd> All { get; } = [new Nginx(), new Apache(), new Lighttpd(), new Haproxy(), new Caddy(), new H2o()];
}
