// Which of several cookies of one name is that of the session: for a request that uses its session and for one that does not, the same.

using Microsoft.AspNetCore.Http;
using Millrace.Sessions.Cookies;

namespace Millrace.Sessions.Tests;

public sealed class CookieHeaderTests
{
    private const string Name = ".Session";

    [Theory]
    [InlineData("{n}={1}", 1)]
    [InlineData("a=b; {n}={1}; c=d", 1)]
    [InlineData("{n}={1}; {n}={2}", 2)]
    [InlineData("{n}={2}; x=y; {n}={1}", 1)]
    [InlineData("{n}={1}.AAAA; {n}={2}.BBBB", 2)]
    [InlineData("{n}={1}; {n}=short", 0)]
    [InlineData("{n}={1}; {n}=", 0)]
    [InlineData("{n}X={1}", 0)]
    [InlineData("{n}", 0)]
    [InlineData("", 0)]
    public void It_is_the_last_as_in_Request_Cookies(string field, int which)
    {
        SessionToken[] tokens = [SessionToken.New(), SessionToken.New()];
        string cookie = field.Replace("{n}", Name, StringComparison.Ordinal).Replace("{1}", tokens[0].ToString(), StringComparison.Ordinal).Replace("{2}", tokens[1].ToString(), StringComparison.Ordinal);

        Assert.Equal(which > 0, CookieHeader.TryReadKey(cookie, Name, out SessionKey key, out bool hasSeal));
        Assert.Equal(which > 0 ? tokens[which - 1].Key : default, key);
        Assert.Equal(which > 0 && field.Contains($"{{{which}}}.", StringComparison.Ordinal), hasSeal);

        var context = new DefaultHttpContext();
        context.Request.Headers.Cookie = cookie;
        string? theirs = context.Request.Cookies[Name];
        Assert.Equal(which > 0, theirs?.StartsWith(which > 0 ? tokens[which - 1].ToString() : "no", StringComparison.Ordinal) == true);
    }
}
