// lighttpd: mod_fastcgi or mod_proxy for one site. It opens a connection to the application for each request.

using System.Globalization;
using System.Text;

namespace Millrace.Command.FrontEnds;

internal sealed class Lighttpd : FrontEnd
{
    public override string Name => "lighttpd";

    public override string Description => "lighttpd 1.4.56 or later, FastCGI or HTTP";

    public override string ReloadCommand => "lighttpd -tt -f /etc/lighttpd/lighttpd.conf && systemctl restart lighttpd";

    public override string FileFor(FrontEndSite site) => $"/etc/lighttpd/conf-enabled/50-{site.Name}.conf";

    public override string Configure(FrontEndSite site)
    {
        bool fastCgi = site.Address.Scheme == ServerScheme.FastCgi;
        string end = site.PathPrefix == "/" ? "}" : "} }";
        return $$"""
            # {{FileFor(site)}}, then: {{ReloadCommand}}
            server.modules += ( {{(fastCgi ? "\"mod_fastcgi\"" : "\"mod_setenv\", \"mod_proxy\"")}} )

            # The path as the client wrote it: the application decodes it once, and Millrace refuses dot segments: lighttpd's
            # rules look at the simplified path. This holds for every site of the server.
            server.http-parseopts := ( "url-normalize" => "disable" )

            {{Condition(site)}} {
                server.max-request-size = {{KiBOf(site.BodyMax)}}             # KiB; {{site.BodyMaxSource}}
                server.stream-response-body = 1             # pass a response on while it comes
            {{(fastCgi ? FastCgi(site) : Http(site))}}
            {{end}}

            """;
    }

    private static string KiBOf(long bytes) => ((bytes + 1023) / 1024).ToString(CultureInfo.InvariantCulture);

    private static string FastCgi(FrontEndSite site) => $"""
            fastcgi.server = ( "/" => (( {Server(site)},
                "check-local" => "disable",             # no file has to exist
                "fix-root-scriptname" => "enable" )) )
        """;

    private static string Http(FrontEndSite site) => $"""
            proxy.server = ( "" => (( {Server(site)} )) )
            # lighttpd adds the address to what the client says
            setenv.set-request-header += ( "X-Forwarded-For" => "" )
            proxy.header = ( "upgrade" => "enable" )    # WebSockets
        """;

    private static string Server(FrontEndSite site) => site.Address.SocketPath is { } path
        ? $"\"socket\" => \"{Escape(path)}\""
        : string.Create(System.Globalization.CultureInfo.InvariantCulture, $"\"host\" => \"{site.Address.Host}\", \"port\" => {site.Address.Port}");

    // A plain prefix "/shop" would also take "/shopping".
    private static string Condition(FrontEndSite site)
    {
        string hosts = string.Join('|', site.HostNames.Split(' ', StringSplitOptions.RemoveEmptyEntries).Select(EscapeRegex));
        string host = $"$HTTP[\"host\"] =~ \"^({hosts})(:[0-9]+)?$\"";
        return site.PathPrefix == "/"
            ? host
            : $"# the application sees the whole path: app.UsePathBase(\"{site.PathPrefix}\")\n{host} {{ $HTTP[\"url\"] =~ \"^{EscapeRegex(site.PathPrefix)}(/|$)\"";
    }

    // '*' of a host name stands for any number of labels.
    private static string EscapeRegex(string text)
    {
        var escaped = new StringBuilder();
        foreach (char c in text)
        {
            _ = c == '*' ? escaped.Append(".*")
                : char.IsAsciiLetterOrDigit(c) || c is '/' or '-' or '_' || !char.IsAscii(c) ? escaped.Append(c)
                : escaped.Append('\\').Append(c);
        }

        return Escape(escaped.ToString());
    }

    // Inside double quotes nothing is special but the quote.
    private static string Escape(string text) => text.Replace("\"", "\\\"", StringComparison.Ordinal);
}
