// What a person does with a browser: looks at a page, sends a form, uploads a file, leaves in the middle of a download.

using System.Security.Cryptography;
using Microsoft.Playwright;
using Millrace.Browser.Site;

namespace Millrace.Browser.Browsers;

[Collection(BrowserCollection.Name)]
public sealed class PageTests(SiteServer site, Chromium chromium)
{
    [Theory]
    [InlineData(Way.Direct)]
    [InlineData(Way.BehindNginx)]
    public async Task A_page_loads_with_its_style_script_and_images(Way way)
    {
        await using Window window = await chromium.OpenAsync();
        await window.Page.GotoAsync(site.At(way, "/"), new PageGotoOptions { WaitUntil = WaitUntilState.NetworkIdle });
        Assert.Equal("The mill", await window.TextOf("#heading"));
        Assert.Equal("the script ran", await window.TextOf("#said"));
        Assert.Equal("rgb(1, 102, 3)", await window.Page.EvaluateAsync<string>("getComputedStyle(document.getElementById('heading')).color"));
        Assert.Equal(16, await window.Page.EvaluateAsync<int>("document.getElementById('picture').naturalWidth"));
        Assert.Equal(32, await window.Page.EvaluateAsync<int>("document.getElementById('drawing').naturalWidth"));
        Assert.Contains((await window.ResponseFor("/").AllHeadersAsync())["content-encoding"], new[] { "br", "gzip" });
        window.AssertNoTrouble();
    }

    [Theory]
    [InlineData(Way.Direct)]
    [InlineData(Way.BehindNginx)]
    public async Task A_form_is_validated_and_then_accepted(Way way)
    {
        await using Window window = await chromium.OpenAsync();
        await window.Page.GotoAsync(site.At(way, "/form"));
        await window.Page.FillAsync("#name", "Grüne Mühle");
        await window.Page.FillAsync("#grain", "101");
        await window.Page.ClickAsync("#send");
        await window.Page.WaitForSelectorAsync("#errors li");
        await window.Page.FillAsync("#grain", "42");
        await window.Page.ClickAsync("#send");
        await window.WaitForText("#result", "Grüne Mühle brings 42");
        window.AssertNoTrouble();
    }

    [Theory]
    [InlineData(Way.Direct)]
    [InlineData(Way.BehindNginx)]
    public async Task A_file_of_several_megabytes_is_uploaded_whole(Way way)
    {
        byte[] content = Pattern.Take(6_000_001);
        await using Window window = await chromium.OpenAsync();
        await window.Page.GotoAsync(site.At(way, "/form"));
        await window.Page.FillAsync("#name", "Miller");
        await window.Page.SetInputFilesAsync("#file", new FilePayload { Name = "grain.bin", MimeType = "application/octet-stream", Buffer = content });
        await window.Page.ClickAsync("#send");
        await window.WaitForText("#result", $"Miller brings 1 and grain.bin of 6000001 bytes, {Convert.ToHexStringLower(SHA256.HashData(content))}");
        window.AssertNoTrouble();
    }

    [Theory]
    [InlineData(Way.Direct)]
    [InlineData(Way.BehindNginx)]
    public async Task A_form_without_its_antiforgery_token_is_refused(Way way)
    {
        await using Window window = await chromium.OpenAsync();
        await window.Page.GotoAsync(site.At(way, "/form"));
        int status = await window.Page.EvaluateAsync<int>(
            "fetch('/form', { method: 'POST', body: new URLSearchParams({ Name: 'Thief', Grain: '1' }) }).then(response => response.status)");
        Assert.Equal(400, status);
    }

    [Theory]
    [InlineData(Way.Direct)]
    [InlineData(Way.BehindNginx)]
    public async Task A_session_belongs_to_one_window(Way way)
    {
        await using Window one = await chromium.OpenAsync();
        await using Window other = await chromium.OpenAsync();
        Assert.Equal("visit 1", await Visit(one, way));
        Assert.Equal("visit 2", await Visit(one, way));
        Assert.Equal("visit 1", await Visit(other, way));
        Assert.Equal("visit 3", await Visit(one, way));
    }

    [Theory]
    [InlineData(Way.Direct)]
    [InlineData(Way.BehindNginx)]
    public async Task Many_downloads_at_once_arrive_whole(Way way)
    {
        await using Window window = await chromium.OpenAsync();
        await window.Page.GotoAsync(site.At(way, "/"));
        string sums = await window.Page.EvaluateAsync<string>("""
            Promise.all(Array.from({ length: 24 }, async (_, i) => {
                const bytes = new Uint8Array(await (await fetch(`/bytes/${1000003 + i}`)).arrayBuffer());
                return bytes.length - 1000003 - i + (bytes.every((byte, at) => byte === ((at ^ (at >> 8) ^ (at >> 16)) & 255)) ? '' : ' differs');
            })).then(sums => sums.join())
            """);
        Assert.Equal(string.Join(',', Enumerable.Repeat("0", 24)), sums);
        window.AssertNoTrouble();
    }

    [Theory]
    [InlineData(Way.Direct)]
    [InlineData(Way.BehindNginx)]
    public async Task Leaving_a_page_aborts_the_request_it_was_waiting_for(Way way)
    {
        string name = $"left {way}";
        await using Window window = await chromium.OpenAsync();
        await window.Page.GotoAsync(site.At(way, "/"));
        await window.Page.EvaluateAsync("name => { fetch('/wait/' + name); }", name);
        await site.Notes.WaitFor(name + " started");
        await window.Page.GotoAsync("about:blank");
        await site.Notes.WaitFor(name + " aborted");
    }

    private async Task<string> Visit(Window window, Way way)
    {
        await window.Page.GotoAsync(site.At(way, "/visits"));
        return await window.TextOf("body");
    }
}
