// What an application sees of its session: the same as with AddSession(), request by request.

using Millrace.Sessions.Tests.Site;

namespace Millrace.Sessions.Tests;

public sealed class SessionTests
{
    // Each line is one visit; "|" separates visits of one visitor.
    public static TheoryData<string, string> Visits => new()
    {
        { "set a 1|get a", "|1" },
        { "set a 1;get a|set b 2|get a;get b;keys", "1||1,2,a+b" },
        { "get a|set a 1|get a", "-||1" },
        { "set a 1|remove a|get a;keys", "||-," },
        { "set a 1|clear|get a", "||-" },
        { "set a 1|set a 2|set a 3|get a", "|||3" },
        { "set a 1;remove a;set b 2|keys", "|b" },
        { "set a 1;clear;set b 2|keys", "|b" },
        { "set a 1;flush;set b 2|get a;get b", "|1,2" },
        { "flush;set a 1|get a", "InvalidOperationException|-" },
        { "late a 1;set b 2|get a;get b", "|1,2" },
        { "set b 2;late a 1|get a;get b", "|1,2" },
        { "late a 1|get a", "|1" },
        { "set a 1|late b 2;get a|get b", "|1|2" },
        { "set a 1|clear;set b 2|keys", "||b" },
        { "set a 1|remove b;get a|get a", "|1|1" },
        { "set a 1;commit;set b 2|keys", "|a+b" },
        { "load;set a 1|load;get a", "|1" },
        { "available", "True" },
        { "big a 1000|length a", "|1000" },
        { "big a 5000|length a", "|5000" },
        { "big a 5000;flush;set b 1|length a;get b", "|5000,1" },
        { "big a 1000|big a 9000|length a", "||9000" },
        { "big a 9000|set b 1;remove a|keys", "||b" },
        { "set ключ значение|get ключ", "|значение" },
        { "set a 1|flush;set a 2|get a", "||2" },
        { "set a 1|set a 1;get a|get a", "|1|1" },
        { "set a 1|next a|next a;get a|get a", "||3|3" },
        { "set a 1;next a|get a|next a|get a", "|2||3" },
        { "set a 1|scribble a|get a", "||1" },
    };

    [Theory]
    [MemberData(nameof(Visits))]
    public async Task Visits_see_what_they_see_with_AddSession(string visits, string answers)
    {
        await using TestSite stock = await TestSite.StartStockAsync();
        await using TestSite ours = await TestSite.StartAsync();

        Assert.Equal(answers, await VisitAsync(stock, visits));
        Assert.Equal(answers, await VisitAsync(ours, visits));
        Assert.Empty(ours.Log.Of("Millrace"));
    }

    [Theory]
    [InlineData("set a 1|scribble a;get a|get a", "|1|1")]
    [InlineData("set a 1|get a|scribble a;set b 2|get a;get b", "|1||1,2")]
    [InlineData("set a 1;scribble a|get a", "|1")]
    [InlineData("set a 1|get a|set b 2;commit;scribble a;set c 3|get a", "|1||1")]
    public async Task What_is_written_into_an_array_that_was_got_is_nowhere_until_it_is_set(string visits, string answers)
    {
        await using TestSite site = await TestSite.StartAsync();
        Assert.Equal(answers, await VisitAsync(site, visits));
    }

    private static async Task<string> VisitAsync(TestSite site, string visits)
    {
        Visitor visitor = site.NewVisitor();
        var answers = new List<string>();
        foreach (string steps in visits.Split('|'))
        {
            answers.Add(await visitor.DoAsync(steps));
        }
        return string.Join('|', answers);
    }

    [Fact]
    public async Task The_first_write_is_in_the_cookie_and_the_server_keeps_nothing_until_it_comes_back()
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();

        await visitor.DoAsync("set a 1");
        Assert.Equal(0, site.Store.Live);
        Assert.Equal(1, site.Counters.SealedTotal);

        Assert.Equal("1", await visitor.DoAsync("get a"));
        Assert.Equal(1, site.Store.Live);
        Assert.Equal(1, site.Counters.PromotedTotal);
    }

    [Theory]
    [InlineData(1024, 0)]
    [InlineData(1025, 1)]
    public async Task Values_up_to_SealedBytesMax_go_into_the_cookie(int bytes, int live)
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();

        await visitor.DoAsync($"big a {bytes - 1 - 2 - 2}");      // version; length and key; length of the value

        Assert.Equal(live, site.Store.Live);
        Assert.Equal(live == 0, visitor.Cookie!.Contains('.', StringComparison.Ordinal));
    }

    [Fact]
    public async Task The_longest_sealed_cookie_is_one_that_browsers_keep()
    {
        await using TestSite site = await TestSite.StartAsync(static options => options.SealedBytesMax = MillraceSessionOptions.SealedBytesLimit);
        Visitor visitor = site.NewVisitor();

        await visitor.DoAsync($"big a {MillraceSessionOptions.SealedBytesLimit - 5}");

        Assert.Equal(0, site.Store.Live);
        Assert.InRange(Assert.Single(visitor.SetCookies).Length, 3000, 4096);
        Assert.Equal("2555", await visitor.DoAsync("length a"));
    }

    [Fact]
    public async Task Nothing_is_sealed_where_it_is_not_wanted()
    {
        await using TestSite site = await TestSite.StartAsync(static options => options.SealedBytesMax = 0);
        Visitor visitor = site.NewVisitor();

        await visitor.DoAsync("set a 1");

        Assert.Equal(1, site.Store.Live);
        Assert.Equal("1", await visitor.DoAsync("get a"));
    }

    [Theory]
    [InlineData("")]
    [InlineData("get a;keys;id;available")]
    [InlineData("remove a;clear;load;commit")]
    [InlineData("set a 1;remove a")]
    [InlineData("renew")]
    public async Task A_request_that_leaves_nothing_gets_no_cookie(string steps)
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();

        await visitor.DoAsync(steps);

        Assert.Empty(visitor.SetCookies);
        Assert.Equal(0, site.Store.Live);
        Assert.False(visitor.Last!.Headers.CacheControl?.NoStore ?? false);
    }

    [Fact]
    public async Task The_cookie_is_that_of_SessionOptions()
    {
        await using TestSite site = await TestSite.StartAsync(build: static builder => builder.Services.Configure<SessionOptions>(static options =>
        {
            options.Cookie.Name = "shop";
            options.Cookie.Path = "/basket";
            options.Cookie.SameSite = SameSiteMode.Strict;
            options.Cookie.SecurePolicy = CookieSecurePolicy.Always;
        }));
        using HttpResponseMessage answer = await site.Client.GetAsync(new Uri("/set a 1", UriKind.Relative));

        string cookie = Assert.Single(answer.Headers.GetValues("Set-Cookie"));
        Assert.StartsWith("shop=", cookie, StringComparison.Ordinal);
        Assert.EndsWith("; path=/basket; secure; samesite=strict; httponly", cookie, StringComparison.Ordinal);
        Assert.Equal("no-store, no-cache", answer.Headers.CacheControl!.ToString());
    }

    [Theory]
    [InlineData(600, "1")]
    [InlineData(601, "-")]
    public async Task A_session_ends_when_it_has_been_idle_for_IdleTimeout_wherever_its_values_are(int seconds, string value)
    {
        await using TestSite site = await TestSite.StartAsync(static options => options.IdleTimeout = TimeSpan.FromMinutes(10));
        Visitor sealed_ = site.NewVisitor();
        Visitor stored = site.NewVisitor();
        await sealed_.DoAsync("set a 1");
        await stored.DoAsync("set a 1");
        site.Time.Advance(TimeSpan.FromMinutes(5));
        await stored.DoAsync("get a");

        site.Time.Advance(TimeSpan.FromSeconds(seconds - 300));
        Assert.Equal(value, await sealed_.DoAsync("get a"));
        site.Time.Advance(TimeSpan.FromSeconds(300));
        Assert.Equal(value, await stored.DoAsync("get a"));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_request_that_does_not_use_its_session_keeps_it_from_expiring_wherever_its_values_are(bool inCookie)
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        if (!inCookie)
        {
            await visitor.DoAsync("get a");
        }
        for (int i = 0; i < 10; i++)
        {
            site.Time.Advance(TimeSpan.FromMinutes(19));
            await visitor.DoAsync("");
        }

        Assert.Equal("1", await visitor.DoAsync("get a"));
    }

    // Against fixation: the next session of this browser has another name.
    [Theory]
    [InlineData("clear;forget")]
    [InlineData("forget;clear")]
    [InlineData("forget;set b 2")]
    public async Task A_cookie_that_the_application_deletes_is_not_written_again(string steps)
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        string id = await visitor.DoAsync("id");

        await visitor.DoAsync(steps);

        Assert.StartsWith($"{Visitor.CookieName}=; expires=Thu, 01 Jan 1970", Assert.Single(visitor.SetCookies), StringComparison.Ordinal);
        visitor.Cookie = null;
        Assert.NotEqual(id, await visitor.DoAsync("set a 2;id"));
    }

    [Theory]
    [InlineData("forget;renew")]
    [InlineData("renew;forget")]
    public async Task A_session_of_another_name_comes_behind_a_deletion(string steps)
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        await visitor.DoAsync("get a");

        await visitor.DoAsync(steps);

        Assert.Equal(2, visitor.SetCookies.Length);
        Assert.Equal("1", await visitor.DoAsync("get a"));
    }

    [Theory]
    [InlineData(59, "1")]
    [InlineData(61, "-")]
    public async Task What_is_in_a_cookie_alone_is_good_for_as_long_as_UseSession_says(int minutes, string value)
    {
        await using TestSite site = await TestSite.StartAsync(use: static app => app.UseSession(new SessionOptions { IdleTimeout = TimeSpan.FromHours(1) }));
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        site.Time.Advance(TimeSpan.FromMinutes(minutes));
        Assert.Equal(value, await visitor.DoAsync("get a"));
    }

    // The pictures of the first page are no reason to keep what may never come back.
    [Theory]
    [InlineData(59, 0)]
    [InlineData(60, 1)]
    public async Task What_is_in_a_cookie_alone_is_stored_when_its_client_is_still_there_behind_a_minute(int seconds, int stored)
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        site.Time.Advance(TimeSpan.FromSeconds(seconds));

        await visitor.DoAsync("");

        Assert.Equal(stored, site.Store.Live);
        Assert.Empty(visitor.SetCookies);
        Assert.Equal("1", await visitor.DoAsync("get a"));
    }

    [Fact]
    public async Task Expired_sessions_are_taken_out_and_no_timer_runs_for_none()
    {
        await using TestSite site = await TestSite.StartAsync();
        int before = site.Time.Armed;
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("big a 5000");
        Assert.Equal(before + 1, site.Time.Armed);

        site.Time.Advance(TimeSpan.FromMinutes(21));

        Assert.Equal(0, site.Store.Live);
        Assert.Equal(site.Store.FixedBytes, site.Store.Bytes);
        Assert.Equal(before, site.Time.Armed);
    }

    [Fact]
    public async Task An_Id_stays_and_says_nothing_of_the_cookie()
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();

        string id = await visitor.DoAsync("set a 1;id");

        Assert.Equal(36, id.Length);
        Assert.Equal(id, await visitor.DoAsync("id"));
        Assert.Equal(id, await visitor.DoAsync("set b 1;id"));
        Assert.DoesNotContain(id[..8], visitor.Cookie!, StringComparison.OrdinalIgnoreCase);
        Assert.NotEqual(id, await site.NewVisitor().DoAsync("id"));
    }

    [Fact]
    public async Task A_session_that_fails_in_its_request_keeps_what_was_set_as_with_AddSession()
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();

        Assert.Equal("InvalidOperationException", await visitor.DoAsync("set a 1;fail"));

        Assert.Equal("1", await visitor.DoAsync("get a"));
    }

    [Fact]
    public async Task A_long_cookie_becomes_short_when_the_session_changes_for_the_second_time_on_the_server()
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        await visitor.DoAsync("set a 2");
        Assert.Empty(visitor.SetCookies);

        await visitor.DoAsync("set a 3");

        Assert.Equal(Cookies.TokenLength, visitor.Cookie!.Length);
        Assert.Equal("3", await visitor.DoAsync("get a"));
        Assert.Empty(visitor.SetCookies);
    }
}
