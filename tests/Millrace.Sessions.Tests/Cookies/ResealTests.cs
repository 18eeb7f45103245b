// While memory is nearly full, what is changed goes along in the cookie: whoever has to go then comes back with it, and with nothing older.

using Millrace.Sessions.Observe;
using Millrace.Sessions.Stores;
using Millrace.Sessions.Tests.Site;

namespace Millrace.Sessions.Tests.CookieAttacks;

public sealed class ResealTests
{
    [Fact]
    public async Task A_change_of_a_stored_session_stays_on_the_server_while_there_is_room()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = await StoredAsync(site);
        await visitor.DoAsync("set a 3");

        Assert.DoesNotContain('.', visitor.Cookie!);
        Assert.Equal(0, site.Counters.ResealedTotal);
    }

    [Fact]
    public async Task A_session_that_has_to_go_after_a_change_comes_back_with_its_cookie_again_and_again()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);

        for (int i = 0; i < 5; i++)
        {
            await visitor.DoAsync($"set a {i};set b{i} {i}");
            Assert.Contains('.', visitor.Cookie!);
            await FullStore.EvictAllAsync(site);
            Assert.Equal($"{i},{i}", await visitor.DoAsync($"get a;get b{i}"));
        }
        Assert.Equal(5, site.Counters.ResealedTotal);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public async Task None_but_the_newest_of_its_cookies_brings_it_back(int which)
    {
        await using TestSite site = await StartAsync();
        var cookies = new List<Visitor>();
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set credit 100");
        cookies.Add(visitor.Copy());
        await FullStore.FillAsync(site);
        foreach (int credit in (int[])[80, 60, 40])
        {
            await visitor.DoAsync($"set credit {credit}");
            cookies.Add(visitor.Copy());
        }
        await FullStore.EvictAllAsync(site);

        Assert.Equal(which == 3 ? "40" : "-", await cookies[which].DoAsync("get credit"));
        Assert.Equal(which == 3 ? 0 : 1, site.Counters.Total(CookieRefusal.Spent));
    }

    [Fact]
    public async Task The_cookie_before_is_spent_also_where_the_session_goes_at_once_each_time()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);
        await visitor.DoAsync("set credit 100");
        await FullStore.EvictAllAsync(site);
        Visitor replay = visitor.Copy();
        await visitor.DoAsync("set credit 0");
        await FullStore.EvictAllAsync(site);

        Assert.Equal("-", await replay.DoAsync("get credit"));
        Assert.Equal("0", await visitor.DoAsync("get credit"));
    }

    [Fact]
    public async Task What_the_server_has_counts_as_long_as_it_has_it()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);
        await visitor.DoAsync("set a 8");
        Visitor replay = visitor.Copy();
        await visitor.DoAsync("set a 9");

        Assert.Equal("9", await replay.DoAsync("get a"));
    }

    [Fact]
    public async Task A_change_behind_the_head_is_stored_and_no_cookie_brings_back_what_was_before_it()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);
        await visitor.DoAsync("set a 8;flush;set a 9");
        Assert.Contains('.', visitor.Cookie!);
        Visitor replay = visitor.Copy();

        Assert.Equal("9", await visitor.DoAsync("get a"));
        await FullStore.EvictAllAsync(site);
        Assert.Equal("-", await replay.DoAsync("get a"));
        Assert.Equal(1, site.Counters.Total(CookieRefusal.Spent));
    }

    [Fact]
    public async Task What_another_request_has_changed_at_the_same_time_is_never_lost_by_a_cookie_that_did_not_know_it()
    {
        await using TestSite site = await StartAsync(
            static options => options.ConcurrentWrites = ConcurrentWrites.MergeKeys, static builder => builder.Services.AddSingleton(new Meeting(2)));
        Visitor one = await StoredAsync(site);
        Visitor two = one.Copy();
        await FullStore.FillAsync(site);
        await Task.WhenAll(one.DoAsync("get a;meet;set b 1"), two.DoAsync("get a;meet;set c 1"));
        Assert.Equal("a+b+c", await one.DoAsync("keys"));
        await FullStore.EvictAllAsync(site);

        // The one that wrote last has merged, and has all of it in its cookie.
        string first = await one.DoAsync("keys");
        await FullStore.EvictAllAsync(site);
        Assert.Equal(["", "a+b+c"], new[] { first, await two.DoAsync("keys") }.Order());
        Assert.Equal(1, site.Counters.Total(CookieRefusal.Spent));
    }

    [Fact]
    public async Task Signed_out_it_has_nothing_in_its_cookie_and_none_from_before_is_good()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);
        await visitor.DoAsync("set user anna");
        Visitor replay = visitor.Copy();
        await visitor.DoAsync("clear");
        Assert.DoesNotContain('.', visitor.Cookie!);
        await FullStore.EvictAllAsync(site);

        Assert.Equal("-", await replay.DoAsync("get user"));
        Assert.Equal("-", await visitor.DoAsync("get user"));
    }

    [Fact]
    public async Task Renewed_it_comes_back_under_its_new_name_alone()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);
        await visitor.DoAsync("set a 5");
        Visitor before = visitor.Copy();
        await visitor.DoAsync("renew");
        Assert.NotEqual(before.Cookie![..22], visitor.Cookie![..22]);
        await FullStore.EvictAllAsync(site);

        Assert.Equal("-", await before.DoAsync("get a"));
        Assert.Equal("5", await visitor.DoAsync("get a"));
    }

    [Fact]
    public async Task A_redirect_takes_the_values_along_as_well()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);
        await visitor.DoAsync("set a 7;away");
        await FullStore.EvictAllAsync(site);
        Assert.Equal("7", await visitor.DoAsync("get a"));

        await visitor.DoAsync("set a 8;renew;away");
        await FullStore.EvictAllAsync(site);
        Assert.Equal("8", await visitor.DoAsync("get a"));
    }

    [Fact]
    public async Task What_is_committed_before_the_head_goes_along_in_it()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);
        await visitor.DoAsync("set a 7;commit");
        await FullStore.EvictAllAsync(site);

        Assert.Equal("7", await visitor.DoAsync("get a"));
    }

    [Fact]
    public async Task A_session_that_goes_while_a_request_changes_it_is_brought_back_by_the_newest_cookie_alone()
    {
        var meeting = new Meeting(2);
        await using TestSite site = await StartAsync(null, builder => builder.Services.AddSingleton(meeting));
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);
        await visitor.DoAsync("set credit 100");
        Visitor replay = visitor.Copy();
        await DuringAsync(visitor, "get credit;meet;set credit 0", meeting, () => FullStore.EvictAllAsync(site));
        await FullStore.EvictAllAsync(site);

        Assert.Equal("-", await replay.DoAsync("get credit"));
        Assert.Equal("0", await visitor.DoAsync("get credit"));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task No_cookie_brings_back_what_another_request_had_between_the_load_and_the_write_of_one(bool isSealedBefore)
    {
        var meeting = new Meeting(2);
        await using TestSite site = await StartAsync(null, builder => builder.Services.AddSingleton(meeting));
        Visitor visitor = await StoredAsync(site);
        if (isSealedBefore)
        {
            await FullStore.FillAsync(site);
        }
        await visitor.DoAsync("set credit 100");
        Visitor other = visitor.Copy();
        await FullStore.FillAsync(site);
        await DuringAsync(visitor, "get credit;meet;set credit 0", meeting, async () =>
        {
            await other.DoAsync("set credit 50");
            await FullStore.EvictAllAsync(site);
        });
        await FullStore.EvictAllAsync(site);

        Assert.Equal("-", await other.DoAsync("get credit"));
    }

    [Fact]
    public async Task A_change_that_is_refused_is_in_no_cookie()
    {
        var meeting = new Meeting(2);
        await using TestSite site = await StartAsync(null, builder => builder.Services.AddSingleton(meeting));
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);
        await visitor.DoAsync("set coupon 1");
        await FullStore.EvictAllAsync(site);
        Visitor stale = visitor.Copy();
        await DuringAsync(stale, "get coupon;meet;set x 1", meeting, async () =>
        {
            await visitor.DoAsync("set coupon 0");
            await FullStore.EvictAllAsync(site);
        });
        Assert.Equal(1, site.Counters.Total(WriteRejection.Ended));
        await FullStore.EvictAllAsync(site);

        Assert.Equal("-", await stale.DoAsync("get coupon"));
        Assert.Equal("0", await visitor.DoAsync("get coupon"));
    }

    // Both are tabs of one browser: the cookie that comes last is the one that it keeps.
    [Theory]
    [InlineData("set coupon 0")]
    [InlineData("renew")]
    public async Task One_that_is_refused_takes_no_newer_cookie_away(string newer)
    {
        var meeting = new Meeting(2);
        await using TestSite site = await StartAsync(null, builder => builder.Services.AddSingleton(meeting));
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);
        await visitor.DoAsync("set coupon 1");
        await FullStore.EvictAllAsync(site);
        Visitor stale = visitor.Copy();
        await DuringAsync(stale, "get coupon;meet;set x 1", meeting, async () =>
        {
            await visitor.DoAsync(newer);
            await FullStore.EvictAllAsync(site);
        });

        Assert.Empty(stale.SetCookies);
        Assert.Equal(newer == "renew" ? "1" : "0", await visitor.DoAsync("get coupon"));
    }

    [Fact]
    public async Task A_session_that_vanishes_in_two_requests_is_stored_both_times()
    {
        var meeting = new Meeting(2);
        await using TestSite site = await StartAsync(static options => options.SealedBytesMax = 0, builder => builder.Services.AddSingleton(meeting));
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        for (int i = 0; i < 2; i++)
        {
            meeting.Reset();
            await DuringAsync(visitor, $"get a;meet;set a {i}", meeting, () => FullStore.EvictAllAsync(site));
            Assert.Equal($"{i}", await visitor.DoAsync("get a"));
        }
        Assert.Equal(0, site.Counters.Total(WriteRejection.Ended));
    }

    [Fact]
    public async Task Two_changes_in_one_request_leave_its_own_cookie_good_when_the_session_goes_in_between()
    {
        var meeting = new Meeting(2);
        await using TestSite site = await StartAsync(null, builder => builder.Services.AddSingleton(meeting));
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);
        await visitor.DoAsync("set a 5");
        await DuringAsync(visitor, "set a 6;commit;meet;set a 7", meeting, () => FullStore.EvictAllAsync(site));
        await FullStore.EvictAllAsync(site);

        Assert.Equal("7", await visitor.DoAsync("get a"));
    }

    [Fact]
    public async Task What_became_too_large_before_the_head_leaves_the_cookie_that_it_had()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);
        await visitor.DoAsync("set a 5");
        await FullStore.EvictAllAsync(site);
        await visitor.DoAsync("set a 6;big b 300000");

        Assert.Equal("5", await visitor.DoAsync("get a"));
    }

    [Fact]
    public async Task What_became_too_large_behind_the_head_leaves_no_cookie_that_outlives_the_next_change()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);
        await visitor.DoAsync("set a 8;flush;big b 300000");
        Assert.Equal(1, site.Counters.Total(WriteRejection.TooLarge));
        Visitor replay = visitor.Copy();
        await visitor.DoAsync("set a 9");
        await FullStore.EvictAllAsync(site);

        Assert.Equal("-", await replay.DoAsync("get a"));
        Assert.Equal("9", await visitor.DoAsync("get a"));
    }

    [Fact]
    public async Task Renewed_it_has_ended_also_where_its_next_request_was_faster_than_the_end_of_the_response()
    {
        var meeting = new Meeting(2);
        await using TestSite site = await StartAsync(null, builder => builder.Services.AddSingleton(meeting));
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);
        await visitor.DoAsync("set a 5");
        Visitor before = visitor.Copy();
        await DuringAsync(visitor, "renew;flush;meet;set b 1", meeting, async () =>
        {
            Assert.Equal("-", await before.DoAsync("get a"));
        });

        Assert.Equal("-", await before.DoAsync("get a"));
        Assert.Equal("5,1", await visitor.DoAsync("get a;get b"));
    }

    [Fact]
    public async Task Keys_that_others_have_changed_stay_when_one_request_changes_the_session_before_and_behind_its_head()
    {
        var meeting = new Meeting(2);
        await using TestSite site = await StartAsync(static options => options.ConcurrentWrites = ConcurrentWrites.MergeKeys, builder => builder.Services.AddSingleton(meeting));
        Visitor visitor = await StoredAsync(site);
        Visitor other = visitor.Copy();
        await FullStore.FillAsync(site);
        await DuringAsync(visitor, "get a;meet;set b 1;flush;set c 1", meeting, () => other.DoAsync("set d 1"));

        Assert.Equal("a+b+c+d", await visitor.DoAsync("keys"));
    }

    // It is spent in the moment between the look into the store and the look at the cookie.
    [Fact]
    public async Task Of_two_tabs_with_one_cookie_none_loses_the_session_when_the_other_is_faster_by_a_moment()
    {
        await using TestSite site = await StartAsync(null, static builder => builder.Services.AddSingleton<ISessionBackingStore>(static provider => new BlindStore(provider.GetRequiredService<MemorySessionStore>())));
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        Visitor tab = visitor.Copy();
        await visitor.DoAsync("set a 2");
        ((BlindStore)site.Services.GetRequiredService<ISessionBackingStore>()).IsBlindOnce = true;

        Assert.Equal("2", await tab.DoAsync("get a"));
    }

    // Another server's clock may be ahead of that which has sealed the cookie, or behind it: by as much as a seal is taken for good.
    [Theory]
    [InlineData("renew")]
    [InlineData("clear;renew")]
    public async Task That_a_session_has_ended_is_remembered_for_longer_than_its_cookie_may_be_good_for_anybody(string steps)
    {
        await using TestSite site = await StartAsync(null, static builder => builder.Services.AddSingleton<ISessionBackingStore>(static provider => new BlindStore(provider.GetRequiredService<MemorySessionStore>())));
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        await visitor.DoAsync(steps);

        Assert.Equal(TimeSpan.FromMinutes(20) + TimeSpan.FromSeconds(Millrace.Sessions.Cookies.SessionSeal.AheadSecondsMax + 2), ((BlindStore)site.Services.GetRequiredService<ISessionBackingStore>()).RememberedFor);
    }

    // Its options may say longer than those that AddMillraceSession was given: what is spent is known for so long, unless something was spent before anybody knew of them.
    [Theory]
    [InlineData(false, "1", 0)]
    [InlineData(true, "-", 1)]
    public async Task A_cookie_is_good_for_no_longer_than_it_is_known_to_be_spent(bool isLate, string value, int refused)
    {
        await using TestSite site = await TestSite.StartAsync(use: app =>
        {
            if (isLate)
            {
                app.Services.GetRequiredService<SpentSeals>().Add(Millrace.Sessions.Cookies.SessionToken.New().Key);
            }
            app.UseSession(new SessionOptions { IdleTimeout = TimeSpan.FromHours(8) });
        });
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        site.Time.Advance(TimeSpan.FromMinutes(21));

        Assert.Equal(value, await visitor.DoAsync("get a"));
        Assert.Equal(refused, site.Counters.Total(CookieRefusal.SealExpired));
    }

    [Fact]
    public async Task What_is_too_long_for_a_cookie_stays_on_the_server()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);
        await visitor.DoAsync("big a 2000");

        Assert.DoesNotContain('.', visitor.Cookie!);
        Assert.Equal("2000", await visitor.DoAsync("length a"));
        Assert.Equal(0, site.Counters.ResealedTotal);
    }

    [Fact]
    public async Task Reading_writes_no_cookie()
    {
        await using TestSite site = await StartAsync();
        Visitor visitor = await StoredAsync(site);
        await FullStore.FillAsync(site);

        await visitor.DoAsync("get a;set a 2");

        Assert.Empty(visitor.SetCookies);
    }

    // Something happens while a request waits at its "meet".
    private static async Task DuringAsync(Visitor visitor, string steps, Meeting meeting, Func<Task> meanwhile)
    {
        Task<string> request = visitor.DoAsync(steps);
        await meeting.FirstAsync();
        await meanwhile();
        await meeting.MeetAsync();
        await request;
    }

    private static Task<TestSite> StartAsync(Action<MillraceSessionOptions>? options = null, Action<WebApplicationBuilder>? build = null) => TestSite.StartAsync(
        all =>
        {
            all.BudgetBytes = MillraceSessionOptions.BudgetBytesMin;
            options?.Invoke(all);
        },
        build);

    // It was changed on the server, and the client has nothing in its cookie.
    private static async Task<Visitor> StoredAsync(TestSite site)
    {
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        await visitor.DoAsync("get a");
        await visitor.DoAsync("set a 2");
        Assert.DoesNotContain('.', visitor.Cookie!);
        return visitor;
    }

    private sealed class BlindStore(MemorySessionStore inner) : ISessionBackingStore
    {
        public bool IsBlindOnce { get; set; }

        public long Epoch => inner.Epoch;

        public bool IsLocal => true;

        public StoredSession? Load(SessionKey key)
        {
            bool isBlind = IsBlindOnce;
            IsBlindOnce = false;
            return isBlind ? null : inner.Load(key);
        }

        public ValueTask<StoredSession?> LoadAsync(SessionKey key, CancellationToken cancellationToken) => ValueTask.FromResult(Load(key));

        public ValueTask<SessionWriteResult> WriteAsync(SessionWrite write, CancellationToken cancellationToken) => inner.WriteAsync(write, cancellationToken);

        public ValueTask TouchAsync(SessionKey key, TimeSpan idleTimeout, CancellationToken cancellationToken) => inner.TouchAsync(key, idleTimeout, cancellationToken);

        public TimeSpan RememberedFor { get; private set; }

        public ValueTask EndAsync(SessionKey key, TimeSpan remember, CancellationToken cancellationToken)
        {
            RememberedFor = remember;
            return inner.EndAsync(key, remember, cancellationToken);
        }
    }
}
