// curl as it is used at a prompt: every way of asking and of sending, over TCP and over a Unix socket.

using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using Millrace.Browser.Site;

namespace Millrace.Browser.CommandLine;

public sealed class CurlTests(SiteServer site)
{
    private const string Script = "files/lib/signalr/signalr.min.js";

    private static readonly byte[] s_script = File.ReadAllBytes(Path.Combine(SiteServer.WebRoot, "lib/signalr/signalr.min.js"));

    [Fact]
    public async Task GET_prints_the_body_and_HEAD_the_head()
    {
        Assert.Equal("Hello, world!", (await Curl(Url("hello"))).Text);
        string head = (await Curl("--head", Url("hello"))).Text;
        Assert.StartsWith("HTTP/1.1 200 OK\r\n", head, StringComparison.Ordinal);
        Assert.Contains("Content-Type: text/plain; charset=utf-8\r\n", head, StringComparison.Ordinal);
        Assert.EndsWith("\r\n\r\n", head, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_Unix_socket_serves_as_well()
    {
        Assert.Equal("Hello, world!", (await Curl("--unix-socket", site.UnixSocket, "http://localhost/hello")).Text);
        Assert.Equal(
            Digest(Pattern.Take(700_000)),
            (await CurlWith(Pattern.Take(700_000), "--unix-socket", site.UnixSocket, "-T", "-", "http://localhost/digest")).Text);
    }

    [Fact]
    public async Task POST_sends_a_form() =>
        Assert.Equal("name=miller&grain=1", (await Curl("-d", "name=miller", "-d", "grain=1", Url("echo"))).Text);

    [Fact]
    public async Task PUT_of_standard_input_is_chunked()
    {
        byte[] body = Pattern.Take(3_000_001);
        Tool run = await CurlWith(body, "-v", "-T", "-", Url("digest"));
        Assert.Contains("> Transfer-Encoding: chunked", run.Errors, StringComparison.Ordinal);
        Assert.Equal(Digest(body), run.Text);
    }

    [Fact]
    public async Task PUT_of_a_file_waits_for_100_Continue_RFC9110_10_1_1()
    {
        using var folder = new Interop.FrontEnds.TemporaryDirectory("curl");
        string file = Path.Combine(folder.Path, "grain.bin");
        byte[] body = Pattern.Take(5_000_000);
        await File.WriteAllBytesAsync(file, body);

        // Without the interim response curl would wait for it until the time is over.
        Tool run = await Curl("-v", "--expect100-timeout", "20", "--max-time", "10", "-H", "Expect: 100-continue", "-T", file, Url("digest"));
        Assert.Contains("< HTTP/1.1 100 Continue", run.Errors, StringComparison.Ordinal);
        Assert.Equal(Digest(body), run.Text);
    }

    // curl reads while it sends.
    [Fact]
    public async Task A_body_is_echoed_while_it_is_being_sent()
    {
        byte[] body = Pattern.Take(20_000_003);
        Tool run = await CurlWith(body, "-X", "POST", "-T", "-", Url("echo"));
        Assert.True(run.Output.AsSpan().SequenceEqual(body), $"{run.Output.Length} bytes came back");
    }

    [Fact]
    public async Task A_refusal_comes_in_place_of_100_Continue_RFC9110_10_1_1()
    {
        Tool run = await CurlWith(
            Pattern.Take(2_000_000), "-H", "Expect: 100-continue", "--expect100-timeout", "20", "--max-time", "10", "-w", "%{http_code} %{size_upload}", "-T", "-",
            Url("refuse"));
        Assert.Equal("403 0", run.Text);
    }

    [Fact]
    public async Task A_refusal_reaches_a_client_that_is_still_sending()
    {
        Tool run = await CurlWith(Pattern.Take(2_000_000), "-H", "Expect:", "-w", "%{http_code}", "-T", "-", Url("refuse"));
        Assert.Equal("403", run.Text);
    }

    // Whether or not its length is announced, and however much of it is on its way: the answer can be read.
    [Theory]
    [InlineData("Transfer-Encoding: chunked")]
    [InlineData("Content-Length: 40000000")]
    public async Task A_body_over_the_limit_is_answered_413_RFC9110_15_5_14(string framing)
    {
        using var folder = new Interop.FrontEnds.TemporaryDirectory("curl");
        string file = Path.Combine(folder.Path, "grain.bin");
        await File.WriteAllBytesAsync(file, new byte[40_000_000]);
        Tool run = await Curl("-v", "-H", "Expect:", "-H", framing, "-w", "%{http_code}", "-o", Path.Combine(folder.Path, "answer"), "-T", file, Url("digest"));
        Assert.Contains("> " + framing, run.Errors, StringComparison.Ordinal);
        Assert.Equal("413", run.Text);
    }

    [Fact]
    public async Task HTTP_1_0_gets_no_chunks_and_the_end_of_the_connection_RFC9112_6_1()
    {
        Tool run = await Curl("--http1.0", "-i", "--raw", Url("drip/3"));
        string[] parts = run.Text.Split("\r\n\r\n", 2);
        Assert.DoesNotContain("Transfer-Encoding", parts[0], StringComparison.OrdinalIgnoreCase);
        Assert.Contains("Connection: close", parts[0], StringComparison.OrdinalIgnoreCase);
        Assert.Equal("line 1\nline 2\nline 3\n", parts[1]);
    }

    [Fact]
    public async Task Raw_output_is_a_chunked_body_with_its_last_chunk_RFC9112_7_1()
    {
        Tool run = await Curl("-i", "--raw", Url("drip/40"));
        string[] parts = run.Text.Split("\r\n\r\n", 2);
        Assert.Contains("Transfer-Encoding: chunked", parts[0], StringComparison.OrdinalIgnoreCase);
        Assert.Equal(string.Concat(Enumerable.Range(1, 40).Select(static i => $"line {i}\n")), Unchunk(parts[1]));
    }

    [Theory]
    [InlineData("0-0")]
    [InlineData("1000-41999")]
    [InlineData("47000-")]
    [InlineData("-500")]
    public async Task A_range_of_a_static_file_is_sent_RFC9110_14_2(string range)
    {
        using var folder = new Interop.FrontEnds.TemporaryDirectory("curl");
        string head = Path.Combine(folder.Path, "head");
        Tool run = await Curl("-r", range, "-D", head, Url(Script));
        string[] ends = range.Split('-');
        (int start, int end) = ends switch
        {
            ["", _] => (s_script.Length - Number(ends[1]), s_script.Length),
            [_, ""] => (Number(ends[0]), s_script.Length),
            _ => (Number(ends[0]), Number(ends[1]) + 1),
        };
        Assert.True(run.Output.AsSpan().SequenceEqual(s_script.AsSpan(start..end)), run.Errors);
        string text = await File.ReadAllTextAsync(head);
        Assert.StartsWith("HTTP/1.1 206 Partial Content\r\n", text, StringComparison.Ordinal);
        Assert.Contains($"Content-Range: bytes {start}-{end - 1}/{s_script.Length}\r\n", text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_download_is_continued_where_it_stopped()
    {
        using var folder = new Interop.FrontEnds.TemporaryDirectory("curl");
        string file = Path.Combine(folder.Path, "script.js");
        await File.WriteAllBytesAsync(file, s_script[..30_000]);
        await Curl("-C", "-", "-o", file, Url(Script));
        Assert.Equal(s_script, await File.ReadAllBytesAsync(file));
    }

    [Fact]
    public async Task An_unchanged_file_is_not_sent_again_RFC9110_13_1_2()
    {
        using var folder = new Interop.FrontEnds.TemporaryDirectory("curl");
        string tag = Path.Combine(folder.Path, "tag");
        string[] arguments = ["--etag-save", tag, "--etag-compare", tag, "-w", "%{http_code} %{size_download}", "-o", Path.Combine(folder.Path, "file"), Url(Script)];
        Assert.Equal($"200 {s_script.Length}", (await Curl(arguments)).Text);
        Assert.Equal("304 0", (await Curl(arguments)).Text);
    }

    [Fact]
    public async Task Several_addresses_share_one_connection_whatever_is_answered()
    {
        string[] targets = ["hello", "missing", "bytes/100000", "drip/5", Script, "hello"];
        Tool run = await Curl([.. targets.SelectMany(target => new[] { "-o", "/dev/null", Url(target) }), "-w", "%{http_code} %{num_connects}\n"]);
        Assert.Equal("200 1\n404 0\n200 0\n200 0\n200 0\n200 0\n", run.Text);
    }

    [Fact]
    public async Task HEAD_between_GETs_keeps_the_connection_in_step_RFC9110_9_3_2()
    {
        Tool run = await Curl("--head", "-w", "%{num_connects}\n", Url("hello"), "--next", "-w", "%{num_connects}\n", Url("hello"));
        Assert.EndsWith("\r\n\r\n1\nHello, world!0\n", run.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Compressed_text_is_the_same_text()
    {
        Tool run = await Curl("--compressed", "-w", "%{size_download}", Url("text/200000"));
        Assert.StartsWith(new string('x', 200_000), run.Text, StringComparison.Ordinal);
        Assert.InRange(Number(run.Text[200_000..]), 1, 10_000);
    }

    [Fact]
    public async Task A_hundred_requests_at_once_are_all_answered()
    {
        Tool run = await Curl("-Z", "--parallel-max", "50", "-o", "/dev/null", "-w", "%{http_code} %{size_download}\n", Url("bytes/[10001-10100]"));
        string[] lines = [.. run.Text.Split('\n', StringSplitOptions.RemoveEmptyEntries).Order()];
        Assert.Equal(Enumerable.Range(10_001, 100).Select(static size => $"200 {size}"), lines);
    }

    // ---- asked for what it is not ----

    [Fact]
    public async Task An_offer_of_HTTP_2_is_not_taken_up_RFC9110_7_8()
    {
        Tool run = await Curl("--http2", "-w", " %{http_version} %{num_connects}\n", Url("hello"), Url("hello"));
        Assert.Equal("Hello, world! 1.1 1\nHello, world! 1.1 0\n", run.Text);
    }

    [Fact]
    public async Task A_request_made_to_a_proxy_is_served_by_its_path_RFC9112_3_2_2() =>
        Assert.Equal("Hello, world!", (await Curl("--noproxy", "", "-x", site.Direct.ToString(), "http://example.com/hello")).Text);

    [Fact]
    public async Task A_tunnel_is_refused_RFC9110_9_3_6()
    {
        Tool run = await Tool.RunAsync("curl", "curl", [], ["-sS", "-v", "--noproxy", "", "-p", "-x", site.Direct.ToString(), "http://example.com/hello"]);
        Assert.Equal(56, run.ExitCode);
        Assert.Matches("CONNECT tunnel failed, response 4[0-9][0-9]|response 4[0-9][0-9] from proxy|Received HTTP code 4[0-9][0-9] from proxy", run.Errors);
    }

    private string Url(string target) => site.Direct + target;

    private static int Number(string text) => int.Parse(text, CultureInfo.InvariantCulture);

    private static Task<Tool> Curl(params string[] arguments) => CurlWith([], arguments);

    private static async Task<Tool> CurlWith(byte[] input, params string[] arguments)
    {
        Tool run = await Tool.RunAsync("curl", "curl", input, ["--silent", "--show-error", "--no-progress-meter", .. arguments]);
        Assert.True(run.ExitCode == 0, $"curl ended with {run.ExitCode}: {run.Errors}");
        return run;
    }

    private static string Digest(byte[] body) => $"{body.Length} {Convert.ToHexStringLower(SHA256.HashData(body))}\n";

    // chunk = chunk-size CRLF chunk-data CRLF, and a last chunk of size 0 with nothing behind it.
    private static string Unchunk(string raw)
    {
        var body = new StringBuilder();
        for (int at = 0; ;)
        {
            int line = raw.IndexOf("\r\n", at, StringComparison.Ordinal);
            int size = int.Parse(raw.AsSpan(at, line - at), NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture);
            Assert.Equal("\r\n", raw.Substring(line + 2 + size, 2));
            if (size == 0)
            {
                Assert.Equal(raw.Length, line + 4);
                return body.ToString();
            }

            body.Append(raw, line + 2, size);
            at = line + 2 + size + 2;
        }
    }
}
