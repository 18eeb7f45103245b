// Caddy, over FastCGI or HTTP/1.1. Written in the form of a Caddyfile, which is indented with tabs.

namespace Millrace.Command.FrontEnds;

internal sealed class Caddy : FrontEnd
{
    public override string Name => "caddy";

    public override bool TakesSeveral => true;

    public override string Description => "Caddy 2.6 or later, FastCGI or HTTP";

    public override string ReloadCommand => "caddy reload --config /etc/caddy/Caddyfile";

    public override string FileFor(FrontEndSite site) => "/etc/caddy/Caddyfile";

    public override string Configure(FrontEndSite site) => IndentWithTabs($$"""
        # In {{FileFor(site)}}, then: {{ReloadCommand}}
        # Without http:// Caddy serves HTTPS and gets the certificate by itself.
        {{(site.HostNames.Contains('*', StringComparison.Ordinal) ? "# To Caddy * is one label: a.b.example.org is http://*.*.example.org.\n" : "")}}{{string.Join(", ", site.HostNames.Split(' ', StringSplitOptions.RemoveEmptyEntries).Select(static name => $"http://{name}"))}} {
        {{Proxy(site)}}
        }

        """);

    private static string Proxy(FrontEndSite site)
    {
        string server = Quote(site.Address.SocketPath is { } path ? $"unix/{WithoutAny(":{}", path)}" : site.Address.HostAndPort);
        (string matcher, string lead) = site.PathPrefix == "/"
            ? ("", "")
            : ($"@{site.Name} ", $"    # the application sees the whole path: app.UsePathBase(\"{site.PathPrefix}\")\n    @{site.Name} path {Quote(site.PathPrefix)} {Quote(site.PathPrefix + "/*")}\n");
        lead += $"    # \"x:http://host/path\" has no path that a rule of Caddy's could match, and would be passed on as http://host/path\n    @{site.Name}_targets expression `!{{http.request.uri.path}}.startsWith(\"/\") && {{http.request.uri}} != \"*\"`\n    respond @{site.Name}_targets 400\n";
        return lead + (site.Address.Scheme == ServerScheme.Http
            ? $$"""
                # Caddy may cut a long answer to a request with a body. What prevents it: from 2.7 on, the line enable_full_duplex
                # in a servers block of the global options; in 2.6, the line buffer_requests in a block behind the address below
                # (it then holds each body in memory). Or FastCGI.
                reverse_proxy {{matcher}}{{server}}
            """
            : $$"""
                # over HTTP/2 a request may name two hosts: FastCGI would get the one that Caddy has not gone by
                @{{site.Name}}_hosts expression `{http.request.header.Host} != "" && {http.request.header.Host} != {hostport}`
                respond @{{site.Name}}_hosts 400
                # FastCGI has one variable for X-User, X_User and X.User: only the first one passes
                request_header {{matcher}}-*_*
                request_header {{matcher}}-*.*
                reverse_proxy {{matcher}}{{server}} {
                    flush_interval 10ms     # passes lines on as they are flushed
                    transport fastcgi {
                        read_timeout 60s    # the slowest handler
                        capture_stderr
                    }
                }
            """);
    }

    private static string IndentWithTabs(string text) => string.Join('\n', text.Split('\n').Select(static line =>
    {
        string bare = line.TrimStart(' ');
        return new string('\t', (line.Length - bare.Length) / 4) + bare;
    }));

    // A socket's path would end at ':'.
    private static string WithoutAny(string special, string path) => path.AsSpan().ContainsAny(special)
        ? throw CannotBeTold("Caddy", path, $"a path without any of {string.Join(' ', special.AsEnumerable())}")
        : path;

    // {name} is replaced by what Caddy or the environment has under that name, between quotes too.
    private static string Quote(string word) => WithoutAny("{}", word).All(static c => char.IsAsciiLetterOrDigit(c) || c is '/' or '.' or '-' or '_' or ':' or '[' or ']' or '*')
        ? word
        : "\"" + word.Replace("\"", "\\\"", StringComparison.Ordinal) + "\"";
}
