// A real application in PHP behind MapFastCgi, used as its owner and a visitor use it: WordPress is installed, written in, commented on, and given a large file that is fetched again.

using System.IO.Compression;
using System.Net;
using System.Net.Http.Headers;
using System.Security.Cryptography;
using Microsoft.Playwright;
using Millrace.Browser.Browsers;
using Millrace.Browser.Site;
using Millrace.Interop.FrontEnds;

namespace Millrace.Browser.Php;

[Collection(BrowserCollection.Name)]
public sealed class WordPressTests(Chromium chromium, MariaDb database) : IClassFixture<MariaDb>, IDisposable
{
    private const int ContentLength = 50_000_000;
    private const string Password = "grind 7 stones slowly";
    private const float Patience = 60_000;

    private readonly TemporaryDirectory _folder = new("upload");

    public void Dispose() => _folder.Dispose();

    [Theory]
    [InlineData(PhpHost.PoolOnMillrace)]
    [InlineData(PhpHost.FpmOnKestrel)]
    public async Task WordPress_is_installed_written_in_commented_on_and_keeps_a_large_file(PhpHost host)
    {
        await using WordPressSite site = await WordPressSite.StartAsync(host, database);
        await using Window owner = await OpenAsync();
        await using Window visitor = await OpenAsync();

        await InstallAsync(owner.Page, site.Address);
        await LogInAsync(owner.Page);
        string post = await PublishAsync(owner.Page, site.Address);
        await visitor.Page.GotoAsync(new Uri(site.Address, "blog/").ToString());
        await visitor.Page.ClickAsync("text=Of mills & men");
        Assert.Equal(post, visitor.Page.Url);
        await Visible(visitor.Page, "text=The wheel turns – slowly.");

        await CommentAsync(owner.Page, post);
        await visitor.Page.ReloadAsync();
        await Visible(visitor.Page, "text=Who brings the grain?");

        byte[] file = Archive();
        Uri uploaded = await UploadAsync(owner.Page, site.Address, file);
        Assert.Equal(SHA256.HashData(file), await HashOfAsync(Assert.Single(Directory.GetFiles(site.Uploads, "*.zip", SearchOption.AllDirectories))));
        await DownloadAsync(visitor.Page, uploaded, file);
        await AskForPartsAsync(uploaded, file);

        await LogOutAsync(owner.Page, site.Address);
        owner.AssertNoTrouble();
        visitor.AssertNoTrouble();
        Assert.DoesNotContain("fail: ", site.Said, StringComparison.Ordinal);       // PHP that does not answer; WordPress itself warns of this and that
    }

    private async Task<Window> OpenAsync()
    {
        Window window = await chromium.OpenAsync();
        window.Page.SetDefaultTimeout(Patience);
        return window;
    }

    private static Task<IElementHandle?> Visible(IPage page, string selector) => page.WaitForSelectorAsync(selector);

    // ---- the owner ----

    private static async Task InstallAsync(IPage page, Uri site)
    {
        await page.GotoAsync(site.ToString());
        await page.ClickAsync("text=Its blog");
        await Visible(page, "#pass-strength-result.strong");       // its script proposes a password, a moment after the page has been loaded
        await page.FillAsync("#weblog_title", "Mühlen-Blog");
        await page.FillAsync("#user_login", "miller");
        await page.FillAsync("#pass1", Password);
        await page.FillAsync("#admin_email", "miller@mill.example");
        await page.ClickAsync("#submit");
        await page.ClickAsync("a[href*='wp-login.php']");
    }

    private static async Task LogInAsync(IPage page)
    {
        await Visible(page, "#user_login:focus");       // its script takes the focus a moment later
        await page.FillAsync("#user_login", "miller");
        await page.FillAsync("#user_pass", Password);
        await page.ClickAsync("#wp-submit");
        await Visible(page, "#wpadminbar");
    }

    private static async Task<string> PublishAsync(IPage page, Uri site)
    {
        await page.GotoAsync(new Uri(site, "blog/wp-admin/post-new.php").ToString());
        await page.FillAsync(".editor-post-title__input", "Of mills & men");
        await page.PressAsync(".editor-post-title__input", "Enter");
        await page.Keyboard.TypeAsync("The wheel turns – slowly.");
        await page.ClickAsync(".editor-post-publish-panel__toggle");
        await page.ClickAsync(".editor-post-publish-panel .editor-post-publish-button");
        return (await page.GetAttributeAsync(".post-publish-panel__postpublish-buttons a", "href"))!;
    }

    private static async Task CommentAsync(IPage page, string post)
    {
        await page.GotoAsync(post);
        await page.FillAsync("#comment", "Who brings the grain?");
        await page.ClickAsync("#submit");
        await Visible(page, "text=Who brings the grain?");
    }

    private async Task<Uri> UploadAsync(IPage page, Uri site, byte[] file)
    {
        string path = Path.Combine(_folder.Path, "grain.zip");
        await File.WriteAllBytesAsync(path, file);
        await page.GotoAsync(new Uri(site, "blog/wp-admin/media-new.php").ToString());
        await page.SetInputFilesAsync("input[type=file][id^=html5]", path);
        return new Uri((await page.GetAttributeAsync("#media-items .copy-attachment-url", "data-clipboard-text"))!);
    }

    private static async Task LogOutAsync(IPage page, Uri site)
    {
        await page.GotoAsync((await page.GetAttributeAsync("#wp-admin-bar-logout a", "href"))!);
        await page.GotoAsync(new Uri(site, "blog/wp-admin/").ToString());
        await Visible(page, "#loginform");
    }

    // ---- the file ----

    // WordPress looks into what it is given: it must be what its name says.
    private static byte[] Archive()
    {
        using var bytes = new MemoryStream();
        using (var archive = new ZipArchive(bytes, ZipArchiveMode.Create, leaveOpen: true))
        {
            using Stream entry = archive.CreateEntry("grain.bin", CompressionLevel.NoCompression).Open();
            entry.Write(Pattern.Take(ContentLength));
        }
        return bytes.ToArray();
    }

    private static async Task DownloadAsync(IPage page, Uri file, byte[] expected)
    {
        string[] found = await page.EvaluateAsync<string[]>("""
            async url => {
                const response = await fetch(url);
                const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', await response.arrayBuffer()));
                const part = await fetch(url, { headers: { Range: 'bytes=40000000-40000009' } });
                return [`${response.status} ${response.headers.get('Content-Type')} ${hash.toHex?.() ?? Array.from(hash, byte => byte.toString(16).padStart(2, '0')).join('')}`,
                    `${part.status} ${part.headers.get('Content-Range')} ${new Uint8Array(await part.arrayBuffer())}`];
            }
            """, file.ToString());
        Assert.Equal($"200 application/zip {Convert.ToHexStringLower(SHA256.HashData(expected))}", found[0]);
        Assert.Equal($"206 bytes 40000000-40000009/{expected.Length} {string.Join(',', expected[40_000_000..40_000_010])}", found[1]);
    }

    private static async Task AskForPartsAsync(Uri file, byte[] expected)
    {
        using var client = new HttpClient(new SocketsHttpHandler { UseProxy = false });
        EntityTagHeaderValue? tag = null;
        foreach (var (first, last) in ((long?, long?)[])[(0, 0), (25_000_000, 45_000_000), (expected.Length - 1, null), (null, 1_000_000)])
        {
            using var request = new HttpRequestMessage(HttpMethod.Get, file);
            request.Headers.Range = new RangeHeaderValue(first, last);
            request.Headers.IfRange = tag is null ? null : new RangeConditionHeaderValue(tag);
            using HttpResponseMessage response = await client.SendAsync(request);
            Assert.Equal(HttpStatusCode.PartialContent, response.StatusCode);
            int from = (int)(first ?? expected.Length - last!.Value);
            int to = (int)(first is null ? expected.Length - 1 : last ?? expected.Length - 1);
            Assert.Equal(new ContentRangeHeaderValue(from, to, expected.Length), response.Content.Headers.ContentRange);
            byte[] found = await response.Content.ReadAsByteArrayAsync();
            Assert.True(expected.AsSpan(from, to + 1 - from).SequenceEqual(found));
            tag = response.Headers.ETag;
        }
        using var beyond = new HttpRequestMessage(HttpMethod.Get, file);
        beyond.Headers.Range = new RangeHeaderValue(expected.Length, null);
        using HttpResponseMessage refused = await client.SendAsync(beyond);
        Assert.Equal(HttpStatusCode.RequestedRangeNotSatisfiable, refused.StatusCode);
    }

    private static async Task<byte[]> HashOfAsync(string path)
    {
        await using FileStream file = File.OpenRead(path);
        return await SHA256.HashDataAsync(file);
    }
}
