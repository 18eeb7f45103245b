// HAProxy, over FastCGI or HTTP/1.1. Everything is in sections of its own, which can stand beside others in haproxy.cfg:
// option abortonclose is heeded in a defaults section only, so this site has one.

using System.Text;

namespace Millrace.Command.FrontEnds;

internal sealed class Haproxy : FrontEnd
{
    public override string Name => "haproxy";

    public override string Description => "HAProxy 2.6 or later, FastCGI or HTTP";

    public override string ReloadCommand => "haproxy -c -f /etc/haproxy/haproxy.cfg && systemctl reload haproxy";

    public override string FileFor(FrontEndSite site) => "/etc/haproxy/haproxy.cfg";

    public override string Configure(FrontEndSite site) => $$"""
        # At the end of {{FileFor(site)}}, then: {{ReloadCommand}}
        global
            expose-experimental-directives  # normalize-uri, below

        defaults {{site.Name}}
            mode http
            log global
            timeout connect 5s
            timeout client 60s
            timeout server 60s              # the slowest handler
            option abortonclose             # tells the application of clients that go away
            option http-no-delay            # passes lines on as they are flushed

        frontend {{site.Name}} from {{site.Name}}
            bind {{(site.ListenOnIPv6 ? ":80,:::80 v6only" : ":80")}}
            # one spelling of each path; your own rules go behind these lines
            http-request deny deny_status 400 if { path -m reg %([^0-9A-Fa-f]|.[^0-9A-Fa-f]|.?$) }
            http-request deny deny_status 400 if { query -m reg %[0-9A-Fa-f]?%(3[0-9]|[46][1-6]) }
            http-request normalize-uri percent-decode-unreserved
            http-request normalize-uri path-strip-dot
            http-request normalize-uri path-strip-dotdot full
        {{Routes(site)}}

        backend {{site.Name}} from {{site.Name}}
        {{(site.Address.Scheme == ServerScheme.FastCgi ? FastCgi(site) : Http(site))}}

        """;

    private static string FastCgi(FrontEndSite site) => $$"""
            use-fcgi-app {{site.Name}}
            http-reuse always
            server {{site.Name}} {{Server(site)}} proto fcgi

        fcgi-app {{site.Name}}
            docroot /                       # HAProxy asks for one; nothing is looked for there
            option keep-conn
            option get-values
            pass-header authorization
            set-param SERVER_ADDR %[dst]
            set-param AUTH_TYPE %[str()]        # HAProxy would make them of an Authorization
            set-param REMOTE_USER %[str()]      # that nobody has checked
            log-stderr global
        """;

    private static string Http(FrontEndSite site) => $$"""
            option forwardfor
            http-request set-header X-Forwarded-Proto https if { ssl_fc }
            http-request set-header X-Forwarded-Proto http if !{ ssl_fc }
            http-reuse always
            server {{site.Name}} {{Server(site)}}
        """;

    // Lines of one name are alternatives; a plain prefix "/shop" would also take "/shopping".
    private static string Routes(FrontEndSite site)
    {
        var lines = new StringBuilder();
        string[] names = site.HostNames.Split(' ', StringSplitOptions.RemoveEmptyEntries);
        string[] exact = [.. names.Where(static name => !name.StartsWith('*'))];
        string[] endings = [.. names.Where(static name => name.StartsWith('*')).Select(static name => name[1..])];
        _ = exact.Length > 0 ? lines.Append($"    acl {site.Name}_host req.hdr(host),host_only -i {string.Join(' ', exact)}\n") : lines;
        _ = endings.Length > 0 ? lines.Append($"    acl {site.Name}_host req.hdr(host),host_only -m end -i {string.Join(' ', endings)}\n") : lines;
        if (site.PathPrefix == "/")
        {
            return lines.Append($"    use_backend {site.Name} if {site.Name}_host").ToString();
        }

        // The path is compared as the client has sent it: other letters than those of ASCII are escaped there.
        (string path, string begins) = Ascii.IsValid(site.PathPrefix) ? ("path", "path_beg") : ("path,url_dec", "path,url_dec -m beg");
        return lines.Append($"    # the application sees the whole path: app.UsePathBase(\"{site.PathPrefix}\")\n")
            .Append($"    acl {site.Name}_path {path} {Quote(site.PathPrefix)}\n")
            .Append($"    acl {site.Name}_path {begins} {Quote(site.PathPrefix + "/")}\n")
            .Append($"    use_backend {site.Name} if {site.Name}_host {site.Name}_path")
            .ToString();
    }

    private static string Server(FrontEndSite site) => site.Address.SocketPath is { } path ? Quote("unix@" + Literal(path)) : site.Address.HostAndPort;

    // In an address $name is a variable of the environment, between quotes and behind a backslash too.
    private static string Literal(string path) => path.Contains('$', StringComparison.Ordinal)
        ? throw CannotBeTold("HAProxy", path, "a path without $")
        : path;

    // Between single quotes nothing is special but the quote itself, until HAProxy reads the word as an address.
    private static string Quote(string word) => word.All(static c => char.IsAsciiLetterOrDigit(c) || c is '/' or '.' or '-' or '_' or '@')
        ? word
        : "'" + word.Replace("'", "'\\''", StringComparison.Ordinal) + "'";
}
