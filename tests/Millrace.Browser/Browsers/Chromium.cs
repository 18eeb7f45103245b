// One headless Chromium of the system for all browser tests, with a profile of its own, driven by Playwright. Nothing is
// downloaded. Not here: what is done in it.

using Microsoft.Playwright;

namespace Millrace.Browser.Browsers;

public sealed class Chromium : IAsyncLifetime
{
    /// <summary>How long a page may take.</summary>
    public const int PatienceMs = 60_000;

    private IPlaywright _playwright = null!;
    private IBrowser _browser = null!;

    public async ValueTask InitializeAsync()
    {
        _playwright = await Playwright.CreateAsync();
        _browser = await _playwright.Chromium.LaunchAsync(new BrowserTypeLaunchOptions
        {
            ExecutablePath = Programs.Find("chromium", "chromium"),
            Args =
            [
                "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
                "--disable-sync",
            ],
        });
    }

    /// <summary>A window without cookies and cache of others.</summary>
    public async Task<Window> OpenAsync()
    {
        IBrowserContext context = await _browser.NewContextAsync();
        context.SetDefaultTimeout(PatienceMs);
        return new Window(context, await context.NewPageAsync());
    }

    public async ValueTask DisposeAsync()
    {
        if (_browser is not null)
        {
            await _browser.DisposeAsync();
        }

        _playwright?.Dispose();
    }
}
