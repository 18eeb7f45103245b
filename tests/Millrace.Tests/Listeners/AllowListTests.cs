// Who may connect: single addresses, ranges, both ways of writing an IPv4 address, and lists that are refused.

using System.Net;
using Millrace.Listeners;

namespace Millrace.Tests.Listeners;

public sealed class AllowListTests
{
    [Theory]
    [InlineData("10.0.0.5", "10.0.0.5", true)]
    [InlineData("10.0.0.5", "10.0.0.4", false)]
    [InlineData("10.0.0.5", "::ffff:10.0.0.5", true)]
    [InlineData("::ffff:10.0.0.5", "10.0.0.5", true)]
    [InlineData("10.0.0.5", "::10.0.0.5", false)]
    [InlineData("10.1.0.0/16", "10.1.255.255", true)]
    [InlineData("10.1.0.0/16", "::ffff:10.1.0.1", true)]
    [InlineData("10.1.0.0/16", "10.2.0.0", false)]
    [InlineData("10.1.0.0/16", "10.0.255.255", false)]
    [InlineData("10.0.0.4/31", "10.0.0.5", true)]
    [InlineData("10.0.0.4/31", "10.0.0.6", false)]
    [InlineData("10.0.0.4/32", "10.0.0.4", true)]
    [InlineData("::ffff:10.1.0.0/112", "10.1.2.3", true)]
    [InlineData("0.0.0.0/0", "255.255.255.255", true)]
    [InlineData("0.0.0.0/0", "fd00::1", false)]
    [InlineData("::/0", "fd00::1", true)]
    [InlineData("::/0", "10.0.0.5", true)]
    [InlineData("fd00::/8", "fdff::1", true)]
    [InlineData("fd00::/8", "fe00::1", false)]
    [InlineData("::1", "::1", true)]
    [InlineData("::1", "127.0.0.1", false)]
    [InlineData("10.0.0.5 , 10.0.0.6", "10.0.0.6", true)]
    [InlineData("10.0.0.5,fd00::/8,192.168.0.0/24", "192.168.0.77", true)]
    public void Peer_is_compared_with_every_entry(string list, string peer, bool isAllowed)
    {
        AllowList allow = AllowList.Parse(list);
        var address = IPAddress.Parse(peer);
        Assert.Equal(isAllowed, allow.Contains(address));
        Assert.Equal(isAllowed, allow.Contains(SocketName.Write(address, 40_000)));
        Assert.Equal(isAllowed, AllowList.Parse(allow.ToString()).Contains(address));
    }

    [Theory]
    [InlineData("")]
    [InlineData(" ")]
    [InlineData(",")]
    [InlineData("10.0.0.5,")]
    [InlineData("10.0.0.5;10.0.0.6")]
    [InlineData("10.0.0")]
    [InlineData("10.0.0.256")]
    [InlineData("010.0.0.5")]
    [InlineData("167772165")]
    [InlineData("0x0a000005")]
    [InlineData("web1.example")]
    [InlineData("localhost")]
    [InlineData("*")]
    [InlineData("10.0.0.0/33")]
    [InlineData("10.0.0.0/-1")]
    [InlineData("10.0.0.0/")]
    [InlineData("10.0.0.0/8/8")]
    [InlineData("10.0.0.0/255.0.0.0")]
    [InlineData("10.0.0.5/8")]
    [InlineData("fd00::1/8")]
    [InlineData("fd00::/129")]
    [InlineData("[::1]")]
    [InlineData("[::1]:80")]
    [InlineData("fe80::1%eth0")]
    public void Bad_list_is_refused(string list)
    {
        FormatException refusal = Assert.Throws<FormatException>(() => AllowList.Parse(list));
        Assert.Contains("write", refusal.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Range_with_host_bits_says_both_ways_to_mean_it()
    {
        FormatException refusal = Assert.Throws<FormatException>(() => AllowList.Parse("10.0.0.5/8"));
        Assert.Contains("10.0.0.0/8 for the range or 10.0.0.5", refusal.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Peers_that_are_not_on_the_internet_are_not_contained()
    {
        AllowList everyone = AllowList.Parse("0.0.0.0/0,::/0");
        Assert.False(everyone.Contains(SocketName.Write("/run/app.sock")));
        Assert.False(everyone.Contains(ReadOnlySpan<byte>.Empty));
        Assert.False(everyone.Contains(SocketName.Write(IPAddress.IPv6Loopback, 1).AsSpan(0, 20)));
        Assert.True(everyone.Contains(SocketName.Write(IPAddress.IPv6Loopback, 1)));
    }

    [Fact]
    public void Asking_allocates_nothing()
    {
        AllowList allow = AllowList.Parse("10.0.0.5,10.1.0.0/16,fd00::/8");
        byte[] peer = SocketName.Write(IPAddress.Parse("fd00::1"), 40_000);
        bool isAllowed = allow.Contains(peer);
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int i = 0; i < 1000; i++)
        {
            isAllowed &= allow.Contains(peer);
        }

        Assert.Equal(0, GC.GetAllocatedBytesForCurrentThread() - before);
        Assert.True(isAllowed);
    }
}
