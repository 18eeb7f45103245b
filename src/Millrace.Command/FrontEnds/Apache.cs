// Apache: mod_proxy_fcgi or mod_proxy_http with kept-alive connections, one virtual host for the site. The path is passed on as
// the client wrote it (AllowEncodedSlashes, nocanon); the application decodes it once. Apache knows comments on lines of their own only.

using System.Buffers;

namespace Millrace.Command.FrontEnds;

internal sealed partial class Apache : FrontEnd
{
    // A socket's path is part of a URL in ProxyPass: what URLs and Apache's own syntax give a meaning is left to other web servers.
    private static readonly SearchValues<char> s_plain =
        SearchValues.Create("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+@=,~");

    public override string Name => "apache";

    public override bool TakesSeveral => true;

    public override bool FindsScripts => true;

    public override string Description => "Apache 2.4.47 or later, FastCGI or HTTP";

    public override string ReloadCommand => "apachectl configtest && apachectl graceful";

    public override string FileFor(FrontEndSite site) => $"/etc/apache2/sites-available/{site.Name}.conf";

    // A site is enabled by the name of its file.
    public override string HeadOfSeveral(string name, IReadOnlyList<FrontEndSite> sites) =>
        $"# {FileFor(sites[0] with { Name = name })}, then: a2enmod {string.Join(' ', sites.SelectMany(ModulesFor).Distinct())} && a2ensite {name} && {ReloadCommand}";

    private static string[] ModulesFor(FrontEndSite site) => site.Address.Scheme == ServerScheme.FastCgi ? ["proxy_fcgi"] : ["proxy_http", "headers"];

    /// <exception cref="CommandFailure">The path of the socket or the prefix holds characters that Apache would read otherwise.</exception>
    public override string Configure(FrontEndSite site)
    {
        if (site.Scripts is { } scripts)
        {
            return ConfigureScripts(site, scripts);
        }
        bool fastCgi = site.Address.Scheme == ServerScheme.FastCgi;
        return $"""
            {HeadOfSeveral(site.Name, [site])}
            <VirtualHost *:80>
            {Names(site)}
                # {site.BodyMaxSource}
                LimitRequestBody {site.BodyMaxDigits}
                # without it /a%2Fb is answered 404
                AllowEncodedSlashes NoDecode

            {(fastCgi ? FastCgi(site) : Http(site))}
            </VirtualHost>

            """;
    }

    private static string FastCgi(FrontEndSite site) => $$"""
            <Location "{{Checked(site.PathPrefix)}}">
                # SCRIPT_FILENAME is no URL; the Authorization header; the Content-Length of responses
                ProxyFCGIBackendType GENERIC
                CGIPassAuth On
                SetEnv ap_trust_cgilike_cl 1
                # the path that Apache's rules have looked at; not where you rewrite paths
                ProxyFCGISetEnvIf "true" MILLRACE_PATH "%{REQUEST_URI}"
            </Location>
        {{PrefixNote(site)}}    ProxyPass "{{site.PathPrefix}}" "{{Url(site, "fcgi")}}" enablereuse=on ttl=60 flushpackets=on nocanon
        """;

    private static string Http(FrontEndSite site) => $$"""
            ProxyPreserveHost On
            # Apache adds the address to what the client says
            RequestHeader unset X-Forwarded-For
            RequestHeader set X-Forwarded-Proto expr=%{REQUEST_SCHEME}
            # Apache passes on no header that the client's Connection names
            RequestHeader edit* Connection "(?i)x-forwarded-(for|proto)" !
        {{PrefixNote(site)}}    ProxyPass "{{Checked(site.PathPrefix)}}" "{{Url(site, "http")}}" ttl=60 nocanon upgrade=websocket
        """;

    private static string PrefixNote(FrontEndSite site) =>
        site.PathPrefix == "/" ? "" : $"    # the application sees the whole path: app.UsePathBase(\"{site.PathPrefix}\")\n";

    private static string Names(FrontEndSite site)
    {
        string[] names = site.HostNames.Split(' ', StringSplitOptions.RemoveEmptyEntries);

        // Only an alias may hold a wildcard, or be an address of IPv6, which Apache compares without its brackets.
        string first = names.FirstOrDefault(static name => name.AsSpan().IndexOfAny('*', '[') < 0) ?? site.Name;
        string[] others = [.. names.Where(name => name != first).Select(static name => name.Trim('[', ']'))];
        return $"    ServerName {first}" + (others.Length == 0 ? "" : $"\n    ServerAlias {string.Join(' ', others)}");
    }

    // Where the prefix ends without a slash Apache matches whole segments: /shop and /shop/x, not /shopping.
    private static string Url(FrontEndSite site, string scheme) => site.Address.SocketPath is { } path
        ? $"unix:{Checked(path)}|{scheme}://{site.Name}{site.PathPrefix}"
        : $"{scheme}://{site.Address.HostAndPort}{site.PathPrefix}";

    private static string Checked(string path) => path.AsSpan().ContainsAnyExcept(s_plain)
        ? throw CannotBeTold("Apache", path, "a path of letters, digits and / . _ - + @ = , ~ only")
        : path;
}
