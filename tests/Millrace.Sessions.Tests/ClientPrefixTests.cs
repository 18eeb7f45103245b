// Which network a client is in.

using System.Net;

namespace Millrace.Sessions.Tests;

public sealed class ClientPrefixTests
{
    [Theory]
    [InlineData("192.0.2.1", "192.0.2.0/24")]
    [InlineData("192.0.2.255", "192.0.2.0/24")]
    [InlineData("255.255.255.255", "255.255.255.0/24")]
    [InlineData("0.0.0.1", "0.0.0.0/24")]
    [InlineData("::ffff:192.0.2.7", "192.0.2.0/24")]
    [InlineData("2001:db8:1:2::3", "2001:db8:1::/48")]
    [InlineData("ffff:ffff:ffff:ffff::", "ffff:ffff:ffff::/48")]
    [InlineData("::2", "::/48")]
    [InlineData("127.0.0.1", "")]
    [InlineData("127.8.9.1", "")]
    [InlineData("::1", "")]
    [InlineData("::ffff:127.0.0.1", "")]
    public void An_address_is_in_its_24_or_48_and_this_machine_in_none(string address, string prefix)
    {
        ClientPrefix client = ClientPrefix.Of(IPAddress.Parse(address));
        Assert.Equal(prefix, client.ToString());
        Assert.Equal(prefix.Length == 0, client.IsNone);
    }

    [Fact]
    public void Nothing_known_is_none() => Assert.True(ClientPrefix.Of(null).IsNone);
}
