// How a client reaches the site.

namespace Millrace.Browser.Site;

public enum Way
{
    /// <summary>Over HTTP, without anything in between.</summary>
    Direct,

    /// <summary>Behind nginx, which speaks FastCGI to the site.</summary>
    BehindNginx,
}
