// Applications with sessions in a browser: with AddMillraceSession() they do what they do with AddSession(), to the letter, for each of several visitors, and so do their cookies.

using Microsoft.AspNetCore.DataProtection;
using Microsoft.Playwright;
using Millrace.Browser.Browsers;
using Millrace.Sessions;

namespace Millrace.Browser.Sessions;

[Collection(BrowserCollection.Name)]
public sealed class SessionTests(Chromium chromium)
{
    // Each line is what a visitor does on the page where he is.
    private static readonly string[] s_visitor = ["/visitor/", "/visitor/", "/visitor/older", "other /visitor/", "/visitor/forget", "/visitor/"];
    private static readonly string[] s_guestbook = ["/guestbook", "#entry Grüße", "click #write", "/guestbook", "#entry more", "click #write", "other /guestbook", "/guestbook"];
    private static readonly string[] s_cart =
        ["/cart/", "click #flour", "click #flour", "click #millstone", "other /cart/", "#user Müller & Söhne", "click #sign-in", "click #bran", "click #buy", "/cart/"];

    public static TheoryData<string> Apps => ["visitor", "guestbook", "cart"];

    [Theory]
    [MemberData(nameof(Apps))]
    public async Task An_application_does_with_AddMillraceSession_what_it_does_with_AddSession(string name)
    {
        string[] steps = name switch { "visitor" => s_visitor, "guestbook" => s_guestbook, _ => s_cart };

        List<string> stock = await WalkAsync(steps, static services => services.AddDistributedMemoryCache().AddSession(Configure));
        List<string> ours = await WalkAsync(steps, static services => services.AddMillraceSession(Configure));

        Assert.Equal(stock, ours);
        Assert.Equal(steps.Count(static step => !step.StartsWith('#')) + 2, stock.Count);
        Assert.Contains(stock, static line => line.Contains("mill.session", StringComparison.Ordinal));
    }

    private static void Configure(SessionOptions options)
    {
        options.Cookie.Name = "mill.session";
        options.Cookie.IsEssential = true;
        options.Cookie.SameSite = Microsoft.AspNetCore.Http.SameSiteMode.Strict;
        options.IdleTimeout = TimeSpan.FromMinutes(10);
    }

    private async Task<List<string>> WalkAsync(string[] steps, Action<IServiceCollection> addSessions)
    {
        WebApplicationBuilder builder = WebApplication.CreateSlimBuilder();
        builder.WebHost.UseMillrace();
        builder.Logging.ClearProviders();
        builder.Services.AddSingleton<IDataProtectionProvider>(new EphemeralDataProtectionProvider());
        SessionApps.AddServices(builder.Services);
        addSessions(builder.Services);
        await using WebApplication web = builder.Build();
        web.UseSession();
        SessionApps.Map(web);
        web.Urls.Add("http://127.0.0.1:0");
        await web.StartAsync();
        await using Window visitor = await chromium.OpenAsync();
        await using Window other = await chromium.OpenAsync();
        var seen = new List<string>();
        foreach (string step in steps)
        {
            await DoAsync(step, visitor, other, web.Urls.Single(), seen);
        }

        seen.Add("cookies: " + await CookiesAsync(visitor));
        seen.Add("cookies of the other: " + await CookiesAsync(other));
        visitor.AssertNoTrouble();
        other.AssertNoTrouble();
        return seen;
    }

    private static async Task DoAsync(string step, Window visitor, Window other, string site, List<string> seen)
    {
        string[] words = step.Split(' ', 2);
        Window window = words[0] == "other" ? other : visitor;
        switch (words[0])
        {
            case "click":
                await window.Page.ClickAsync(words[1]);
                break;
            case ['#', ..]:
                await window.Page.FillAsync(words[0], words[1]);
                return;
            default:
                await window.Page.GotoAsync(site + words[^1]);
                break;
        }

        seen.Add($"{step}: {await window.TextOf("#said")}");
    }

    private static async Task<string> CookiesAsync(Window window) => string.Join("; ", (await window.Page.Context.CookiesAsync())
        .Select(static cookie => $"{cookie.Name} path {cookie.Path} expires {cookie.Expires} http only {cookie.HttpOnly} secure {cookie.Secure} {cookie.SameSite}").Order(StringComparer.Ordinal));
}
