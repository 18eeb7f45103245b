// The holes that servers in front of PHP have had, each with its test: what a visitor can upload, name, send or have a script say must not become more than it is.
using System.Text.Json;
using Millrace.Interop.Client;

namespace Millrace.Interop.Programs;

public sealed class PhpHoleTests(PhpSite site) : IClassFixture<PhpSite>
{
    [Theory]
    [InlineData("/upload/a.jpg/x.php")]         // the hole of 2010: PHP looks for a file above, and finds the picture
    [InlineData("/upload/a.jpg%00.php")]
    [InlineData("/upload/a.jpg%20.php")]
    [InlineData("/upload/b.php.jpg/x.php")]
    [InlineData("/upload/c.PHP")]
    [InlineData("/upload/d.phtml")]
    [InlineData("/upload/a.jpg%0A.php")]        // CVE-2019-11043: a line end in the path
    [InlineData("/index.php%0A/x.php")]
    [InlineData("/../private/outside.php")]
    [InlineData("/%2e%2e/private/outside.php")]
    [InlineData("/sub/..%2f..%2fprivate/outside.php")]
    [InlineData("//index.php")]                 // slashes in a row are not what rules about a narrower path look at
    [InlineData("//sub/index.php")]
    [InlineData("/sub//index.php")]
    [InlineData("///sub///index.php/x")]
    [InlineData("/link.php")]                   // a link that leads out of the root
    public async Task What_is_no_script_below_the_root_is_not_run(string target)
    {
        foreach (bool onMillrace in (bool[])[false, true])
        {
            await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm, onMillrace);
            WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", target);
            Assert.DoesNotContain("runs", found.Text.Replace("uploaded code runs';", "", StringComparison.Ordinal), StringComparison.Ordinal);
            Assert.True(found.Status is 400 or 404, $"{target}: {found.Status} {found.Text}");
        }
    }

    [Theory]
    [InlineData("/upload/a.jpg")]
    [InlineData("/upload/b.php.jpg")]
    public async Task A_picture_with_code_in_it_is_a_picture(string target)
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm);
        WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", target);
        Assert.Equal((200, "<?php echo 'uploaded code runs';", "image/jpeg"), (found.Status, found.Text, found.Header("Content-Type")));
    }

    [Fact]
    public async Task A_link_within_the_root_is_followed_and_one_out_of_it_where_that_is_wanted()
    {
        await using (PhpApp app = await site.StartAppAsync(PhpKind.Fpm))
        {
            Assert.Equal("sub /inside.php", (await PhpSite.AskAsync(app.EndPoint, "GET", "/inside.php")).Text);
        }
        await using PhpApp open = await site.StartAppAsync(PhpKind.Fpm, configure: static options => options.FollowLinks = true);
        Assert.Equal("outside runs", (await PhpSite.AskAsync(open.EndPoint, "GET", "/link.php")).Text);
    }

    [Theory]
    [InlineData("/.env")]
    [InlineData("/.git/config.txt")]
    [InlineData("/sub/../.env")]
    public async Task Hidden_files_are_not_sent(string target)
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm, configure: static options => options.Fallback = null);
        WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", target);
        Assert.Equal((404, ""), (found.Status, found.Text));
    }

    [Fact]
    public async Task Proxy_never_becomes_HTTP_PROXY_CVE_2016_5385()
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm);
        Assert.DoesNotContain("HTTP_PROXY", (await VariablesAsync(app, "Proxy: http://evil.example", "pRoXy: http://evil.example")).Keys);
    }

    [Fact]
    public async Task A_field_cannot_pass_for_another_by_its_underscores()
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm);
        Dictionary<string, string> found = await VariablesAsync(app, "X_User: admin", "X-User_: admin", "X-Other: fine");
        Assert.DoesNotContain("HTTP_X_USER", found.Keys);
        Assert.DoesNotContain("HTTP_X_USER_", found.Keys);
        Assert.Equal("fine", found["HTTP_X_OTHER"]);
    }

    [Fact]
    public async Task No_field_reaches_a_variable_of_the_server()
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm);
        Dictionary<string, string> found = await VariablesAsync(app, "Remote-User: admin", "Script-Filename: /etc/passwd", "Https: on", "Redirect-Status: 500");
        Assert.DoesNotContain("REMOTE_USER", found.Keys);
        Assert.DoesNotContain("HTTPS", found.Keys);
        Assert.Equal(site.Root + "/vars.php", found["SCRIPT_FILENAME"]);
        Assert.Equal("admin", found["HTTP_REMOTE_USER"]);
    }

    [Fact]
    public async Task An_error_of_a_script_is_the_scripts_own_answer()
    {
        await using PhpApp app = await site.StartAppAsync(PhpKind.Fpm);
        WireResponse expected = await PhpSite.AskAsync(site.Nginx, "GET", "/error.php");
        WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", "/error.php");
        Assert.Equal((expected.Status, expected.Text), (found.Status, found.Text));
    }

    [Fact]
    public async Task Where_nobody_listens_the_visitor_has_502_and_nothing_more_and_the_log_says_why()
    {
        await using PhpApp app = await PhpApp.StartAsync("unix:" + site.Private + "/no.sock", onMillrace: false, "/{**path}", options => options.Root = site.Root);
        WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", "/index.php");
        Assert.Equal((502, ""), (found.Status, found.Text));
        Assert.Contains("no.sock", Assert.Single(app.Said.All), StringComparison.Ordinal);
    }

    // ---- files that a script has sent ----

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_script_may_have_files_sent_below_a_root_that_is_configured(bool onMillrace)
    {
        await using PhpApp app = await WithSendFileAsync(onMillrace);
        WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", "/accel.php?to=/protected/report.csv");
        Assert.Equal((200, "a;b\n1;2\n", "yes"), (found.Status, found.Text, found.Header("X-Kept")));
        Assert.StartsWith("text/csv", found.Header("Content-Type"), StringComparison.Ordinal);
        Assert.Empty(found.Head.HeaderValues("X-Accel-Redirect"));
        WireResponse part = await PhpSite.AskAsync(app.EndPoint, "GET", "/accel.php?to=/protected/report.csv", null, "Range: bytes=4-6");
        Assert.Equal((206, "1;2"), (part.Status, part.Text));
        found = await PhpSite.AskAsync(app.EndPoint, "GET", $"/sendfile.php?to={site.Private}/report.csv");
        Assert.Equal((200, "a;b\n1;2\n"), (found.Status, found.Text));
        Assert.Empty(found.Head.HeaderValues("X-Sendfile"));
    }

    [Theory]
    [InlineData("/accel.php?to=/elsewhere/report.csv")]
    [InlineData("/accel.php?to=/protected/../secret.csv")]
    [InlineData("/accel.php?to=/protected/%252e%252e/secret.csv")]
    [InlineData("/accel.php?to=/protected/link.csv")]
    [InlineData("/accel.php?to=/protected/")]
    [InlineData("/accel.php?to=/protected/not-there")]
    [InlineData("/sendfile.php?to=/etc/passwd")]
    [InlineData("/sendfile.php?to=/proc/self/environ")]
    [InlineData("/sendfile.php?to=report.csv")]
    public async Task And_nowhere_else(string target)
    {
        await using PhpApp app = await WithSendFileAsync(onMillrace: false);
        WireResponse found = await PhpSite.AskAsync(app.EndPoint, "GET", target);
        Assert.Equal((502, ""), (found.Status, found.Text));
        Assert.StartsWith("4 ", Assert.Single(app.Said.All), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Nor_can_a_visitor_ask_for_them()
    {
        await using PhpApp app = await WithSendFileAsync(onMillrace: false);
        Assert.Equal("index /protected/report.csv", (await PhpSite.AskAsync(app.EndPoint, "GET", "/protected/report.csv")).Text);
        await using PhpApp without = await site.StartAppAsync(PhpKind.Fpm);
        Assert.Equal(502, (await PhpSite.AskAsync(without.EndPoint, "GET", "/accel.php?to=/protected/report.csv")).Status);
    }

    private Task<PhpApp> WithSendFileAsync(bool onMillrace) => site.StartAppAsync(PhpKind.Fpm, onMillrace, configure: options => options.SendFileRoots["/protected/"] = site.Private);

    private static async Task<Dictionary<string, string>> VariablesAsync(PhpApp app, params string[] headers)
    {
        WireResponse response = await PhpSite.AskAsync(app.EndPoint, "GET", "/vars.php", null, headers);
        return JsonSerializer.Deserialize<Dictionary<string, JsonElement>>(response.Text)!.ToDictionary(static pair => pair.Key, static pair => pair.Value.ToString());
    }
}
