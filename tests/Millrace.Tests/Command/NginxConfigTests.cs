// `millrace config nginx`: the whole output, because people paste it.

using Millrace.Command;
using Millrace.Command.FrontEnds;

namespace Millrace.Tests.Command;

public sealed class NginxConfigTests
{
    [Fact]
    public void Unix_socket_gives_this_block()
    {
        var site = new FrontEndSite(ServerAddress.Parse("fastcgi://unix:/run/millrace-hello.sock"), "hello", "localhost 127.0.0.1", "/", ListenOnIPv6: true);

        Assert.Equal("""
            # /etc/nginx/conf.d/hello.conf, then: nginx -t && nginx -s reload
            upstream hello {
                server unix:/run/millrace-hello.sock;
                keepalive 64;                   # idle connections kept per worker
            }

            # the host in the target counts, and only without one the header Host
            map $request $host_hello {
                default                        $http_host;
                "~^[^ ]+ +[^/ ]+://([^/?# ]+)" $1;
            }

            server {
                listen 80;
                listen [::]:80;
                server_name localhost 127.0.0.1;
                client_max_body_size 30000000;  # ASP.NET Core's own default

                location / {
                    fastcgi_pass hello;
                    fastcgi_keep_conn on;
                    fastcgi_buffer_size 16k;    # holds the response headers
                    fastcgi_buffers 8 16k;

                    # request headers need no lines: they travel by themselves
                    fastcgi_param REQUEST_METHOD  $request_method;
                    fastcgi_param REQUEST_URI     $request_uri;
                    fastcgi_param MILLRACE_PATH   $uri;             # not where you rewrite paths
                    fastcgi_param SERVER_PROTOCOL $server_protocol;
                    fastcgi_param HTTP_HOST       $host_hello if_not_empty;
                    fastcgi_param SERVER_NAME     $server_name;     # for clients that send no Host
                    fastcgi_param REMOTE_ADDR     $remote_addr;
                    fastcgi_param REMOTE_PORT     $remote_port;
                    fastcgi_param HTTPS           $https if_not_empty;
                    fastcgi_param CONTENT_LENGTH  $content_length;
                    fastcgi_param CONTENT_TYPE    $content_type;
                    fastcgi_param HTTP_PROXY      "";               # httpoxy
                }
            }

            """, new Nginx().Configure(site));
    }

    [Fact]
    public void Machine_without_IPv6_is_not_told_to_listen_on_it()
    {
        var site = new FrontEndSite(ServerAddress.Parse("fastcgi://[::1]:9000"), "app9000", "a.example", "/", ListenOnIPv6: false);

        string block = new Nginx().Configure(site);

        Assert.Contains("    server [::1]:9000;\n", block, StringComparison.Ordinal);
        Assert.DoesNotContain("listen [::]", block, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Hosts_are_written_as_clients_send_them()
    {
        var result = await CommandLine.RunAsync("config", "nginx", "fastcgi://127.0.0.1:9000", "--host", "Bücher.example *.example.org ::1");

        Assert.Equal((0, ""), (result.ExitCode, result.Error));
        Assert.Contains("    server_name xn--bcher-kva.example *.example.org [::1];\n", result.Output, StringComparison.Ordinal);
    }

    // There nginx knows no variables.
    [Fact]
    public void Dollar_in_the_path_of_a_socket_is_one_to_nginx()
    {
        var site = new FrontEndSite(ServerAddress.Parse("fastcgi://unix:/run/a$b.sock"), "hello", "localhost", "/", ListenOnIPv6: true);

        Assert.Contains("    server \"unix:/run/a$b.sock\";\n", new Nginx().Configure(site), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Host_and_path_are_taken_over()
    {
        var result = await CommandLine.RunAsync("config", "nginx", "fastcgi://127.0.0.1:9000", "--host", "shop.example.org", "--path", "/a.b/");

        Assert.Equal(0, result.ExitCode);
        Assert.Contains("# /etc/nginx/conf.d/app9000.conf", result.Output, StringComparison.Ordinal);
        Assert.Contains("    server_name shop.example.org;\n", result.Output, StringComparison.Ordinal);
        Assert.Contains("    location ~ \"^/a\\\\.b(/|$)\" {\n", result.Output, StringComparison.Ordinal);
        Assert.Contains("app.UsePathBase(\"/a.b\")", result.Output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("--host", "a;return 200")]
    [InlineData("--host", "a\nb")]
    [InlineData("--host", "")]
    [InlineData("--host", "shop.example fe80::1%x")]
    [InlineData("--host", "shop.example:8080")]
    [InlineData("--host", "[")]
    [InlineData("--path", "shop")]
    [InlineData("--path", "/a b")]
    [InlineData("--path", "/a\"b")]
    [InlineData("--path", "/a\n")]
    public async Task What_would_break_out_of_the_block_is_refused(string option, string value)
    {
        var result = await CommandLine.RunAsync("config", "nginx", "fastcgi://127.0.0.1:9000", option, value);

        Assert.Equal(2, result.ExitCode);
        Assert.Empty(result.Output);
    }

    [Fact]
    public void HTTP_address_gives_a_proxy_block_that_keeps_connections_and_lets_WebSockets_through()
    {
        var site = new FrontEndSite(ServerAddress.Parse("http://127.0.0.1:5000"), "my-app", "www.example.org", "/", ListenOnIPv6: false);

        Assert.Equal("""
            # /etc/nginx/conf.d/my-app.conf, then: nginx -t && nginx -s reload
            upstream my-app {
                server 127.0.0.1:5000;
                keepalive 64;                   # idle connections kept per worker
            }

            map $http_upgrade $upgrade_my_app {
                default upgrade;
                ''      '';
            }

            # the host in the target counts, and only without one the header Host
            map $request $host_my_app {
                default                        $http_host;
                "~^[^ ]+ +[^/ ]+://([^/?# ]+)" $1;
            }

            server {
                listen 80;
                server_name www.example.org;
                client_max_body_size 30000000;  # ASP.NET Core's own default

                location / {
                    proxy_pass http://my-app;
                    proxy_http_version 1.1;
                    proxy_buffer_size 16k;      # holds the response headers
                    proxy_buffers 8 16k;

                    proxy_set_header Host              $host_my_app;
                    proxy_set_header X-Forwarded-For   $remote_addr;     # not what the client says
                    proxy_set_header X-Forwarded-Proto $scheme;
                    proxy_set_header Upgrade           $http_upgrade;   # WebSockets
                    proxy_set_header Connection        $upgrade_my_app;
                }
            }

            """, new Nginx().Configure(site));
    }
}
