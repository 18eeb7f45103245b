// nginx in front of a pool of PHP, as in front of php-fpm: nginx finds the script, and sends the files beside it. try_files keeps visitors from running what they have uploaded (the hole of 2010:
// /upload/a.jpg/x.php), whatever PHP makes of such a path; the pool asks for the same once more. It empties $fastcgi_path_info, which is therefore kept.

namespace Millrace.Command.FrontEnds;

internal sealed partial class Nginx
{
    private string ConfigureScripts(FrontEndSite site, ScriptFolder scripts, string server, string listenIPv6)
    {
        string ends = scripts.Suffixes is [var one] ? EscapeRegex(one) : $"(?:{string.Join('|', scripts.Suffixes.Select(EscapeRegex))})";
        string rest = "path_info_" + site.Name.Replace('-', '_');
        return $$"""
            # {{FileFor(site)}}, then: {{ReloadCommand}}
            upstream {{site.Name}} {
                server {{Quote(server)}};
                keepalive 64;                   # idle connections kept per worker; none of them holds a process
            }

            {{HostMap(site)}}

            server {
                listen 80;{{listenIPv6}}
                server_name {{site.HostNames}};
                root {{Literal(scripts.Root ?? "/var/www/html")}};{{(scripts.Root is null ? "             # where the scripts lie, as the pool sees it" : "")}}
                index {{string.Join(' ', scripts.Index.Select(static name => Literal(name)))}};
                client_max_body_size {{scripts.BodyMaxText}};      # as "limits.body" of the pool

                location / {
                    try_files $uri $uri/ {{Literal("/" + scripts.Fallback.TrimStart('/'), "$is_args$args")}};
                }

                location ~ {{Quote(@"/\.(?!well-known/)")}} {
                    return 404;                 # .git, .env
                }

                location ~ {{Quote(ends + "(/|$)")}} {
                    fastcgi_split_path_info {{Quote($"^(.+?{ends})(/.*)?$")}};
                    set ${{rest}} $fastcgi_path_info;
                    try_files $fastcgi_script_name =404;        # never without: /upload/a.jpg/x.php

                    fastcgi_pass {{site.Name}};
                    fastcgi_keep_conn on;
                    fastcgi_buffer_size 16k;    # holds the response headers
                    fastcgi_buffers 8 16k;

                    fastcgi_param SCRIPT_FILENAME   $document_root$fastcgi_script_name;
                    fastcgi_param SCRIPT_NAME       $fastcgi_script_name;
                    fastcgi_param PATH_INFO         ${{rest}};
                    fastcgi_param DOCUMENT_ROOT     $document_root;
                    fastcgi_param DOCUMENT_URI      $document_uri;
                    fastcgi_param REQUEST_URI       $request_uri;
                    fastcgi_param REQUEST_METHOD    $request_method;
                    fastcgi_param QUERY_STRING      $query_string;
                    fastcgi_param CONTENT_TYPE      $content_type;
                    fastcgi_param CONTENT_LENGTH    $content_length;
                    fastcgi_param SERVER_PROTOCOL   $server_protocol;
                    fastcgi_param SERVER_SOFTWARE   nginx/$nginx_version;
                    fastcgi_param GATEWAY_INTERFACE CGI/1.1;
                    fastcgi_param REQUEST_SCHEME    $scheme;
                    fastcgi_param HTTPS             $https if_not_empty;
                    fastcgi_param REMOTE_ADDR       $remote_addr;
                    fastcgi_param REMOTE_PORT       $remote_port;
                    # beside auth_basic, and only there: fastcgi_param REMOTE_USER $remote_user;
                    fastcgi_param SERVER_ADDR       $server_addr;
                    fastcgi_param SERVER_PORT       $server_port;
                    fastcgi_param SERVER_NAME       $server_name;
                    fastcgi_param HTTP_HOST         ${{HostVariable(site)}} if_not_empty;
                    fastcgi_param HTTP_PROXY        "";             # httpoxy
                }
            }

            """;
    }

    // $name is a variable in these, between quotes too, and there is no way to write a $ that is none.
    private static string Literal(string path, string variables = "") => path.Contains('$', StringComparison.Ordinal)
        ? throw CannotBeTold("nginx", path, "a path without $")
        : Quote(path + variables);
}
