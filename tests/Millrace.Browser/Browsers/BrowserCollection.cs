// The classes of tests that share one browser.

namespace Millrace.Browser.Browsers;

[CollectionDefinition(Name)]
public sealed class BrowserCollection : ICollectionFixture<Chromium>
{
    public const string Name = "browser";
}
