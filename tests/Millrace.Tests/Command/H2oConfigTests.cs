// `millrace config h2o`: the whole output, because people paste it.

using Millrace.Command;
using Millrace.Command.FrontEnds;

namespace Millrace.Tests.Command;

public sealed class H2oConfigTests
{
    private static FrontEndSite Site(string address, string hosts = "localhost 127.0.0.1", string path = "/") =>
        new(ServerAddress.Parse(address), "hello", hosts, path, ListenOnIPv6: true);

    [Fact]
    public void FastCGI_over_a_Unix_socket_gives_this_block() => Assert.Equal("""
        # In /etc/h2o/h2o.conf, in place of the lines there with these names, then: h2o -t -c /etc/h2o/h2o.conf && systemctl reload h2o
        limit-request-body: 30000000                    # ASP.NET Core's own default
        hosts:
          "localhost":
            paths: &hello
              "/":
                fastcgi.connect: { type: unix, port: "/run/hello.sock" }
                fastcgi.timeout.io: 60000               # ms: the slowest handler
                fastcgi.timeout.keepalive: 0            # H2O 2.2 fails over kept FastCGI connections
          "127.0.0.1":
            paths: *hello

        """, new H2o().Configure(Site("fastcgi://unix:/run/hello.sock")));

    [Fact]
    public void HTTP_over_a_Unix_socket_below_a_path_gives_this_block() => Assert.Equal("""
        # In /etc/h2o/h2o.conf, in place of the lines there with these names, then: h2o -t -c /etc/h2o/h2o.conf && systemctl reload h2o
        limit-request-body: 30000000                    # ASP.NET Core's own default
        hosts:
          "www.example.org":
            paths: &hello
              # the application sees the whole path: app.UsePathBase("/shop")
              "/shop":
                proxy.reverse.url: "http://[unix:/run/hello.sock]/shop"
                proxy.preserve-host: ON
                # H2O adds the address to what the client says
                proxy.header.unset: X-Forwarded-For
                proxy.timeout.io: 60000                 # ms: the slowest handler
                proxy.timeout.keepalive: 60000          # ms: an idle connection to the application
                proxy.websocket: ON

        """, new H2o().Configure(Site("http://unix:/run/hello.sock", "www.example.org", "/shop")));

    [Fact]
    public void Text_is_written_so_that_YAML_reads_it_as_it_is() => Assert.Contains(
        """fastcgi.connect: { type: unix, port: "/run/a\"b: c.sock" }""", new H2o().Configure(Site("fastcgi://unix:/run/a\"b: c.sock")), StringComparison.Ordinal);

    [Fact]
    public void TCP_address_is_host_and_port() => Assert.Contains(
        """fastcgi.connect: { host: "127.0.0.1", port: 9000 }""", new H2o().Configure(Site("fastcgi://127.0.0.1:9000")), StringComparison.Ordinal);

    // A URL's brackets end at the first one, and H2O does not start.
    [Fact]
    public void Socket_with_a_bracket_in_its_path_is_refused_over_HTTP_and_taken_over_FastCGI()
    {
        CommandFailure failure = Assert.Throws<CommandFailure>(() => new H2o().Configure(Site("http://unix:/run/a[b]c.sock")));
        Assert.Equal((ExitCode.Usage, "H2O cannot be told of '/run/a[b]c.sock': choose a path without ], or FastCGI."), (failure.ExitCode, failure.Message));
        Assert.Contains("port: \"/run/a[b]c.sock\"", new H2o().Configure(Site("fastcgi://unix:/run/a[b]c.sock")), StringComparison.Ordinal);
        Assert.Contains("[unix:/run/a[b.sock]/\"", new H2o().Configure(Site("http://unix:/run/a[b.sock")), StringComparison.Ordinal);
    }
}
