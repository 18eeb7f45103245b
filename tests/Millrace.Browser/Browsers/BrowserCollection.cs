// The classes of tests that share one browser.

namespace Millrace.Browser.Browsers;

[CollectionDefinition(Name)]
public sealed class BrowserCollection : ICollectionFixture<Chromium>
{
    public const string Name = "browser";
}

/// <summary>How the browser reaches the site.</summary>
public enum Way
{
    /// <summary>Over HTTP, without anything in between.</summary>
    Direct,

    /// <summary>Behind nginx, which speaks FastCGI to the site.</summary>
    BehindNginx,
}
