// A store that several processes share, here an IDistributedCache: the same sessions everywhere, and what happens when it does not answer.

using Microsoft.AspNetCore.DataProtection;
using Microsoft.Extensions.Caching.Distributed;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Millrace.Sessions.Observe;
using Millrace.Sessions.Tests.Site;

namespace Millrace.Sessions.Tests;

public sealed class SharedStoreTests
{
    private readonly SwitchedCache _cache = new();
    private readonly EphemeralDataProtectionProvider _keys = new();

    [Fact]
    public async Task Two_processes_see_the_same_session_and_a_seal_of_one_is_good_for_the_other()
    {
        await using TestSite one = await StartAsync();
        await using TestSite other = await StartAsync();
        Visitor first = one.NewVisitor();
        await first.DoAsync("set a 1");
        Assert.Equal(0, _cache.Count);
        Visitor second = other.NewVisitor();
        second.Cookie = first.Cookie;

        Assert.Equal("1", await second.DoAsync("get a;set b 2"));
        Assert.Equal("a+b", await first.DoAsync("load;keys"));
        await first.DoAsync("renew");
        Assert.Equal("-", await second.DoAsync("get a"));
        second.Cookie = first.Cookie;
        Assert.Equal("a+b", await second.DoAsync("load;keys"));
    }

    [Fact]
    public async Task A_request_that_changes_nothing_writes_nothing_and_the_store_hears_of_it_in_steps()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        await visitor.DoAsync("get a");
        int writes = _cache.Writes;
        for (int i = 0; i < 100; i++)
        {
            await visitor.DoAsync("get a");
            await visitor.DoAsync("");
        }
        Assert.Equal(writes, _cache.Writes);
        Assert.Equal(1, _cache.Refreshes);

        site.Time.Advance(TimeSpan.FromMinutes(1));
        await visitor.DoAsync("");
        await visitor.DoAsync("get a");
        Assert.Equal(2, _cache.Refreshes);
    }

    [Fact]
    public async Task Requests_that_load_a_session_at_the_same_time_ask_once()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        await visitor.DoAsync("get a");
        int reads = _cache.Reads;
        _cache.Hold();

        Task<string>[] visits = [.. Enumerable.Range(0, 10).Select(_ => visitor.Copy().DoAsync("load;get a"))];
        await _cache.WaitForReaderAsync();
        while (site.Loading < 10)
        {
            await Task.Delay(1);
        }
        _cache.Release();

        Assert.All(await Task.WhenAll(visits), static answer => Assert.Equal("1", answer));
        Assert.Equal(1, _cache.Reads - reads);
    }

    [Fact]
    public async Task While_the_store_is_lost_the_site_goes_on_and_one_line_says_so()
    {
        await using TestSite site = await StartAsync(build: static builder => builder.Services.AddHealthChecks().AddMillraceSession());
        Visitor established = site.NewVisitor();
        await established.DoAsync("set a 1");
        await established.DoAsync("set a 2");
        await established.DoAsync("set a 3");
        Visitor returning = site.NewVisitor();
        await returning.DoAsync("set a 1");
        _cache.IsLost = true;

        for (int i = 0; i < 20; i++)
        {
            Assert.Equal("-,False", await established.DoAsync("get a;available"));
            Assert.Equal("", await established.DoAsync("set b 1"));
            Assert.Equal("1,True", await returning.DoAsync("get a;available"));
        }
        Visitor fresh = site.NewVisitor();
        await fresh.DoAsync("set a 5");
        Assert.Equal("5", await fresh.DoAsync("get a"));
        HealthCheckService health = site.Services.GetRequiredService<HealthCheckService>();
        Assert.Equal(HealthStatus.Degraded, (await health.CheckHealthAsync()).Status);
        Assert.Contains("does not answer", Assert.Single(site.Log.Of("Millrace.Sessions")), StringComparison.Ordinal);
        Assert.Equal(1, _cache.CallsWhileLost);

        _cache.IsLost = false;
        site.Time.Advance(TimeSpan.FromSeconds(1));
        Assert.Equal("3", await established.DoAsync("get a"));
        Assert.Equal("5", await fresh.DoAsync("get a"));
        Assert.Equal("1", await returning.DoAsync("get a"));
        Assert.Equal(HealthStatus.Healthy, (await health.CheckHealthAsync()).Status);
        Assert.Equal(2, site.Log.Of("Millrace.Sessions").Length);
    }

    [Fact]
    public async Task A_seal_that_this_process_knows_to_be_old_is_not_shown_while_the_store_is_lost()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set user anna");
        Visitor replay = visitor.Copy();
        await visitor.DoAsync("clear");
        _cache.IsLost = true;

        Assert.Equal("-", await replay.DoAsync("get user"));
        Assert.Equal(1, site.Counters.Total(CookieRefusal.Spent));
    }

    // Another request had stored what the cookie has, and this one has merged its change into that.
    [Fact]
    public async Task Nor_is_one_whose_session_was_changed_by_a_request_that_had_to_merge()
    {
        var meeting = new Meeting(2);
        await using TestSite site = await StartAsync(null, builder => builder.Services.AddSingleton(meeting));
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set user anna");
        Visitor replay = visitor.Copy();
        Task<string> slow = visitor.Copy().DoAsync("get user;meet;set user berta");
        await meeting.FirstAsync();
        Assert.Equal("anna", await visitor.DoAsync("get user"));
        await meeting.MeetAsync();
        await slow;
        Assert.Equal("berta", await visitor.DoAsync("get user"));
        _cache.IsLost = true;

        Assert.Equal("-", await replay.DoAsync("get user"));
    }

    [Fact]
    public async Task What_is_no_entry_of_ours_is_a_new_session()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        await visitor.DoAsync("get a");
        _cache.Spoil([1, 0, 9, 9, 9]);

        Assert.Equal("-", await visitor.DoAsync("get a"));
        Assert.Equal(1, site.Counters.UnreadableTotal);
        await visitor.DoAsync("set a 2");
        Assert.Equal("2", await visitor.DoAsync("get a"));
    }

    [Theory]
    [InlineData(ConcurrentWrites.LastWriteWins, 2)]
    [InlineData(ConcurrentWrites.MergeKeys, 3)]
    public async Task Two_tabs_are_merged_where_that_is_wanted(ConcurrentWrites writes, int keys)
    {
        var meeting = new Meeting(2);
        await using TestSite site = await StartAsync(options => options.ConcurrentWrites = writes, builder => builder.Services.AddSingleton(meeting));
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set start 1");
        await visitor.DoAsync("get start");
        Task<string> late = visitor.Copy().DoAsync("get start;meet;set b 2");
        await meeting.FirstAsync();
        await visitor.Copy().DoAsync("set a 1");
        await visitor.Copy().DoAsync("meet");
        await late;

        Assert.Equal(keys, (await visitor.DoAsync("keys")).Split('+').Length);
    }

    [Theory]
    [InlineData("load;")]
    [InlineData("")]
    public async Task A_request_that_was_told_of_no_session_just_before_another_stored_it_has_it_nevertheless(string load)
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        _cache.HoldOneAnswer();
        Visitor slow = visitor.Copy();

        Task<string> late = slow.DoAsync(load + "get a;set b 2");
        await _cache.WaitForReaderAsync();
        await visitor.Copy().DoAsync("set c 3");
        _cache.ReleaseAnswer();

        Assert.Equal("1", await late);
        Assert.Equal(visitor.Cookie![..20], slow.Cookie![..20]);        // it has not become another session
        Assert.Equal("a+b+c", await visitor.DoAsync("keys"));
    }

    private Task<TestSite> StartAsync(Action<MillraceSessionOptions>? options = null, Action<WebApplicationBuilder>? build = null) => TestSite.StartAsync(options, builder =>
    {
        builder.Services.AddSingleton<IDistributedCache>(_cache);
        builder.Services.AddSingleton<IDataProtectionProvider>(_keys);
        builder.Services.AddMillraceSessionDistributedCache();
        build?.Invoke(builder);
    });
}
