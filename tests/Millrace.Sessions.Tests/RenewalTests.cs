// Session fixation: the session that a user signs in with is not the one that somebody may have given him.

using Millrace.Sessions.Tests.Site;

namespace Millrace.Sessions.Tests;

public sealed class RenewalTests
{
    [Theory]
    [InlineData("set cart book")]                       // in the cookie
    [InlineData("set cart book|get cart")]              // on the server, as it came
    [InlineData("set cart book|set count 1")]           // on the server, changed
    [InlineData("big cover 5000;set cart book")]        // never in a cookie
    public async Task Renew_keeps_the_values_under_another_cookie_and_another_Id_and_ends_the_one_before(string before)
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor victim = site.NewVisitor();
        foreach (string steps in before.Split('|'))
        {
            await victim.DoAsync(steps);
        }
        string id = await victim.DoAsync("id");
        Visitor attacker = victim.Copy();

        string renewed = await victim.DoAsync("renew;set user anna;id");

        Assert.NotEqual(id, renewed);
        Assert.Equal(renewed, await victim.DoAsync("id"));
        Assert.Equal("anna,book", await victim.DoAsync("get user;get cart"));
        Assert.Equal("-,-", await attacker.DoAsync("get user;get cart"));
        Assert.Equal(1, site.Store.Live);
    }

    [Fact]
    public async Task A_session_that_begins_with_the_sign_in_is_renewed_as_well()
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();

        await visitor.DoAsync("set user anna;renew;renew");

        Assert.Single(visitor.SetCookies);
        Assert.Equal("anna", await visitor.DoAsync("get user"));
    }

    [Fact]
    public async Task Renew_after_the_head_was_made_but_not_sent_is_in_it()
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();

        await visitor.DoAsync("late b 2;set a 1");

        Assert.Single(visitor.SetCookies);
        Assert.Equal("1,2", await visitor.DoAsync("get a;get b"));
    }

    [Fact]
    public async Task Renew_after_the_response_has_started_fails_and_changes_nothing()
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");

        Assert.Equal("InvalidOperationException", await visitor.DoAsync("flush;renew"));

        Assert.Equal("1", await visitor.DoAsync("get a"));
    }

    [Fact]
    public async Task Renew_of_a_session_of_AddSession_says_what_it_needs()
    {
        await using TestSite site = await TestSite.StartStockAsync();

        Assert.Equal("InvalidOperationException", await site.NewVisitor().DoAsync("set a 1;renew"));
    }

    [Fact]
    public async Task What_a_request_of_before_stores_after_the_renewal_does_not_bring_the_session_back()
    {
        var meeting = new Meeting(2);
        await using TestSite site = await TestSite.StartAsync(build: builder => builder.Services.AddSingleton(meeting));
        Visitor victim = site.NewVisitor();
        await victim.DoAsync("set cart book");
        await victim.DoAsync("get cart");
        Visitor other = victim.Copy();
        Task<string> late = other.DoAsync("get cart;meet;set late 1");
        await meeting.FirstAsync();     // it has read
        Visitor renewing = victim.Copy();
        await renewing.DoAsync("renew;set user anna");

        await victim.DoAsync("meet");
        await late;

        Assert.Equal("-,-", await other.DoAsync("get cart;get late"));
        Assert.Equal("anna", await renewing.DoAsync("get user"));
    }
}
