// `millrace config caddy`: the whole output, because people paste it.

using Millrace.Command;
using Millrace.Command.FrontEnds;

namespace Millrace.Tests.Command;

public sealed class CaddyConfigTests
{
    private static FrontEndSite Site(string address, string hosts = "localhost 127.0.0.1", string path = "/") =>
        new(ServerAddress.Parse(address), "hello", hosts, path, ListenOnIPv6: true);

    [Fact]
    public void FastCGI_over_a_Unix_socket_gives_this_block() => Assert.Equal(
        "# In /etc/caddy/Caddyfile, then: caddy reload --config /etc/caddy/Caddyfile\n"
        + "# Without http:// Caddy serves HTTPS and gets the certificate by itself.\n"
        + "http://localhost, http://127.0.0.1 {\n"
        + "\t# \"x:http://host/path\" has no path that a rule of Caddy's could match, and would be passed on as http://host/path\n"
        + "\t@hello_targets expression `!{http.request.uri.path}.startsWith(\"/\") && {http.request.uri} != \"*\"`\n"
        + "\trespond @hello_targets 400\n"
        + "\t# over HTTP/2 a request may name two hosts: FastCGI would get the one that Caddy has not gone by\n"
        + "\t@hello_hosts expression `{http.request.header.Host} != \"\" && {http.request.header.Host} != {hostport}`\n"
        + "\trespond @hello_hosts 400\n"
        + "\t# FastCGI has one variable for X-User, X_User and X.User: only the first one passes\n"
        + "\trequest_header -*_*\n"
        + "\trequest_header -*.*\n"
        + "\treverse_proxy unix//run/hello.sock {\n"
        + "\t\tflush_interval 10ms     # passes lines on as they are flushed\n"
        + "\t\ttransport fastcgi {\n"
        + "\t\t\tread_timeout 60s    # the slowest handler\n"
        + "\t\t\tcapture_stderr\n"
        + "\t\t}\n"
        + "\t}\n"
        + "}\n",
        new Caddy().Configure(Site("fastcgi://unix:/run/hello.sock")));

    [Fact]
    public void HTTP_over_TCP_below_a_path_gives_this_block() => Assert.Equal(
        "# In /etc/caddy/Caddyfile, then: caddy reload --config /etc/caddy/Caddyfile\n"
        + "# Without http:// Caddy serves HTTPS and gets the certificate by itself.\n"
        + "http://www.example.org {\n"
        + "\t# the application sees the whole path: app.UsePathBase(\"/shop\")\n"
        + "\t@hello path /shop /shop/*\n"
        + "\t# \"x:http://host/path\" has no path that a rule of Caddy's could match, and would be passed on as http://host/path\n"
        + "\t@hello_targets expression `!{http.request.uri.path}.startsWith(\"/\") && {http.request.uri} != \"*\"`\n"
        + "\trespond @hello_targets 400\n"
        + "\t# Caddy may cut a long answer to a request with a body. What prevents it: from 2.7 on, the line enable_full_duplex\n"
        + "\t# in a servers block of the global options; in 2.6, the line buffer_requests in a block behind the address below\n"
        + "\t# (it then holds each body in memory). Or FastCGI.\n"
        + "\treverse_proxy @hello 127.0.0.1:5000\n"
        + "}\n",
        new Caddy().Configure(Site("http://127.0.0.1:5000", "www.example.org", "/shop")));

    [Fact]
    public void A_name_for_all_below_another_is_of_one_label_as_the_block_says() => Assert.Contains(
        "# To Caddy * is one label: a.b.example.org is http://*.*.example.org.\nhttp://*.example.org {\n",
        new Caddy().Configure(Site("http://127.0.0.1:5000", "*.example.org")),
        StringComparison.Ordinal);

    [Fact]
    public void Socket_with_a_space_in_its_path_is_quoted() =>
        Assert.Contains("reverse_proxy \"unix//run/a b.sock\"\n", new Caddy().Configure(Site("http://unix:/run/a b.sock")), StringComparison.Ordinal);

    // Caddy replaces {name}, between quotes too, with what a visitor has sent perhaps.
    [Theory]
    [InlineData("fastcgi://unix:/run/a{http.request.host}.sock")]
    [InlineData("http://unix:/run/a{$HOME}.sock")]
    [InlineData("http://unix:/run/a}.sock")]
    [InlineData("fastcgi://unix:/run/a:80.sock")]
    public void Socket_that_Caddy_would_look_for_elsewhere_is_refused(string address)
    {
        CommandFailure failure = Assert.Throws<CommandFailure>(() => new Caddy().Configure(Site(address)));
        Assert.Equal((ExitCode.Usage, $"Caddy cannot be told of '{ServerAddress.Parse(address).SocketPath}': choose a path without any of : {{ }}."), (failure.ExitCode, failure.Message));
    }

    [Fact]
    public void Path_that_Caddy_would_read_otherwise_is_refused()
    {
        CommandFailure failure = Assert.Throws<CommandFailure>(() => new Caddy().Configure(Site("http://127.0.0.1:5000", path: "/{http.request.host}")));
        Assert.Equal("Caddy cannot be told of '/{http.request.host}': choose a path without any of { }.", failure.Message);
        Assert.Contains("@hello path /a:b /a:b/*\n", new Caddy().Configure(Site("http://127.0.0.1:5000", path: "/a:b")), StringComparison.Ordinal);
    }
}
