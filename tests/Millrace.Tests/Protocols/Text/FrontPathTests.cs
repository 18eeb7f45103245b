// The path a web server says it has looked at, beside the one that was sent. The pairs are what nginx 1.22 ($uri) and Apache 2.4 (%{REQUEST_URI}) said.
using System.Text;
using Millrace.Protocols.Text;

namespace Millrace.Tests.Protocols.Text;

public sealed class FrontPathTests
{
    [Theory]
    [InlineData("/", "/")]
    [InlineData("/a/", "/a/")]
    [InlineData("/a//b", "/a/b")]
    [InlineData("//a///b//", "/a/b/")]
    [InlineData("/a%2Fb", "/a/b")]
    [InlineData("/a%2F/b", "/a/b")]
    [InlineData("/a/%2fb", "/a/b")]
    [InlineData("/a%2F%2Fb", "/a/b")]
    [InlineData("/a%2Fb", "/a%2Fb")]
    [InlineData("/a%2fb", "/a%2fb")]
    [InlineData("/a//%2Fb", "/a/%2Fb")]
    [InlineData("/%61dmin", "/admin")]
    [InlineData("/a%3Fb%23c", "/a?b#c")]
    [InlineData("/a%20b%C3%A9", "/a b\u00c3\u00a9")]
    [InlineData("/a%FFb", "/a\u00ffb")]
    [InlineData("/a+b;c=1", "/a+b;c=1")]
    [InlineData("/a%0ab", "/a\nb")]
    [InlineData("/a%25b", "/a%b")]
    [InlineData("/a%252Fb", "/a%2Fb")]
    [InlineData("/a/..;/b", "/a/..;/b")]
    [InlineData("/a/../b", "/b")]
    [InlineData("/a/%2e%2e/b", "/b")]
    [InlineData("/a/./b/..", "/a/")]
    public void Decoding_and_merged_slashes_make_no_difference(string sent, string told) => Assert.True(IsSame(sent, told));

    [Theory]
    [InlineData("/public#/../admin", "/public")]
    [InlineData("/admin//../users", "/users")]
    [InlineData("/x/..%2fadmin", "/admin")]
    [InlineData("/x/%2e%2e%2fadmin", "/admin")]
    [InlineData("/a", "/b")]
    [InlineData("/a", "/a/")]
    [InlineData("/a/", "/a")]
    [InlineData("/a", "/A")]
    [InlineData("/a", "")]
    [InlineData("/a%2Fb", "/a")]
    [InlineData("/a%2F", "/a")]
    [InlineData("/a", "/a%2F")]
    [InlineData("/ab", "/a/b")]
    [InlineData("/old", "/index.html")]
    [InlineData("/a%00b", "/a")]
    [InlineData("/a%00b", "/a\0b")]
    [InlineData("/a%0zb", "/a")]
    public void Anything_else_does(string sent, string told) => Assert.False(IsSame(sent, told));

    [Fact]
    public void Long_paths_are_compared_whole()
    {
        string path = "/" + string.Concat(Enumerable.Repeat("%C3%A9/", 2_000));
        string told = "/" + string.Concat(Enumerable.Repeat("\u00c3\u00a9/", 2_000));
        Assert.True(IsSame(path, told));
        Assert.False(IsSame(path, told + "x"));
        Assert.False(IsSame(path + "x", told));
    }

    [Fact]
    public void Random_paths_are_those_of_a_server_that_decodes_removes_dot_segments_and_merges_slashes_unless_these_steps_interfere()
    {
        string[] pieces = ["/", "/", "a", "b", "%41", "%2F", "%C3%A9", "%25", ";", "+", "%2e", "."];
        var random = new Random(31);
        foreach (int _ in Enumerable.Range(0, 50_000))
        {
            string path = "/" + string.Concat(Enumerable.Range(0, random.Next(0, 10)).Select(_ => pieces[random.Next(pieces.Length)]));
            if (DotSegment.IsIn(Encoding.ASCII.GetBytes(path)))
            {
                continue;
            }

            string decoded = System.Text.RegularExpressions.Regex.Replace(path, "%([0-9A-Fa-f]{2})", static match => ((char)Convert.ToInt32(match.Groups[1].Value, 16)).ToString());
            string told = System.Text.RegularExpressions.Regex.Replace(decoded, "/+", "/");
            Assert.True(IsSame(path, told), path);
            Assert.False(IsSame(path, told + "c"), path);
            Assert.False(IsSame(path + "c", told), path);
        }
    }

    private static bool IsSame(string sent, string told) => FrontPath.IsSame(Encoding.ASCII.GetBytes(sent), Encoding.Latin1.GetBytes(told));
}
