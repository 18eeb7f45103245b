// The load generators people reach for first. What they report is read: every request answered, none failed. Not a
// measurement: see bench/.

using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using System.Text.RegularExpressions;
using Millrace.Browser.Site;

namespace Millrace.Browser.CommandLine;

public sealed class LoadToolTests(SiteServer site)
{
    [Theory]
    [InlineData("hello")]
    [InlineData("bytes/50000")]
    public async Task Wrk_reports_no_error(string target)
    {
        string report = await Run("wrk", "wrk", "-t2", "-c32", "-d1s", "--timeout", "5s", site.Direct + target);
        Assert.DoesNotContain("Socket errors", report, StringComparison.Ordinal);
        Assert.DoesNotContain("Non-2xx", report, StringComparison.Ordinal);
        Assert.InRange(Number(report, @"(\d+) requests in"), 100, int.MaxValue);
    }

    [Theory]
    [InlineData("hello", 3000)]
    [InlineData("bytes/50000", 500)]
    public async Task Apache_bench_gets_every_answer_on_connections_of_their_own(string target, int count)
    {
        string report = await Run("ab", "apache2-utils", "-q", "-n", Text(count), "-c", "16", site.Direct + target);
        AssertComplete(report, count);
        Assert.DoesNotContain("Keep-Alive requests", report, StringComparison.Ordinal);
    }

    // ab asks with HTTP/1.0 and Connection: keep-alive; only an answer that says its length lets the connection go on.
    [Theory]
    [InlineData("bytes/13", 10_000)]
    [InlineData("bytes/50000", 1000)]
    public async Task Apache_bench_keeps_its_connections_RFC9112_9_3(string target, int count)
    {
        string report = await Run("ab", "apache2-utils", "-q", "-k", "-n", Text(count), "-c", "16", site.Direct + target);
        AssertComplete(report, count);
        Assert.Equal(count, Number(report, @"Keep-Alive requests:\s+(\d+)"));
    }

    [Fact]
    public async Task Apache_bench_posts_bodies_on_kept_connections()
    {
        using var folder = new Interop.FrontEnds.TemporaryDirectory("ab");
        string file = Path.Combine(folder.Path, "body");
        await File.WriteAllBytesAsync(file, Pattern.Take(20_000));
        string report = await Run("ab", "apache2-utils", "-q", "-k", "-n", "1000", "-c", "16", "-p", file, "-T", "application/octet-stream", site.Direct + "digest");
        AssertComplete(report, 1000);
    }

    [Theory]
    [InlineData("hello", 10_000, 1)]
    [InlineData("hello", 10_000, 8)]
    [InlineData("bytes/50000", 1000, 1)]
    [InlineData("drip/5", 2000, 4)]
    public async Task H2load_gets_every_answer(string target, int count, int pipelined)
    {
        string report = await Run("h2load", "nghttp2-client", "--h1", "-n", Text(count), "-c", "16", "-m", Text(pipelined), site.Direct + target);
        Assert.Contains($"requests: {count} total, {count} started, {count} done, {count} succeeded, 0 failed, 0 errored, 0 timeout", report, StringComparison.Ordinal);
        Assert.Contains($"status codes: {count} 2xx, 0 3xx, 0 4xx, 0 5xx", report, StringComparison.Ordinal);
    }

    private static void AssertComplete(string report, int count)
    {
        Assert.Equal(count, Number(report, @"Complete requests:\s+(\d+)"));
        Assert.Equal(0, Number(report, @"Failed requests:\s+(\d+)"));
        Assert.DoesNotContain("Non-2xx", report, StringComparison.Ordinal);
        Assert.DoesNotContain("Write errors", report, StringComparison.Ordinal);
    }

    private static async Task<string> Run(string name, string package, params string[] arguments)
    {
        Tool run = await Tool.RunAsync(name, package, [], arguments);
        Assert.True(run.ExitCode == 0, $"{name} ended with {run.ExitCode}: {run.Text}{run.Errors}");
        return run.Text;
    }

    private static int Number(string report, [StringSyntax("Regex")] string pattern)
    {
        Match match = Regex.Match(report, pattern);
        Assert.True(match.Success, report);
        return int.Parse(match.Groups[1].ValueSpan, CultureInfo.InvariantCulture);
    }

    private static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);
}
