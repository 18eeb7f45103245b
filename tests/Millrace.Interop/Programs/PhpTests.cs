// PHP behind MapFastCgi, beside the same PHP behind nginx: the same requests to both, over php-fpm and php-cgi, on Kestrel and on Millrace.
using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using System.Text.Json;
using Microsoft.AspNetCore.Builder;
using Millrace.Interop.Client;

namespace Millrace.Interop.Programs;

public sealed class PhpTests(PhpSite site) : IClassFixture<PhpSite>
{
    public static TheoryData<PhpKind, bool> Kinds => new() { { PhpKind.Fpm, false }, { PhpKind.Fpm, true }, { PhpKind.Cgi, false }, { PhpKind.Cgi, true }, { PhpKind.Pool, false }, { PhpKind.Pool, true } };

    // Fields that say when or by whom a response was made, and how its body is framed.
    private static readonly string[] s_servers = ["Date", "Server", "Connection", "Transfer-Encoding", "Content-Length"];

    // nginx takes the type off a response that has no content.
    private static string[] Fields(WireResponse response) => [.. response.Head.Headers
        .Where(field => !s_servers.Contains(field.Key, StringComparer.OrdinalIgnoreCase) && !(response.Status == 204 && field.Key.Equals("Content-Type", StringComparison.OrdinalIgnoreCase)))
        .Select(static field => $"{field.Key.ToLowerInvariant()}: {field.Value}").Order(StringComparer.Ordinal)];

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task Answers_are_those_behind_nginx(PhpKind kind, bool onMillrace)
    {
        await using PhpApp app = await site.StartAppAsync(kind, onMillrace);
        (string Method, string Target)[] requests =
        [
            ("GET", "/"), ("GET", "/?x=1&y=%20"), ("GET", "/index.php"), ("GET", "/sub/"), ("GET", "/not/there?a=b"), ("GET", "/head.php"), ("HEAD", "/head.php"),
            ("GET", "/redirect.php"), ("GET", "/status.php?code=404"), ("GET", "/status.php?code=500"), ("GET", "/status.php?code=204"), ("GET", "/status.php?code=304"), ("GET", "/status.php?code=201"),
            ("GET", "/not-there.php"), ("GET", "/upload/a.jpg/x.php"), ("GET", "/vars.php/"), ("GET", "/long.php"), ("DELETE", "/index.php"), ("OPTIONS", "/index.php"), ("PUT", "/index.php"),
        ];
        foreach (var (method, target) in requests)
        {
            byte[]? body = method == "PUT" ? "put"u8.ToArray() : null;
            WireResponse expected = await PhpSite.AskAsync(site.Nginx, method, target, body);
            WireResponse found = await PhpSite.AskAsync(app.EndPoint, method, target, body);
            Assert.Equal((target, expected.Status), (target, found.Status));
            if (expected.Status == 404 && expected.Text.Contains("<center>nginx", StringComparison.Ordinal))
            {
                Assert.Empty(found.Body);       // nginx's own page
                continue;
            }
            if (target == "/vars.php/")
            {
                continue;       // times and ports: compared below
            }
            Assert.Equal(expected.Text, found.Text);
            Assert.Equal(Fields(expected), Fields(found));
        }
    }

    [Theory]
    [InlineData("/vars.php")]
    [InlineData("/vars.php?a=b&c=%2F%20d")]
    [InlineData("/vars.php/path/info%20x/y?q=1")]
    [InlineData("/vars.php/trailing/")]
    public async Task Variables_are_those_behind_nginx_field_by_field(string target)
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm);
        string[] headers = ["User-Agent: test/1.0", "Accept: text/html", "X-Some-Thing: a, b", "Cookie: a=b; c=d", "Authorization: Basic dXNlcjpwYXNz", "Content-Type: text/plain"];
        Dictionary<string, string> expected = await VariablesAsync(site.Nginx, target, headers);
        Dictionary<string, string> found = await VariablesAsync(app.EndPoint, target, headers);

        // What differs for a reason: whose port and software it is, when, and what speaks of one connection.
        string[] own = ["REMOTE_PORT", "SERVER_PORT", "SERVER_SOFTWARE", "REQUEST_TIME", "REQUEST_TIME_FLOAT", "HTTP_CONNECTION", "REMOTE_USER"];
        Assert.DoesNotContain("HTTP_CONNECTION", found.Keys);
        Assert.Equal("millrace", found["SERVER_SOFTWARE"]);

        // nginx believes a visitor who he is; here it is said of those whom the application has authenticated.
        Assert.Equal("user", expected["REMOTE_USER"]);
        Assert.DoesNotContain("REMOTE_USER", found.Keys);
        Assert.Equal(Lines(expected, own), Lines(found, own));

        // nginx gives PATH_TRANSLATED only where it is told to.
        static IEnumerable<string> Lines(Dictionary<string, string> all, string[] but) =>
            all.Where(pair => !but.Contains(pair.Key) && pair.Key != "PATH_TRANSLATED").Select(static pair => $"{pair.Key}={pair.Value}").Order(StringComparer.Ordinal);
    }

    [Fact]
    public async Task Below_a_path_scripts_see_it_in_their_name_and_not_in_their_file()
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm, pattern: "/blog/{**path}");
        Dictionary<string, string> found = await VariablesAsync(app.EndPoint, "/blog/vars.php/info?x=1");
        Assert.Equal("/blog/vars.php", found["SCRIPT_NAME"]);
        Assert.Equal("/info", found["PATH_INFO"]);
        Assert.Equal("/blog/vars.php/info?x=1", found["REQUEST_URI"]);
        Assert.Equal(site.Root + "/vars.php", found["SCRIPT_FILENAME"]);
        Assert.Equal(site.Root, found["DOCUMENT_ROOT"]);
        Assert.Equal("sub /blog/sub/index.php", (await PhpSite.AskAsync(app.EndPoint, "GET", "/blog/sub/")).Text);
        Assert.Equal("index /blog/no/such/page", (await PhpSite.AskAsync(app.EndPoint, "GET", "/blog/no/such/page")).Text);
        Assert.Equal("index /blog/", (await PhpSite.AskAsync(app.EndPoint, "GET", "/blog/")).Text);
        WireResponse moved = await PhpSite.AskAsync(app.EndPoint, "GET", "/blog/sub?x=1");
        Assert.Equal((308, "/blog/sub/?x=1"), (moved.Status, moved.Header("Location")));
        Assert.Equal(404, (await PhpSite.AskAsync(app.EndPoint, "GET", "/elsewhere")).Status);
    }

    // What is linked from the page of a folder is beside it only where its path ends with '/'.
    [Theory]
    [InlineData("/blog/{**path}", "", "/blog?x=1", 308, "/blog/?x=1")]
    [InlineData("/blog/{**path}", "", "/blog/?x=1", 200, "index /blog/?x=1")]
    [InlineData("/blog/{**path}", "/base", "/base/blog", 308, "/base/blog/")]
    [InlineData("/blog/{**path}", "/base", "/base/blog/", 200, "index /base/blog/")]
    [InlineData("/{**path}", "", "/", 200, "index /")]
    [InlineData("/{**path}", "", "http://site.example?x=1", 200, "index /?x=1")]
    [InlineData("/{**path}", "/base", "/base?x=1", 308, "/base/?x=1")]
    [InlineData("/{**path}", "/base", "/base/", 200, "index /base/")]
    public async Task The_place_of_a_mapping_is_a_folder_too(string pattern, string pathBase, string target, int status, string said)
    {
        foreach (bool onMillrace in (bool[])[false, true])
        {
            // Behind UsePathBase, where it has to be to have a part in it.
            await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm, onMillrace, pattern, before: its => its.UsePathBase(pathBase).UseRouting());
            WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", target);
            Assert.Equal((status, said), (found.Status, status == 308 ? found.Header("Location") : found.Text));
        }
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_request_that_names_no_path_is_no_folders(bool onMillrace)
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm, onMillrace);
        Assert.Equal(200, (await PhpSite.AskAsync(app.EndPoint, "OPTIONS", "*")).Status);
    }

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task Forms_and_files_arrive_as_behind_nginx(PhpKind kind, bool onMillrace)
    {
        await using PhpApp app = await site.StartAppAsync(kind, onMillrace);
        byte[] file = new byte[1_500_000];
        new Random(7).NextBytes(file);
        byte[] form = [.. "--b\r\nContent-Disposition: form-data; name=\"t\"\r\n\r\ntext\r\n--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f.bin\"\r\n\r\n"u8, .. file, .. "\r\n--b--\r\n"u8];
        string[] headers = ["Content-Type: multipart/form-data; boundary=b", "Cookie: a=b"];
        string expected = (await PhpSite.AskAsync(site.Nginx, "POST", "/form.php?q=1", form, headers)).Text;
        string found = (await PhpSite.AskAsync(app.EndPoint, "POST", "/form.php?q=1", form, headers)).Text;
        Assert.Equal(expected, found);
        Assert.Contains(Convert.ToHexStringLower(SHA256.HashData(file)), found, StringComparison.Ordinal);
    }

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task A_large_body_comes_back_as_it_was_sent(PhpKind kind, bool onMillrace)
    {
        await using PhpApp app = await site.StartAppAsync(kind, onMillrace);
        byte[] body = new byte[7_654_321];
        new Random(8).NextBytes(body);
        WireResponse found = await PhpSite.AskAsync(app.EndPoint, "POST", "/echo.php", body);
        Assert.Equal(body.Length.ToString(CultureInfo.InvariantCulture), found.Header("X-Length"));
        Assert.True(body.AsSpan().SequenceEqual(found.Body));
    }

    // Kestrel ends a response of known length with its handler, and sends what is not flushed with the next one.
    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task An_answer_whose_length_the_script_says_arrives_to_its_last_byte_on_a_connection_that_is_kept(PhpKind kind, bool onMillrace)
    {
        await using PhpApp app = await site.StartAppAsync(kind, onMillrace);
        using var client = new HttpClient { Timeout = TimeSpan.FromSeconds(20) };
        foreach (int length in (int[])[1, 8_192, 20_000, 100_000, 300_000, 1_000_000])
        {
            string found = await client.GetStringAsync(new Uri($"http://{app.EndPoint}/length.php?n={length}"));
            Assert.Equal((length, 'z'), (found.Length, found[^1]));
        }
    }

    [Theory]
    [InlineData(64 * 1024, 200)]
    [InlineData((64 * 1024) + 1, 413)]
    public async Task A_body_of_unknown_length_is_taken_in_first_up_to_its_limit(int length, int status)
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm, configure: static options => options.UnknownLengthMax = 64 * 1024);
        using var client = new HttpClient();
        using var request = new HttpRequestMessage(HttpMethod.Post, $"http://{app.EndPoint}/echo.php") { Content = new StreamContent(new MemoryStream(new byte[length])) };
        request.Headers.TransferEncodingChunked = true;
        using HttpResponseMessage response = await client.SendAsync(request);
        Assert.Equal(status, (int)response.StatusCode);
        if (status == 200)
        {
            Assert.Equal(length, (await response.Content.ReadAsByteArrayAsync()).Length);
        }
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_body_that_is_taken_in_first_arrives_whole(bool onMillrace)
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm, onMillrace, configure: static options => options.TakeBodyFirst = true);
        foreach (int length in (int[])[0, 1, 40_000, 100_000, 3_000_000])
        {
            byte[] body = new byte[length];
            new Random(length).NextBytes(body);
            WireResponse found = await PhpSite.AskAsync(app.EndPoint, "POST", "/echo.php", body);
            Assert.True(body.AsSpan().SequenceEqual(found.Body));
        }
    }

    [Fact]
    public async Task Connections_are_kept_where_that_is_wanted()
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm, configure: static options => options.KeepConnections = true);
        for (int i = 0; i < 50; i++)
        {
            Assert.Equal("index /", (await PhpSite.AskAsync(app.EndPoint, "GET", "/")).Text);
        }
        Assert.Empty(app.Said.All);
    }

    [Fact]
    public async Task What_a_script_prints_is_in_the_log_in_one_line_and_not_in_the_answer()
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm);
        Assert.Equal("warned", (await PhpSite.AskAsync(app.EndPoint, "GET", "/warn.php")).Text);
        string line = Assert.Single(app.Said.All);
        Assert.StartsWith("3 GET /warn.php: ", line, StringComparison.Ordinal);
        Assert.Contains("forged", line, StringComparison.Ordinal);
        Assert.DoesNotContain('\n', line);
    }

    [Fact]
    public async Task A_folder_without_an_index_is_the_fallbacks()
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm);
        Assert.Equal("index /empty/", (await PhpSite.AskAsync(app.EndPoint, "GET", "/empty/")).Text);
        await using PhpApp without = await site.StartAppAsync(PhpKind.Fpm, configure: static options => options.Fallback = null);
        Assert.Equal(404, (await PhpSite.AskAsync(without.EndPoint, "GET", "/empty/")).Status);
    }

    // ---- files beside the scripts ----

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Files_of_a_known_type_are_sent_with_ranges_and_are_not_run(bool onMillrace)
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm, onMillrace);
        WireResponse whole = await PhpSite.AskAsync(app.EndPoint, "GET", "/style.css");
        Assert.Equal((200, "body { color: red }", "text/css"), (whole.Status, whole.Text, whole.Header("Content-Type")));
        WireResponse part = await PhpSite.AskAsync(app.EndPoint, "GET", "/style.css", null, "Range: bytes=0-3");
        Assert.Equal((206, "body"), (part.Status, part.Text));
        Assert.Equal(304, (await PhpSite.AskAsync(app.EndPoint, "GET", "/style.css", null, "If-None-Match: " + whole.Header("ETag"))).Status);
        Assert.Equal(405, (await PhpSite.AskAsync(app.EndPoint, "POST", "/style.css", [1])).Status);
        Assert.Equal(404, (await PhpSite.AskAsync(app.EndPoint, "GET", "/readme.unknown")).Status);
    }

    [Theory]
    [InlineData("/linked.css", false)]
    [InlineData("/linked.css", true)]
    [InlineData("/linked/linked.css", false)]       // from where it really lies
    [InlineData("/linked/linked.css", true)]
    public async Task A_link_is_sent_as_the_file_that_it_leads_to(string target, bool onMillrace)
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm, onMillrace);
        WireResponse file = await PhpSite.AskAsync(app.EndPoint, "GET", "/style.css");
        WireResponse link = await PhpSite.AskAsync(app.EndPoint, "GET", target);
        Assert.Equal((200, file.Text, file.Header("ETag"), file.Header("Last-Modified")), (link.Status, link.Text, link.Header("ETag"), link.Header("Last-Modified")));
        WireResponse part = await PhpSite.AskAsync(app.EndPoint, "GET", target, null, "Range: bytes=-7");
        Assert.Equal((206, file.Text[^7..]), (part.Status, part.Text));
    }

    [Fact]
    public async Task Types_that_ASP_NET_Core_does_not_know_can_be_added_and_some_are()
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm, configure: static options => options.FileTypes[".unknown"] = "text/x-unknown");
        WireResponse paper = await PhpSite.AskAsync(app.EndPoint, "GET", "/paper.odt");
        Assert.Equal((200, "a paper", "application/vnd.oasis.opendocument.text"), (paper.Status, paper.Text, paper.Header("Content-Type")));
        WireResponse added = await PhpSite.AskAsync(app.EndPoint, "GET", "/readme.unknown");
        Assert.Equal((200, "text/x-unknown"), (added.Status, added.Header("Content-Type")));
    }

    private static async Task<Dictionary<string, string>> VariablesAsync(System.Net.IPEndPoint endPoint, string target, params string[] headers)
    {
        WireResponse response = await PhpSite.AskAsync(endPoint, "GET", target, null, headers);
        Assert.Equal(200, response.Status);
        return JsonSerializer.Deserialize<Dictionary<string, JsonElement>>(response.Text)!.ToDictionary(static pair => pair.Key, static pair => pair.Value.ToString());
    }
}
