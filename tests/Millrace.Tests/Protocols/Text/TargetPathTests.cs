// Targets and their paths: split, decoded, built; the decoding compared with Kestrel's on random paths.
using System.Text;
using Millrace.Protocols.Cgi;
using Millrace.Protocols.Text;

namespace Millrace.Tests.Protocols.Text;

public sealed class TargetPathTests
{
    [Theory]
    [InlineData("/env/x", "/env/x")]
    [InlineData("/env/a%20b", "/env/a b")]
    [InlineData("/env/a%2Fb", "/env/a%2Fb")]
    [InlineData("/env/a%2fb", "/env/a%2fb")]
    [InlineData("/env/%C3%A9%E2%82%AC", "/env/\u00e9\u20ac")]
    [InlineData("/env/%F0%9F%98%80", "/env/\U0001f600")]
    [InlineData("/env//a//b", "/env//a//b")]
    [InlineData("/env/./a/.", "/env/a/")]
    [InlineData("/env/a/../b", "/env/b")]
    [InlineData("/env/a/%2e%2E/b", "/env/b")]
    [InlineData("/env/a+b", "/env/a+b")]
    [InlineData("/env/%252F%2541", "/env/%2F%41")]
    [InlineData("/env/100%", "/env/100%")]
    [InlineData("/env/%4", "/env/%4")]
    [InlineData("/env/%zz%4", "/env/%zz%4")]
    [InlineData("/env/%C0%AFx", "/env/%C0%AFx")]
    [InlineData("/env/%C3x", "/env/%C3x")]
    [InlineData("/env/%C3%41", "/env/%C3A")]
    [InlineData("/env/%FFx", "/env/%FFx")]
    [InlineData("/env/%ED%A0%80x", "/env/%ED%A0%80x")]
    [InlineData("/env/%F4%90%80%80", "/env/%F4%90%80%80")]
    [InlineData("/env/%E2%82", "/env/%E2%82")]
    [InlineData("/../../env/../../x", "/x")]
    [InlineData("/..", "/")]
    [InlineData("/.", "/")]
    [InlineData("/a/..", "/")]
    [InlineData("/a//../b", "/a/b")]
    [InlineData("/.well-known/x", "/.well-known/x")]
    [InlineData("/...", "/...")]
    [InlineData("/", "/")]
    [InlineData("", "")]
    public void Path_is_decoded_once_and_its_dot_segments_removed_RFC3986_5_2_4(string raw, string expected) => Assert.Equal(expected, Decode(raw));

    [Theory]
    [InlineData("/%00")]
    [InlineData("/a%00b")]
    [InlineData("/%C3%00")]
    [InlineData("/%41/../%00")]
    public void Path_with_an_encoded_NUL_is_refused(string raw) => Assert.Null(Decode(raw));

    [Fact]
    public void Random_paths_are_decoded_as_in_Kestrel()
    {
        string[] pieces = ["/", "/", ".", "..", "/.", "/..", "a", "B", "%", "%2", "%2F", "%2f", "%2e", "%2E", "%41", "%25", "%C3", "%A9", "%E2", "%82", "%AC", "%F0", "%9F", "%98", "%80", "%ED", "%A0",
            "%C0", "%AF", "%FF", "%F4", "%90", "%F5", "%zz", "%G0", "%0G", "+", ";", "~", "%20", "%7F"];
        var random = new Random(11);
        foreach (int round in Enumerable.Range(0, 200_000))
        {
            string raw = "/" + string.Concat(Enumerable.Range(0, random.Next(0, 10)).Select(_ => pieces[random.Next(pieces.Length)])) + (round % 50 == 0 ? "%00" : "");
            byte[]? expected = KestrelOracle.DecodePath(raw);
            var scratch = new byte[raw.Length];
            bool isTaken = TargetPath.TryDecode(Encoding.ASCII.GetBytes(raw), scratch, out int length);
            Assert.True(isTaken == (expected is not null) && (!isTaken || scratch.AsSpan(0, length).SequenceEqual(expected)), raw);
        }
    }

    [Theory]
    [InlineData("/a/b", false)]
    [InlineData("/a.b", false)]
    [InlineData("/a//b", false)]
    [InlineData("/a%20", true)]
    [InlineData("/./a", true)]
    [InlineData("/a/..", true)]
    [InlineData("", false)]
    public void Path_without_escapes_and_dots_needs_no_decoding(string raw, bool expected) => Assert.Equal(expected, TargetPath.NeedsDecoding(Encoding.ASCII.GetBytes(raw)));

    [Theory]
    [InlineData("/env", "/env", null)]
    [InlineData("/env?", "/env", "?")]
    [InlineData("/env?a=1?b=2", "/env", "?a=1?b=2")]
    [InlineData("/env?p=/../x//y", "/env", "?p=/../x//y")]
    [InlineData("http://h/x%20y?q", "/x%20y", "?q")]
    [InlineData("HTTPS://h:443/", "/", null)]
    [InlineData("http://h", "", null)]
    [InlineData("http://h?q=/a", "", "?q=/a")]
    [InlineData("*", "", null)]
    [InlineData("h:443", "", null)]
    [InlineData("", "", null)]
    public void Target_is_split_into_path_and_query_RFC9112_3_2(string target, string path, string? query)
    {
        byte[] bytes = Encoding.ASCII.GetBytes(target);
        TargetPath.Split(bytes, out Slice pathSlice, out Slice querySlice);
        Assert.True(pathSlice.IsPresent);
        Assert.Equal(path, Encoding.ASCII.GetString(pathSlice.In(bytes)));
        Assert.Equal(query, querySlice.IsPresent ? Encoding.ASCII.GetString(querySlice.In(bytes)) : null);
    }

    [Theory]
    [InlineData("/env", "/a b\u00e9", "q=1", "/env/a%20b%C3%A9?q=1")]
    [InlineData("", "/env/100%?x#y", "", "/env/100%25%3Fx%23y")]
    [InlineData("/a;v=1,2/~!$&'()*+:@", "", "", "/a;v=1,2/~!$&'()*+:@")]
    [InlineData("/s", "", "a=%20b&c='\" \u00e9", "/s?a=%20b&c='%22%20%C3%A9")]
    [InlineData("*", "", "", "*")]
    [InlineData("/s", "", "a#b", "/s?a%23b")]
    public void Target_is_built_from_script_name_path_info_and_query_RFC3875_4_1(string scriptName, string pathInfo, string query, string expected)
    {
        byte[] script = Encoding.UTF8.GetBytes(scriptName);
        byte[] info = Encoding.UTF8.GetBytes(pathInfo);
        byte[] queryBytes = Encoding.UTF8.GetBytes(query);
        var target = new byte[TargetPath.RebuildSizeMax(script.Length, info.Length, queryBytes.Length)];
        int length = TargetPath.Rebuild(script, info, queryBytes, target);
        Assert.Equal(expected.Replace("%22", "\"", StringComparison.Ordinal), Encoding.ASCII.GetString(target, 0, length));
    }

    [Fact]
    public void Built_target_is_valid_and_decodes_to_what_it_was_built_from()
    {
        var random = new Random(3);
        foreach (int _ in Enumerable.Range(0, 20_000))
        {
            byte[] path = [(byte)'/', .. Encoding.UTF8.GetBytes(string.Concat(Enumerable.Range(0, random.Next(12)).Select(_ => "a/%?#+ \u00e9\u20ac\\\"\x01\x7f"[random.Next(13)])))];
            var target = new byte[TargetPath.RebuildSizeMax(path.Length, 0, 0)];
            int length = TargetPath.Rebuild(path, [], [], target);
            Assert.True(RequestTarget.IsValid(target.AsSpan(0, length), "GET"u8));
            var decoded = new byte[length];
            Assert.True(TargetPath.TryDecode(target.AsSpan(0, length), decoded, out int decodedLength));
            Assert.Equal(path, decoded[..decodedLength]);
        }
    }

    [Theory]
    [InlineData("/", "GET", true)]
    [InlineData("/a?b", "GET", true)]
    [InlineData("/a#b", "GET", false)]
    [InlineData("/a?b#c", "GET", false)]
    [InlineData("http://h#/", "GET", false)]
    [InlineData("/a\\b", "GET", false)]
    [InlineData("http://h/a\\b", "GET", false)]
    [InlineData("/a?b\\c", "GET", true)]
    [InlineData("", "GET", false)]
    [InlineData("a", "GET", false)]
    [InlineData("*", "OPTIONS", true)]
    [InlineData("*", "options", false)]
    [InlineData("*x", "OPTIONS", false)]
    [InlineData("http://h", "GET", true)]
    [InlineData("https://[::1]:5/x", "GET", true)]
    [InlineData("http://", "GET", false)]
    [InlineData("http:///x", "GET", false)]
    [InlineData("http://u:p@h/", "GET", false)]
    [InlineData("http:/h/", "GET", false)]
    [InlineData("h:443", "CONNECT", true)]
    [InlineData("[::1]:443", "CONNECT", true)]
    [InlineData("h", "CONNECT", false)]
    [InlineData("[::1]", "CONNECT", false)]
    [InlineData("/", "CONNECT", false)]
    [InlineData("http://h:1", "CONNECT", false)]
    [InlineData("h:443", "GET", false)]
    public void Target_has_the_form_its_method_allows_RFC9112_3_2(string target, string method, bool expected) =>
        Assert.Equal(expected, RequestTarget.IsValid(Encoding.ASCII.GetBytes(target), Encoding.ASCII.GetBytes(method)));

    private static string? Decode(string raw)
    {
        var scratch = new byte[raw.Length];
        return TargetPath.TryDecode(Encoding.ASCII.GetBytes(raw), scratch, out int length) ? Encoding.UTF8.GetString(scratch, 0, length) : null;
    }
}
