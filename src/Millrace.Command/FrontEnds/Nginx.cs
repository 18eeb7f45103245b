// nginx: ngx_http_fastcgi_module or ngx_http_proxy_module with kept-alive connections. Over FastCGI only the parameters an ASP.NET Core application needs are
// sent: request headers travel by themselves (as HTTP_*), path and query are in REQUEST_URI. The usual fastcgi_params file
// would cost both sides more and replaces the Host header by $host, which loses the port. $uri is the path for which nginx has chosen its rules: sent
// along, so that the server refuses a request for which it would choose another. Nothing of the block rewrites it.

using System.Buffers;
using System.Text;

namespace Millrace.Command.FrontEnds;

internal sealed partial class Nginx : FrontEnd
{
    private static readonly SearchValues<char> s_special = SearchValues.Create(" ;{}\"'\\$#()|");

    public override string Name => "nginx";

    public override bool TakesSeveral => true;

    public override bool FindsScripts => true;

    public override string Description => "nginx 1.18 or later, FastCGI or HTTP";

    public override string ReloadCommand => "nginx -t && nginx -s reload";

    public override string FileFor(FrontEndSite site) => $"/etc/nginx/conf.d/{site.Name}.conf";

    public override string Configure(FrontEndSite site)
    {
        string server = site.Address.SocketPath is { } path ? $"unix:{path}" : site.Address.HostAndPort;
        string listenIPv6 = site.ListenOnIPv6 ? "\n    listen [::]:80;" : "";
        if (site.Scripts is { } scripts)
        {
            return ConfigureScripts(site, scripts, server, listenIPv6);
        }
        return $$"""
            # {{FileFor(site)}}, then: {{ReloadCommand}}
            upstream {{site.Name}} {
                server {{Quote(server)}};
                keepalive 64;                   # idle connections kept per worker
            }
            {{(site.Address.Scheme == ServerScheme.FastCgi ? "" : UpgradeMap(site))}}
            {{HostMap(site)}}

            server {
                listen 80;{{listenIPv6}}
                server_name {{site.HostNames}};
                client_max_body_size {{site.BodyMaxDigits}};  # {{site.BodyMaxSource}}

            {{Location(site)}} {
            {{(site.Address.Scheme == ServerScheme.FastCgi ? FastCgi(site) : Proxy(site))}}
                }
            }

            """;
    }

    private static string FastCgi(FrontEndSite site) => $$"""
                fastcgi_pass {{site.Name}};
                fastcgi_keep_conn on;
                fastcgi_buffer_size 16k;    # holds the response headers
                fastcgi_buffers 8 16k;

                # request headers need no lines: they travel by themselves
                fastcgi_param REQUEST_METHOD  $request_method;
                fastcgi_param REQUEST_URI     $request_uri;
                fastcgi_param MILLRACE_PATH   $uri;             # not where you rewrite paths
                fastcgi_param SERVER_PROTOCOL $server_protocol;
                fastcgi_param HTTP_HOST       ${{HostVariable(site)}} if_not_empty;
                fastcgi_param SERVER_NAME     $server_name;     # for clients that send no Host
                fastcgi_param REMOTE_ADDR     $remote_addr;
                fastcgi_param REMOTE_PORT     $remote_port;
                fastcgi_param HTTPS           $https if_not_empty;
                fastcgi_param CONTENT_LENGTH  $content_length;
                fastcgi_param CONTENT_TYPE    $content_type;
                fastcgi_param HTTP_PROXY      "";               # httpoxy
        """;

    private static string Proxy(FrontEndSite site) => $$"""
                proxy_pass http://{{site.Name}};
                proxy_http_version 1.1;
                proxy_buffer_size 16k;      # holds the response headers
                proxy_buffers 8 16k;

                proxy_set_header Host              ${{HostVariable(site)}};
                proxy_set_header X-Forwarded-For   $remote_addr;     # not what the client says
                proxy_set_header X-Forwarded-Proto $scheme;
                proxy_set_header Upgrade           $http_upgrade;   # WebSockets
                proxy_set_header Connection        ${{Variable(site)}};
        """;

    // A connection to the application is kept unless the client wants to upgrade it; an empty value is not sent.
    private static string UpgradeMap(FrontEndSite site) => $$"""

        map $http_upgrade ${{Variable(site)}} {
            default upgrade;
            ''      '';
        }

        """;

    private static string Variable(FrontEndSite site) => "upgrade_" + site.Name.Replace('-', '_');

    private static string HostMap(FrontEndSite site) => $$"""
        # the host in the target counts, and only without one the header Host
        map $request ${{HostVariable(site)}} {
            default                        $http_host;
            "~^[^ ]+ +[^/ ]+://([^/?# ]+)" $1;
        }
        """;

    private static string HostVariable(FrontEndSite site) => "host_" + site.Name.Replace('-', '_');

    // A plain prefix "/shop" would also take "/shopping". A regular expression goes before plain prefixes, longer ones too, but for those with ^~.
    private static string Location(FrontEndSite site) => site.PathPrefix == "/"
        ? "    location /"
        : $"    # the application sees the whole path: app.UsePathBase(\"{site.PathPrefix}\")\n    # your own rules for paths below it: location ^~ (without ^~ this one goes before them)\n    location ~ {Quote("^" + EscapeRegex(site.PathPrefix) + "(/|$)")}";

    private static string EscapeRegex(string text)
    {
        var escaped = new StringBuilder();
        foreach (char c in text)
        {
            _ = char.IsAsciiLetterOrDigit(c) || c is '/' or '-' or '_' || !char.IsAscii(c) ? escaped.Append(c) : escaped.Append('\\').Append(c);
        }
        return escaped.ToString();
    }

    // nginx ends a word at a space, ';', '{' or '}'; inside double quotes only '"' and '\' are special.
    private static string Quote(string word) => word.AsSpan().ContainsAny(s_special)
        ? "\"" + word.Replace("\\", "\\\\", StringComparison.Ordinal).Replace("\"", "\\\"", StringComparison.Ordinal) + "\""
        : word;
}
