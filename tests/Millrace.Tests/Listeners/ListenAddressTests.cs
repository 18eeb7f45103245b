// The text of addresses: what is read, what is refused, and that a refusal says what to write instead. Nothing is opened here.

using System.Net;
using Millrace.Listeners;

namespace Millrace.Tests.Listeners;

public sealed class ListenAddressTests
{
    [Theory]
    [InlineData("fastcgi://127.0.0.1:9000", "127.0.0.1", 9000)]
    [InlineData("fastcgi://[::1]:9000", "::1", 9000)]
    [InlineData("FastCGI://127.0.0.1:0", "127.0.0.1", 0)]
    [InlineData("http://0.0.0.0:65535", "0.0.0.0", 65535)]
    [InlineData("http://127.0.0.1", "127.0.0.1", 80)]
    [InlineData("http://127.0.0.1:5000/", "127.0.0.1", 5000)]
    [InlineData("http://[::ffff:127.0.0.1]:5000", "127.0.0.1", 5000)]
    [InlineData("  http://127.0.0.1:5000  ", "127.0.0.1", 5000)]
    public void Tcp_address_and_port_are_read(string text, string address, int port)
    {
        ListenAddress parsed = ListenAddress.Parse(text);
        Assert.Equal(EndPointKind.Tcp, parsed.Kind);
        Assert.Equal(IPAddress.Parse(address), parsed.Address);
        Assert.Equal(port, parsed.Port);
    }

    [Fact]
    public void Scheme_chooses_the_protocol()
    {
        Assert.Equal(ListenProtocol.FastCgi, ListenAddress.Parse("fastcgi://localhost:9000").Protocol);
        Assert.Equal(ListenProtocol.Http1, ListenAddress.Parse("http://localhost:5000").Protocol);
    }

    [Theory]
    [InlineData("http://*:5000")]
    [InlineData("http://+:5000")]
    public void Star_and_plus_are_every_address(string text)
    {
        ListenAddress parsed = ListenAddress.Parse(text);
        Assert.True(parsed.AnyHost);
        Assert.Null(parsed.Address);
        Assert.False(parsed.IsLocal);
    }

    [Fact]
    public void Localhost_is_both_loopback_addresses()
    {
        ListenAddress parsed = ListenAddress.Parse("http://LocalHost:5000");
        Assert.True(parsed.Localhost);
        Assert.True(parsed.IsLocal);
        Assert.Null(parsed.Address);
    }

    [Fact]
    public void Unix_socket_has_mode_660_and_no_other_owner_by_default()
    {
        ListenAddress parsed = ListenAddress.Parse("fastcgi://unix:/run/app.sock");
        Assert.Equal(EndPointKind.Unix, parsed.Kind);
        Assert.Equal("/run/app.sock", parsed.Path);
        Assert.Equal(Convert.ToInt32("660", 8), (int)parsed.Mode);
        Assert.Null(parsed.Group);
        Assert.Null(parsed.Owner);
        Assert.True(parsed.IsLocal);
    }

    [Theory]
    [InlineData("600")]
    [InlineData("0666")]
    [InlineData("000")]
    public void Mode_is_octal(string mode)
    {
        ListenAddress parsed = ListenAddress.Parse($"http://unix:/run/app.sock?mode={mode}&group=www-data&owner=33");
        Assert.Equal(Convert.ToInt32(mode, 8), (int)parsed.Mode);
        Assert.Equal("www-data", parsed.Group);
        Assert.Equal("33", parsed.Owner);
    }

    [Fact]
    public void Descriptor_is_named_by_its_number()
    {
        ListenAddress parsed = ListenAddress.Parse("fastcgi://fd:3?allow=10.0.0.5");
        Assert.Equal(EndPointKind.Inherited, parsed.Kind);
        Assert.Equal(3, parsed.InheritedDescriptor);
        Assert.True(parsed.Allow!.Contains(IPAddress.Parse("10.0.0.5")));
    }

    [Theory]
    [InlineData("127.0.0.1:9000", "no scheme")]
    [InlineData("", "no scheme")]
    [InlineData("://x", "no scheme")]
    [InlineData("https://localhost:5001", "Kestrel")]
    [InlineData("scgi://127.0.0.1:9000", "unknown scheme 'scgi'")]
    [InlineData("fastcgi://127.0.0.1", "no port")]
    [InlineData("fastcgi://:9000", "host ''")]
    [InlineData("http://127.0.0.1:", "no port")]
    [InlineData("http://127.0.0.1:65536", "65535")]
    [InlineData("http://127.0.0.1:-1", "65535")]
    [InlineData("http://127.0.0.1:+80", "65535")]
    [InlineData("http://127.0.0.1: 80", "65535")]
    [InlineData("http://::1:5000", "[::1]")]
    [InlineData("http://[::1:5000", "[::1]")]
    [InlineData("http://[::1]5000", "[::1]")]
    [InlineData("http://[127.0.0.1]:5000", "host '[127.0.0.1]'")]
    [InlineData("http://127.1:5000", "host '127.1'")]
    [InlineData("http://0x7f.0.0.1:5000", "host '0x7f.0.0.1'")]
    [InlineData("http://127.0.0.01:5000", "host '127.0.0.01'")]
    [InlineData("http://example.com:5000", "* for every address")]
    [InlineData("http://localhost:5000/app", "UsePathBase")]
    [InlineData("fastcgi://unix:run/app.sock", "absolute path")]
    [InlineData("fastcgi://unix:", "absolute path")]
    [InlineData("fastcgi://unix:@abstract", "every process of this machine may connect")]
    [InlineData("http://unix:@abstract", "name a file")]
    [InlineData("fastcgi://0.0.0.0:9000?allow=local", "allow-list")]
    [InlineData("fastcgi://unix:/run/a?allow=local", "for TCP")]
    [InlineData("fastcgi://fd:3?allow=Local", "allow-list")]
    [InlineData("fastcgi://unix:/run/", "names a directory")]
    [InlineData("fastcgi://unix:/run/a\0b", "NUL")]
    [InlineData("fastcgi://unix:/run/a?mode=66", "octal")]
    [InlineData("fastcgi://unix:/run/a?mode=668", "octal")]
    [InlineData("fastcgi://unix:/run/a?mode=1660", "octal")]
    [InlineData("fastcgi://unix:/run/a?mode=", "octal")]
    [InlineData("fastcgi://unix:/run/a?group=", "group=www-data")]
    [InlineData("fastcgi://unix:/run/a?owner", "owner=www-data")]
    [InlineData("fastcgi://unix:/run/a?groups=x", "mode, group, owner and gate")]
    [InlineData("fastcgi://unix:/run/a?Mode=660", "mode, group, owner and gate")]
    [InlineData("fastcgi://unix:/run/a?allow=10.0.0.5", "for TCP")]
    [InlineData("fastcgi://unix:/run/a?mode=660&mode=660", "twice")]
    [InlineData("http://localhost:5000?mode=660", "Unix sockets")]
    [InlineData("http://localhost:5000?backlog=5", "known ones are allow and gate")]
    [InlineData("http://localhost:5000?gate=on", "gate=off")]
    [InlineData("fastcgi://unix:/run/a?gate", "gate=off")]
    [InlineData("fastcgi://fd:", "fd:3")]
    [InlineData("fastcgi://fd:x", "fd:3")]
    [InlineData("fastcgi://fd:-1", "fd:3")]
    [InlineData("fastcgi://fd:3?mode=660", "allow=")]
    [InlineData("http://localhost:5000?allow=", "empty entry")]
    [InlineData("http://localhost:5000?allow=web1", "allow-list")]
    public void What_cannot_be_read_is_refused_with_a_cure(string text, string cure)
    {
        FormatException refusal = Assert.Throws<FormatException>(() => ListenAddress.Parse(text));
        Assert.Contains(cure, refusal.Message, StringComparison.Ordinal);
        Assert.EndsWith(".", refusal.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Path_of_107_bytes_is_the_longest()
    {
        string longest = "/" + new string('a', 104) + "\u00e9";
        Assert.Equal(longest, ListenAddress.Parse("http://unix:" + longest).Path);
        FormatException refusal = Assert.Throws<FormatException>(() => ListenAddress.Parse($"http://unix:{longest}a"));
        Assert.Contains("108 bytes", refusal.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("fastcgi://0.0.0.0:9000")]
    [InlineData("fastcgi://[::]:9000")]
    [InlineData("fastcgi://*:9000")]
    [InlineData("fastcgi://+:9000")]
    [InlineData("fastcgi://10.1.2.3:9000")]
    [InlineData("fastcgi://[::ffff:10.1.2.3]:9000")]
    public void FastCgi_that_others_can_reach_needs_an_allow_list(string text)
    {
        FormatException refusal = Assert.Throws<FormatException>(() => ListenAddress.Parse(text));
        Assert.Contains("?allow=", refusal.Message, StringComparison.Ordinal);

        ListenAddress parsed = ListenAddress.Parse(text + "?allow=10.0.0.5,10.1.0.0%2F16");
        Assert.False(parsed.IsLocal);
        Assert.True(parsed.Allow!.Contains(IPAddress.Parse("10.1.255.255")));
    }

    [Theory]
    [InlineData("fastcgi://127.0.0.1:9000")]
    [InlineData("fastcgi://127.9.9.9:9000")]
    [InlineData("fastcgi://[::1]:9000")]
    [InlineData("fastcgi://localhost:9000")]
    [InlineData("http://0.0.0.0:5000")]
    [InlineData("http://*:5000")]
    public void Loopback_and_http_need_none(string text) => Assert.Null(ListenAddress.Parse(text).Allow);

    [Theory]
    [InlineData("FASTCGI://127.0.0.1:9000/", "fastcgi://127.0.0.1:9000")]
    [InlineData("fastcgi://[0:0::1]:9000", "fastcgi://[::1]:9000")]
    [InlineData("http://localhost", "http://localhost:80")]
    [InlineData("http://+:5000", "http://*:5000")]
    [InlineData("fastcgi://unix:/run/a.sock?group=www-data&mode=0660", "fastcgi://unix:/run/a.sock?group=www-data")]
    [InlineData("http://unix:/run/a.sock?group=g&owner=o&mode=007", "http://unix:/run/a.sock?mode=007&owner=o&group=g")]
    [InlineData("fastcgi://fd:3", "fastcgi://fd:3")]
    [InlineData("fastcgi://fd:3?allow=local", "fastcgi://fd:3?allow=local")]
    [InlineData("fastcgi://*:9000?allow=10.0.0.5, ::FFFF:10.0.0.6,fd00::/8", "fastcgi://*:9000?allow=10.0.0.5,10.0.0.6,fd00::/8")]
    [InlineData("fastcgi://fd:3?gate=off&allow=local", "fastcgi://fd:3?allow=local&gate=off")]
    [InlineData("http://unix:/run/a.sock?gate=off&mode=600", "http://unix:/run/a.sock?mode=600&gate=off")]
    [InlineData("http://unix:/run/a.sock?group=a%26b%25c", "http://unix:/run/a.sock?group=a%26b%25c")]
    public void Canonical_text_reads_back_as_itself(string text, string canonical)
    {
        string written = ListenAddress.Parse(text).ToString();
        Assert.Equal(canonical, written);
        Assert.Equal(canonical, ListenAddress.Parse(written).ToString());
    }

    [Fact]
    public void Url_leaves_the_options_out() =>
        Assert.Equal("fastcgi://unix:/run/a.sock", ListenAddress.Parse("fastcgi://unix:/run/a.sock?mode=600&group=g").Url);

    [Fact]
    public void List_is_split_at_semicolons()
    {
        IReadOnlyList<ListenAddress> list = ListenAddress.ParseList(" fastcgi://unix:/run/a.sock?mode=660 ;http://127.0.0.1:5000;");
        Assert.Equal(["fastcgi://unix:/run/a.sock", "http://127.0.0.1:5000"], list.Select(address => address.ToString()));
    }

    [Theory]
    [InlineData("")]
    [InlineData(" ; ")]
    [InlineData("http://127.0.0.1:5000;nonsense")]
    public void List_without_addresses_or_with_a_bad_one_is_refused(string text) =>
        Assert.Throws<FormatException>(() => ListenAddress.ParseList(text));
}
