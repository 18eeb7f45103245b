// Two tabs, one session.

using Millrace.Sessions.Tests.Site;

namespace Millrace.Sessions.Tests;

public sealed class ConcurrentWriteTests
{
    [Theory]
    [InlineData(ConcurrentWrites.LastWriteWins)]
    [InlineData(ConcurrentWrites.MergeKeys)]
    public async Task Two_tabs_that_come_back_with_the_same_first_cookie_at_once_lose_nothing(ConcurrentWrites writes)
    {
        await using TestSite site = await MeetAsync(writes);
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set start 1");
        Visitor other = visitor.Copy();

        await Task.WhenAll(visitor.DoAsync("get start;meet;set a 1"), other.DoAsync("get start;meet;set b 2"));

        Assert.Equal("a+b+start", await visitor.DoAsync("keys"));
        Assert.Equal("a+b+start", await other.DoAsync("keys"));
        Assert.Equal(1, site.Store.Live);
        Assert.Equal(1, site.Counters.ConflictsTotal);
    }

    [Theory]
    [InlineData(ConcurrentWrites.LastWriteWins, 2)]
    [InlineData(ConcurrentWrites.MergeKeys, 3)]
    public async Task Two_tabs_of_a_stored_session_are_merged_where_that_is_wanted(ConcurrentWrites writes, int keys)
    {
        await using TestSite site = await MeetAsync(writes);
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set start 1");
        await visitor.DoAsync("get start");
        Visitor other = visitor.Copy();

        await Task.WhenAll(visitor.DoAsync("get start;meet;set a 1"), other.DoAsync("get start;meet;set b 2"));

        Assert.Equal(keys, (await visitor.DoAsync("keys")).Split('+').Length);
    }

    [Theory]
    [InlineData("set k 1", "set l 2", "k+l+start+x")]
    [InlineData("remove x", "set l 2", "l+start")]
    [InlineData("remove x", "remove start", "")]
    [InlineData("clear;set k 1", "get start", "k")]
    public async Task Changes_of_different_keys_do_not_undo_each_other(string first, string second, string keys)
    {
        await using TestSite site = await MeetAsync(ConcurrentWrites.MergeKeys);
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set start 1;set x 1");
        await visitor.DoAsync("get start");
        Visitor other = visitor.Copy();

        await Task.WhenAll(visitor.DoAsync($"get start;meet;{first}"), other.DoAsync($"get start;meet;{second}"));

        Assert.Equal(keys, await visitor.DoAsync("keys"));
    }

    [Fact]
    public async Task Two_tabs_that_only_read_what_came_back_store_it_once()
    {
        await using TestSite site = await MeetAsync(ConcurrentWrites.LastWriteWins);
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        Visitor other = visitor.Copy();

        string[] answers = await Task.WhenAll(visitor.DoAsync("get a;meet"), other.DoAsync("get a;meet"));

        Assert.Equal(["1", "1"], answers);
        Assert.Equal(1, site.Store.Live);
        Assert.Equal(1, site.Counters.PromotedTotal);
    }

    [Fact]
    public async Task A_hundred_requests_at_once_lose_no_key()
    {
        await using TestSite site = await TestSite.StartAsync(static options => options.ConcurrentWrites = ConcurrentWrites.MergeKeys);
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set start 1");

        await Task.WhenAll(Enumerable.Range(0, 100).Select(i => visitor.Copy().DoAsync($"set k{i} 1")));

        Assert.Equal(101, (await visitor.DoAsync("keys")).Split('+').Length);
    }

    private static Task<TestSite> MeetAsync(ConcurrentWrites writes) => TestSite.StartAsync(
        options => options.ConcurrentWrites = writes, static builder => builder.Services.AddSingleton(new Meeting(2)));
}
