// `millrace config lighttpd`: the whole output, because people paste it.

using Millrace.Command;
using Millrace.Command.FrontEnds;

namespace Millrace.Tests.Command;

public sealed class LighttpdConfigTests
{
    private static FrontEndSite Site(string address, string hosts = "localhost 127.0.0.1", string path = "/") =>
        new(ServerAddress.Parse(address), "hello", hosts, path, ListenOnIPv6: true);

    [Fact]
    public void FastCGI_over_a_Unix_socket_gives_this_block() => Assert.Equal("""
        # /etc/lighttpd/conf-enabled/50-hello.conf, then: lighttpd -tt -f /etc/lighttpd/lighttpd.conf && systemctl restart lighttpd
        server.modules += ( "mod_fastcgi" )

        # The path as the client wrote it: the application decodes it once, and Millrace refuses dot segments: lighttpd's
        # rules look at the simplified path. This holds for every site of the server.
        server.http-parseopts := ( "url-normalize" => "disable" )

        $HTTP["host"] =~ "^(localhost|127\.0\.0\.1)(:[0-9]+)?$" {
            server.max-request-size = 29297             # KiB; ASP.NET Core's own default
            server.stream-response-body = 1             # pass a response on while it comes
            fastcgi.server = ( "/" => (( "socket" => "/run/hello.sock",
                "check-local" => "disable",             # no file has to exist
                "fix-root-scriptname" => "enable" )) )
        }

        """, new Lighttpd().Configure(Site("fastcgi://unix:/run/hello.sock")));

    [Fact]
    public void HTTP_over_TCP_below_a_path_gives_this_block() => Assert.Equal("""
        # /etc/lighttpd/conf-enabled/50-hello.conf, then: lighttpd -tt -f /etc/lighttpd/lighttpd.conf && systemctl restart lighttpd
        server.modules += ( "mod_setenv", "mod_proxy" )

        # The path as the client wrote it: the application decodes it once, and Millrace refuses dot segments: lighttpd's
        # rules look at the simplified path. This holds for every site of the server.
        server.http-parseopts := ( "url-normalize" => "disable" )

        # the application sees the whole path: app.UsePathBase("/a.b")
        $HTTP["host"] =~ "^(.*\.example\.net)(:[0-9]+)?$" { $HTTP["url"] =~ "^/a\.b(/|$)" {
            server.max-request-size = 29297             # KiB; ASP.NET Core's own default
            server.stream-response-body = 1             # pass a response on while it comes
            proxy.server = ( "" => (( "host" => "::1", "port" => 5000 )) )
            # lighttpd adds the address to what the client says
            setenv.set-request-header += ( "X-Forwarded-For" => "" )
            proxy.header = ( "upgrade" => "enable" )    # WebSockets
        } }

        """, new Lighttpd().Configure(Site("http://[::1]:5000", "*.example.net", "/a.b")));

    [Fact]
    public void Quote_in_the_path_of_a_socket_does_not_end_the_string() => Assert.Contains(
        """( "socket" => "/run/a\"b.sock",""", new Lighttpd().Configure(Site("fastcgi://unix:/run/a\"b.sock")), StringComparison.Ordinal);
}
