// Host values: examples from the grammar, and never more lenient than Kestrel.
using System.Text;
using Millrace.Protocols.Text;

namespace Millrace.Tests.Protocols.Text;

public sealed class HostValueTests
{
    [Theory]
    [InlineData("localhost")]
    [InlineData("example.com")]
    [InlineData("example.com.")]
    [InlineData("example.com:8080")]
    [InlineData("xn--bcher-kva.example")]
    [InlineData("a_b.example")]
    [InlineData("127.0.0.1:0")]
    [InlineData("127.0.0.1:65535")]
    [InlineData("[::1]")]
    [InlineData("[2001:db8::1]:443")]
    [InlineData("[::ffff:192.0.2.1]:80")]
    public void Host_with_or_without_port_is_taken_RFC9110_7_2(string host) => Assert.True(HostValue.IsValid(Encoding.ASCII.GetBytes(host)));

    [Theory]
    [InlineData("")]
    [InlineData(":")]
    [InlineData(":80")]
    [InlineData("a:")]
    [InlineData("a:65536")]
    [InlineData("a:99999999999999999999999")]
    [InlineData("a:-1")]
    [InlineData("a:+1")]
    [InlineData("a:80x")]
    [InlineData("a:80:90")]
    [InlineData("a b")]
    [InlineData(" a")]
    [InlineData("a/b")]
    [InlineData("u@h")]
    [InlineData("u:p@h")]
    [InlineData("a,b")]
    [InlineData("a%41")]
    [InlineData("*")]
    [InlineData("a\0b")]
    [InlineData("a\r\nb")]
    [InlineData("<script>")]
    [InlineData("a\"b")]
    [InlineData("a\\b")]
    [InlineData("::1")]
    [InlineData("[]")]
    [InlineData("[:]")]
    [InlineData("[::]")]
    [InlineData("[::1")]
    [InlineData("[::1]80")]
    [InlineData("[::1]:")]
    [InlineData("[::1]:65536")]
    [InlineData("[fe80::1%eth0]")]
    [InlineData("[example]")]
    [InlineData("\u00e9.example")]
    public void Anything_else_is_refused_RFC9112_3_2(string host) => Assert.False(HostValue.IsValid(Encoding.Latin1.GetBytes(host)));

    [Fact]
    public void Random_hosts_are_judged_as_in_Kestrel_but_for_the_range_of_the_port()
    {
        const string Alphabet = "aZ09.:-_[]%@/,*!$&'()~+;= \0\r\"<>fF";
        var random = new Random(5);
        int valid = 0;
        foreach (int _ in Enumerable.Range(0, 100_000))
        {
            string host = string.Concat(Enumerable.Range(0, random.Next(1, 9)).Select(_ => Alphabet[random.Next(random.Next(2) == 0 ? 10 : Alphabet.Length)]));
            bool expected = KestrelOracle.IsHostValid(host) && PortOf(host) <= 65535;
            Assert.True(expected == HostValue.IsValid(Encoding.ASCII.GetBytes(host)), $"'{host}': Kestrel says {expected}");
            valid += expected ? 1 : 0;
        }

        Assert.InRange(valid, 1000, 99_000);
    }

    private static long PortOf(string host) => long.TryParse(host[(Math.Max(host.LastIndexOf(':'), host.LastIndexOf(']')) + 1)..], out long port) && host.Contains(':') ? port : 0;
}
