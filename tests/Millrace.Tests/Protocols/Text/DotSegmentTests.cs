// Dot segments in every spelling that some server takes for one, and what only looks like it.
using System.Text;
using System.Text.RegularExpressions;
using Millrace.Protocols.Text;

namespace Millrace.Tests.Protocols.Text;

public sealed class DotSegmentTests
{
    [Theory]
    [InlineData("/.")]
    [InlineData("/..")]
    [InlineData("/./")]
    [InlineData("/../")]
    [InlineData("/a/..")]
    [InlineData("/a/./b")]
    [InlineData("/a/../b")]
    [InlineData("/admin//../users")]
    [InlineData("/../../etc/passwd")]
    [InlineData("/%2e%2e/x")]
    [InlineData("/%2E./x")]
    [InlineData("/.%2e")]
    [InlineData("/a/%2e")]
    [InlineData("/x/..%2fadmin")]
    [InlineData("/x/%2e%2e%2Fadmin")]
    [InlineData("/x%2F..%2Fadmin")]
    [InlineData("/x%2f..")]
    [InlineData("/a\\..\\b")]
    [InlineData("/a/..\\b")]
    [InlineData("/a%5C..%5cb")]
    [InlineData("/a/..%5Cb")]
    [InlineData("/%00/../x")]
    [InlineData("/%zz/../x")]
    public void Path_has_dot_segments_RFC3986_3_3(string path) => Assert.True(DotSegment.IsIn(Encoding.ASCII.GetBytes(path)));

    [Theory]
    [InlineData("")]
    [InlineData("/")]
    [InlineData("/a.b")]
    [InlineData("/a/b.")]
    [InlineData("/a/b..")]
    [InlineData("/.well-known/x")]
    [InlineData("/..a/b")]
    [InlineData("/...")]
    [InlineData("/.../x")]
    [InlineData("/a/..;/b")]
    [InlineData("/a/.;x")]
    [InlineData("/a/.%20")]
    [InlineData("/a//b")]
    [InlineData("/%252e%252e/x")]
    [InlineData("/a/.%2")]
    [InlineData("/a/%2")]
    [InlineData("/a/.%zz")]
    [InlineData("/%c0%ae%c0%ae/x")]
    [InlineData("/a%2Fb%5Cc")]
    [InlineData("/a%2F...")]
    [InlineData("/1.2.3/%2e4")]
    public void Path_has_ordinary_segments_only_RFC3986_3_3(string path) => Assert.False(DotSegment.IsIn(Encoding.ASCII.GetBytes(path)));

    [Fact]
    public void Random_paths_are_judged_as_by_a_plain_reader()
    {
        string[] pieces = ["/", "/", "/", ".", ".", "..", "a", "%2e", "%2E", "%2f", "%2F", "%5c", "\\", "%", "%2", "%25", "2e", ";", "%00", "%41"];
        var random = new Random(23);
        int found = 0;
        foreach (int _ in Enumerable.Range(0, 100_000))
        {
            string path = "/" + string.Concat(Enumerable.Range(0, random.Next(0, 9)).Select(_ => pieces[random.Next(pieces.Length)]));
            string decoded = Regex.Replace(path, "%([0-9A-Fa-f]{2})", static match => ((char)Convert.ToInt32(match.Groups[1].Value, 16)).ToString());
            bool expected = decoded.Split('/', '\\').Any(static segment => segment is "." or "..");
            Assert.True(expected == DotSegment.IsIn(Encoding.ASCII.GetBytes(path)), path);
            found += expected ? 1 : 0;
        }

        Assert.InRange(found, 20_000, 80_000);
    }

    [Fact]
    public void Path_without_dot_segments_is_the_same_with_and_without_their_removal()
    {
        string[] pieces = ["/", "/", ".", "..", "a", "%2e", "%2F", "%C3%A9", "%FF", ";"];
        var random = new Random(29);
        foreach (int _ in Enumerable.Range(0, 50_000))
        {
            byte[] path = Encoding.ASCII.GetBytes("/" + string.Concat(Enumerable.Range(0, random.Next(0, 9)).Select(_ => pieces[random.Next(pieces.Length)])));
            var scratch = new byte[path.Length];
            if (!DotSegment.IsIn(path))
            {
                Assert.True(TargetPath.TryDecode(path, scratch, out int length));
                Assert.Equal(path.Count(static b => b == '/'), scratch.AsSpan(0, length).Count((byte)'/'));
            }
        }
    }
}
