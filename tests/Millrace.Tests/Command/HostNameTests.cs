// Which texts are host names, and how clients send them.

using Millrace.Command;

namespace Millrace.Tests.Command;

public sealed class HostNameTests
{
    [Theory]
    [InlineData("Shop.Example.org", "shop.example.org")]
    [InlineData("localhost", "localhost")]
    [InlineData("a_b-c.example", "a_b-c.example")]
    [InlineData("*.Example.org", "*.example.org")]
    [InlineData("BÜCHER.example", "xn--bcher-kva.example")]
    [InlineData("10.0.0.1", "10.0.0.1")]
    [InlineData("::1", "[::1]")]
    [InlineData("[2001:DB8::1]", "[2001:db8::1]")]
    [InlineData("::ffff:10.0.0.1", "[::ffff:10.0.0.1]")]
    public void A_host_name_is_written_as_clients_send_it(string text, string sent)
    {
        Assert.True(HostName.TryWriteAsSent(text, out string written));
        Assert.Equal(sent, written);
    }

    // Each would be something else in the configuration of a web server, or no client would send it.
    [Theory]
    [InlineData("")]
    [InlineData("*")]
    [InlineData("*.")]
    [InlineData("www.*")]
    [InlineData("*.*.example.org")]
    [InlineData(".example.org")]
    [InlineData("example.org.")]
    [InlineData("example。")]
    [InlineData("a..example")]
    [InlineData("-f.example")]
    [InlineData("*.-f.example")]
    [InlineData("shop.example:80")]
    [InlineData("[::1]:80")]
    [InlineData("[::1")]
    [InlineData("[[::1]]")]
    [InlineData("*.::1")]
    [InlineData("::1/64")]
    [InlineData("fe80::1%eth0")]
    [InlineData("[fe80::1%25eth0]")]
    [InlineData("fe80::1%x; } server { listen 21300; return 200 pwned; } server { #")]
    [InlineData("fe80::1%x\nb")]
    [InlineData("[fe80::1%{$HOME}]")]
    [InlineData("a b")]
    [InlineData("a;b")]
    [InlineData("ü;b")]
    [InlineData("~^a$")]
    public void What_is_no_plain_name_or_address_is_refused(string text) => Assert.False(HostName.TryWriteAsSent(text, out _));
}
