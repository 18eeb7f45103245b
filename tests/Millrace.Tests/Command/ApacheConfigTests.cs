// `millrace config apache`: the whole output, because people paste it.

using Millrace.Command;
using Millrace.Command.FrontEnds;

namespace Millrace.Tests.Command;

public sealed class ApacheConfigTests
{
    private static FrontEndSite Site(string address, string hosts = "localhost 127.0.0.1", string path = "/") =>
        new(ServerAddress.Parse(address), "hello", hosts, path, ListenOnIPv6: true);

    [Fact]
    public void FastCGI_over_a_Unix_socket_gives_this_block() => Assert.Equal("""
        # /etc/apache2/sites-available/hello.conf, then: a2enmod proxy_fcgi && a2ensite hello && apachectl configtest && apachectl graceful
        <VirtualHost *:80>
            ServerName localhost
            ServerAlias 127.0.0.1
            # ASP.NET Core's own default
            LimitRequestBody 30000000
            # without it /a%2Fb is answered 404
            AllowEncodedSlashes NoDecode

            <Location "/">
                # SCRIPT_FILENAME is no URL; the Authorization header; the Content-Length of responses
                ProxyFCGIBackendType GENERIC
                CGIPassAuth On
                SetEnv ap_trust_cgilike_cl 1
                # the path that Apache's rules have looked at; not where you rewrite paths
                ProxyFCGISetEnvIf "true" MILLRACE_PATH "%{REQUEST_URI}"
            </Location>
            ProxyPass "/" "unix:/run/hello.sock|fcgi://hello/" enablereuse=on ttl=60 flushpackets=on nocanon
        </VirtualHost>

        """, new Apache().Configure(Site("fastcgi://unix:/run/hello.sock")));

    [Fact]
    public void HTTP_over_TCP_below_a_path_gives_this_block() => Assert.Equal("""
        # /etc/apache2/sites-available/hello.conf, then: a2enmod proxy_http headers && a2ensite hello && apachectl configtest && apachectl graceful
        <VirtualHost *:80>
            ServerName www.example.org
            ServerAlias *.example.net
            # ASP.NET Core's own default
            LimitRequestBody 30000000
            # without it /a%2Fb is answered 404
            AllowEncodedSlashes NoDecode

            ProxyPreserveHost On
            # Apache adds the address to what the client says
            RequestHeader unset X-Forwarded-For
            RequestHeader set X-Forwarded-Proto expr=%{REQUEST_SCHEME}
            # Apache passes on no header that the client's Connection names
            RequestHeader edit* Connection "(?i)x-forwarded-(for|proto)" !
            # the application sees the whole path: app.UsePathBase("/shop")
            ProxyPass "/shop" "http://127.0.0.1:5000/shop" ttl=60 nocanon upgrade=websocket
        </VirtualHost>

        """, new Apache().Configure(Site("http://127.0.0.1:5000", "*.example.net www.example.org", "/shop")));

    // `apache2 -t`: "Invalid ServerName "[::1]" use ServerAlias to set multiple server names." A request for [::1] is compared as ::1 (2.4.71).
    [Theory]
    [InlineData("[::1]", "    ServerName hello\n    ServerAlias ::1\n")]
    [InlineData("[::1] *.example.net www.example.org", "    ServerName www.example.org\n    ServerAlias ::1 *.example.net\n")]
    public void An_address_of_IPv6_is_an_alias(string hosts, string names) =>
        Assert.Contains(names, new Apache().Configure(Site("fastcgi://unix:/run/hello.sock", hosts)), StringComparison.Ordinal);

    [Theory]
    [InlineData("fastcgi://unix:/run/a|b.sock", "/")]
    [InlineData("fastcgi://unix:/run/a\"b.sock", "/")]
    [InlineData("fastcgi://unix:/run/a%41.sock", "/")]
    [InlineData("http://unix:/run/a?.sock", "/a b")]
    [InlineData("http://127.0.0.1:5000", "/a\"b")]
    [InlineData("fastcgi://127.0.0.1:9000", "/${x}")]
    public void Path_that_Apache_would_read_otherwise_is_refused(string address, string path)
    {
        CommandFailure failure = Assert.Throws<CommandFailure>(() => new Apache().Configure(Site(address, path: path)));
        Assert.Contains("choose a path", failure.Message, StringComparison.Ordinal);
    }
}
