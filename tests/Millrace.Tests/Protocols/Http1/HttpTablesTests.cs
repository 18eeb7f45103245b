// The tables behind the fast readers against their definitions, for every byte and every name.

using System.Text;
using Millrace.Protocols.Http1;

namespace Millrace.Tests.Protocols.Http1;

public sealed class HttpTablesTests
{
    [Fact]
    public void Byte_sets_hold_exactly_the_bytes_of_their_class_RFC9110_5_6_2()
    {
        (ByteSet Set, Func<byte, bool> IsMember)[] sets =
        [
            (HttpChars.Token, b => b < 0x80 && (char.IsAsciiLetterOrDigit((char)b) || "!#$%&'*+-.^_`|~".Contains((char)b))),
            (HttpChars.LineText, b => b == '\t' || (b >= 0x20 && b != 0x7F)),
            (HttpChars.PlainPath, b => b is > 0x20 and < 0x7F && !"#%?\\".Contains((char)b)),
            (HttpChars.Query, b => b is > 0x20 and < 0x7F && b != '#'),
            (HttpChars.HostName, b => b < 0x80 && (char.IsAsciiLetterOrDigit((char)b) || "-._~!$&'()".Contains((char)b))),
        ];
        foreach ((ByteSet set, Func<byte, bool> isMember) in sets)
        {
            byte member = (byte)Enumerable.Range(0, 256).First(b => isMember((byte)b));
            for (int b = 0; b < 256; b++)
            {
                Assert.Equal(isMember((byte)b), set.Contains((byte)b));
                foreach (int length in new[] { 1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 200 })
                {
                    byte[] bytes = new byte[length];
                    Array.Fill(bytes, member);
                    int at = b % length;
                    bytes[at] = (byte)b;
                    Assert.Equal(isMember((byte)b) ? length : at, set.IndexOfStop(ref bytes[0], 0, length));
                    Assert.Equal(isMember((byte)b) ? length : at, set.IndexOfStop(ref bytes[0], at, length));
                }
            }
        }
    }

    [Fact]
    public void Line_blocks_tell_LF_and_unprintable_bytes_apart()
    {
        byte[] block = new byte[64];
        for (int b = 0; b < 256; b++)
        {
            Array.Fill(block, (byte)'a');
            block[b % 64] = (byte)b;
            LineBlock.Look(ref block[0], out ulong lf, out ulong unprintable);
            Assert.Equal(b == '\n' ? 1UL << (b % 64) : 0, lf);
            Assert.Equal(b is < 0x20 or >= 0x7F ? 1UL << (b % 64) : 0, unprintable);
            Assert.Equal(b == ':' ? b % 64 : 64, LineBlock.IndexOf(ref block[0], (byte)':'));
        }
    }

    [Theory]
    [InlineData(404, "HTTP/1.1 404 Not Found\r\n")]
    [InlineData(413, "HTTP/1.1 413 Payload Too Large\r\n")]
    [InlineData(299, "")]
    [InlineData(99, "")]
    [InlineData(600, "")]
    public void Status_lines_stand_ready_for_every_status_with_a_reason_phrase_RFC9112_4(int status, string expected) =>
        Assert.Equal(expected, Encoding.ASCII.GetString(StatusLines.LineOf(status)));

    [Fact]
    public void Every_fault_has_a_status_line_with_a_reason_RFC9110_15() =>
        Assert.All(Enum.GetValues<Http1Fault>(), f => Assert.NotEmpty(StatusLines.ReasonOf(Http1Faults.StatusOf(f))));

    [Fact]
    public void Known_names_are_found_in_any_case_and_nothing_else_is()
    {
        Assert.Equal(Enum.GetValues<KnownHeader>().Length, KnownHeaders.Count);
        for (int i = 1; i < KnownHeaders.Count; i++)
        {
            var header = (KnownHeader)i;
            string name = KnownHeaders.NameOf(header);
            Assert.Equal(header.ToString(), name.Replace("-", "", StringComparison.Ordinal), ignoreCase: true);
            Assert.Equal(header, Find(name));
            Assert.Equal(header, Find(name.ToUpperInvariant()));
            Assert.Equal(header, Find(name.ToLowerInvariant()));
            Assert.Equal(KnownHeader.Other, Find(name + "x"));
            Assert.Equal(KnownHeader.Other, Find("x" + name));
            Assert.Equal(KnownHeader.Other, Find(name.Replace('-', '_') + "_"));
            for (int at = 0; at < name.Length; at++)
            {
                string changed = name[..at] + (name[at] == '~' ? '!' : '~') + name[(at + 1)..];
                Assert.Equal(KnownHeader.Other, Find(changed));
                Assert.NotEqual(header, Find(name[..at]));
            }
        }

        static KnownHeader Find(string name) => KnownHeaders.Find(Encoding.ASCII.GetBytes(name));
    }

    [Theory]
    [InlineData("::", true)]
    [InlineData("::1", true)]
    [InlineData("1::", true)]
    [InlineData("1:2:3:4:5:6:7:8", true)]
    [InlineData("1:2:3:4:5:6:7::", true)]
    [InlineData("::2:3:4:5:6:7:8", true)]
    [InlineData("::ffff:1.2.3.4", true)]
    [InlineData("1:2:3:4:5:6:1.2.3.4", true)]
    [InlineData("", false)]
    [InlineData(":", false)]
    [InlineData(":::", false)]
    [InlineData("1", false)]
    [InlineData("1:2:3:4:5:6:7", false)]
    [InlineData("1:2:3:4:5:6:7:8:9", false)]
    [InlineData("1:2:3:4:5:6:7:8::", false)]
    [InlineData("12345::", false)]
    [InlineData("::1.2.3", false)]
    [InlineData("::1.2.3.256", false)]
    [InlineData("::01.2.3.4", false)]
    [InlineData("1.2.3.4", false)]
    [InlineData("1:2:3:4:5:6:7:1.2.3.4", false)]
    [InlineData("g::", false)]
    public void IPv6_addresses_follow_their_grammar_RFC3986_3_2_2(string address, bool valid)
    {
        Assert.Equal(valid, HostSyntax.IsValid(Encoding.ASCII.GetBytes($"[{address}]"), PortRule.Optional));
        Assert.Equal(valid, HostSyntax.IsValid(Encoding.ASCII.GetBytes($"[{address}]:80"), PortRule.Required));
    }

    [Theory]
    [InlineData("a", true)]
    [InlineData("a:", false)]
    [InlineData("a:0", true)]
    [InlineData("a:65535", true)]
    [InlineData("a:00080", true)]
    [InlineData("a:65536", false)]
    [InlineData("a:4294967376", false)]
    [InlineData("a:8o80", false)]
    [InlineData("a:80\xb0\xb1", false)]
    [InlineData(":80", false)]
    [InlineData("a b", false)]
    public void Ports_are_numbers_up_to_65535_RFC3986_3_2_3(string host, bool valid)
    {
        Assert.Equal(valid, HostSyntax.IsValid(Encoding.Latin1.GetBytes(host), PortRule.Optional));
        Span<byte> line = stackalloc byte[128];
        line.Fill((byte)'\r');
        Encoding.Latin1.GetBytes(host, line);
        Assert.True(valid || !HostSyntax.IsPlain(ref line[0], host.Length));
    }
}
