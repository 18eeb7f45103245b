// `millrace config haproxy`: the whole output, because people paste it.

using Millrace.Command;
using Millrace.Command.FrontEnds;

namespace Millrace.Tests.Command;

public sealed class HaproxyConfigTests
{
    private static FrontEndSite Site(string address, string hosts = "localhost 127.0.0.1", string path = "/", bool ipv6 = true) =>
        new(ServerAddress.Parse(address), "hello", hosts, path, ipv6);

    [Fact]
    public void FastCGI_over_a_Unix_socket_gives_this_block() => Assert.Equal("""
        # At the end of /etc/haproxy/haproxy.cfg, then: haproxy -c -f /etc/haproxy/haproxy.cfg && systemctl reload haproxy
        global
            expose-experimental-directives  # normalize-uri, below

        defaults hello
            mode http
            log global
            timeout connect 5s
            timeout client 60s
            timeout server 60s              # the slowest handler
            option abortonclose             # tells the application of clients that go away
            option http-no-delay            # passes lines on as they are flushed

        frontend hello from hello
            bind :80,:::80 v6only
            # one spelling of each path; your own rules go behind these lines
            http-request deny deny_status 400 if { path -m reg %([^0-9A-Fa-f]|.[^0-9A-Fa-f]|.?$) }
            http-request deny deny_status 400 if { query -m reg %[0-9A-Fa-f]?%(3[0-9]|[46][1-6]) }
            http-request normalize-uri percent-decode-unreserved
            http-request normalize-uri path-strip-dot
            http-request normalize-uri path-strip-dotdot full
            acl hello_host req.hdr(host),host_only -i localhost 127.0.0.1
            use_backend hello if hello_host

        backend hello from hello
            use-fcgi-app hello
            http-reuse always
            server hello unix@/run/hello.sock proto fcgi

        fcgi-app hello
            docroot /                       # HAProxy asks for one; nothing is looked for there
            option keep-conn
            option get-values
            pass-header authorization
            set-param SERVER_ADDR %[dst]
            set-param AUTH_TYPE %[str()]        # HAProxy would make them of an Authorization
            set-param REMOTE_USER %[str()]      # that nobody has checked
            log-stderr global

        """, new Haproxy().Configure(Site("fastcgi://unix:/run/hello.sock")));

    [Fact]
    public void HTTP_over_TCP_below_a_path_gives_this_block() => Assert.Equal("""
        # At the end of /etc/haproxy/haproxy.cfg, then: haproxy -c -f /etc/haproxy/haproxy.cfg && systemctl reload haproxy
        global
            expose-experimental-directives  # normalize-uri, below

        defaults hello
            mode http
            log global
            timeout connect 5s
            timeout client 60s
            timeout server 60s              # the slowest handler
            option abortonclose             # tells the application of clients that go away
            option http-no-delay            # passes lines on as they are flushed

        frontend hello from hello
            bind :80
            # one spelling of each path; your own rules go behind these lines
            http-request deny deny_status 400 if { path -m reg %([^0-9A-Fa-f]|.[^0-9A-Fa-f]|.?$) }
            http-request deny deny_status 400 if { query -m reg %[0-9A-Fa-f]?%(3[0-9]|[46][1-6]) }
            http-request normalize-uri percent-decode-unreserved
            http-request normalize-uri path-strip-dot
            http-request normalize-uri path-strip-dotdot full
            acl hello_host req.hdr(host),host_only -i www.example.org
            acl hello_host req.hdr(host),host_only -m end -i .example.net
            # the application sees the whole path: app.UsePathBase("/shop")
            acl hello_path path /shop
            acl hello_path path_beg /shop/
            use_backend hello if hello_host hello_path

        backend hello from hello
            option forwardfor
            http-request set-header X-Forwarded-Proto https if { ssl_fc }
            http-request set-header X-Forwarded-Proto http if !{ ssl_fc }
            http-reuse always
            server hello [::1]:5000

        """, new Haproxy().Configure(Site("http://[::1]:5000", "www.example.org *.example.net", "/shop", ipv6: false)));

    // HAProxy compares the path as the client has escaped it.
    [Fact]
    public void A_path_of_other_letters_than_those_of_ASCII_is_compared_decoded()
    {
        string block = new Haproxy().Configure(Site("http://127.0.0.1:5000", path: "/größe"));
        Assert.Contains("    acl hello_path path,url_dec '/größe'\n    acl hello_path path,url_dec -m beg '/größe/'\n", block, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("/a$b", "'/a$b'")]
    [InlineData("/it's", @"'/it'\''s'")]
    public void Words_that_mean_something_to_HAProxy_are_quoted(string path, string quoted) =>
        Assert.Contains($"acl hello_path path {quoted}\n", new Haproxy().Configure(Site("http://127.0.0.1:5000", path: path)), StringComparison.Ordinal);

    // HAProxy puts in a variable of the environment, between single quotes too, and connects elsewhere.
    [Theory]
    [InlineData("fastcgi://unix:/run/a$b.sock")]
    [InlineData("http://unix:/run/a${HOME}.sock")]
    public void Socket_that_HAProxy_would_look_for_elsewhere_is_refused(string address)
    {
        CommandFailure failure = Assert.Throws<CommandFailure>(() => new Haproxy().Configure(Site(address)));
        Assert.Equal((ExitCode.Usage, $"HAProxy cannot be told of '{ServerAddress.Parse(address).SocketPath}': choose a path without $."), (failure.ExitCode, failure.Message));
    }
}
