// What a client, or somebody who has its cookie, may try with a cookie that has values in it, and what he gets.

using System.Buffers.Text;
using Microsoft.AspNetCore.DataProtection;
using Millrace.Sessions.Cookies;
using Millrace.Sessions.Observe;
using Millrace.Sessions.Stores;
using Millrace.Sessions.Tests.Site;

namespace Millrace.Sessions.Tests.CookieAttacks;

public sealed class SealedCookieAttackTests
{
    [Fact]
    public async Task Cut_anywhere_it_is_a_new_session_and_a_count()
    {
        await using TestSite site = await TestSite.StartAsync();
        string cookie = await SealedAsync(site, "set role admin");
        int tokenOnly = SessionToken.Length;

        for (int length = 0; length < cookie.Length; length++)
        {
            Visitor attacker = site.NewVisitor();
            attacker.Cookie = cookie[..length];
            Assert.Equal("-", await attacker.DoAsync("get role"));
            Assert.Empty(attacker.SetCookies);
        }

        // An empty one is none; the token alone is that of a session which the server has nothing of.
        Assert.Equal(tokenOnly, site.Counters.Total(CookieRefusal.Malformed));
        Assert.Equal(cookie.Length - tokenOnly - 2, site.Counters.Total(CookieRefusal.SealUnreadable));
        Assert.Equal(0, site.Store.Live);
    }

    [Fact]
    public async Task A_changed_character_anywhere_is_a_new_session()
    {
        await using TestSite site = await TestSite.StartAsync();
        string cookie = await SealedAsync(site, "set role admin");

        for (int i = 0; i < cookie.Length; i++)
        {
            Visitor attacker = site.NewVisitor();
            attacker.Cookie = cookie[..i] + (cookie[i] == 'A' ? 'Q' : 'A') + cookie[(i + 1)..];
            Assert.Equal("-", await attacker.DoAsync("get role"));
        }
        Assert.Equal(0, site.Store.Live);
    }

    [Fact]
    public async Task Two_joined_are_a_new_session()
    {
        await using TestSite site = await TestSite.StartAsync();
        string first = await SealedAsync(site, "set role user");
        string second = await SealedAsync(site, "set role admin");

        string[] joined =
        [
            first + second, first + "." + second, first[..SessionToken.Length] + second, first + second[SessionToken.Length..],
            first[..(first.Length / 2)] + second[(first.Length / 2)..],
        ];
        foreach (string cookie in joined)
        {
            Visitor attacker = site.NewVisitor();
            attacker.Cookie = cookie;
            Assert.Equal("-", await attacker.DoAsync("get role"));
        }
        Assert.Equal(0, site.Store.Live);
    }

    [Fact]
    public async Task The_seal_of_another_user_opens_nothing_behind_ones_own_token()
    {
        await using TestSite site = await TestSite.StartAsync();
        string user = await SealedAsync(site, "set role user");
        string admin = await SealedAsync(site, "set role admin");
        Visitor attacker = site.NewVisitor();
        attacker.Cookie = user[..SessionToken.Length] + admin[SessionToken.Length..];

        Assert.Equal("-", await attacker.DoAsync("get role"));

        Assert.Equal(1, site.Counters.Total(CookieRefusal.SealOfAnotherSession));
    }

    [Fact]
    public async Task The_seal_of_another_user_changes_nothing_of_a_session_that_the_server_has()
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor user = site.NewVisitor();
        await user.DoAsync("set role user");
        await user.DoAsync("get role");
        string admin = await SealedAsync(site, "set role admin");
        user.Cookie = user.Cookie![..SessionToken.Length] + admin[SessionToken.Length..];

        Assert.Equal("user", await user.DoAsync("get role"));
    }

    [Fact]
    public async Task Replayed_after_the_server_has_a_copy_it_shows_the_copy()
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set credit 100");
        Visitor replay = visitor.Copy();
        await visitor.DoAsync("set credit 0");

        Assert.Equal("0", await replay.DoAsync("get credit"));
        Assert.Equal("0", await visitor.DoAsync("get credit"));
    }

    [Fact]
    public async Task Replayed_after_sign_out_it_shows_nothing()
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set user anna");
        Visitor replay = visitor.Copy();
        await visitor.DoAsync("clear");

        Assert.Equal("-", await replay.DoAsync("get user"));
        Assert.Equal("-", await visitor.DoAsync("get user"));
    }

    [Fact]
    public async Task Replayed_after_sign_out_when_the_time_of_day_has_been_set_back_it_shows_nothing()
    {
        await using TestSite site = await TestSite.StartAsync(static options => options.SealValidity = TimeSpan.FromMinutes(5));
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set user anna");
        Visitor replay = visitor.Copy();
        await visitor.DoAsync("clear");
        for (int i = 0; i < 3; i++)
        {
            site.Time.Advance(TimeSpan.FromMinutes(10));
            await site.NewVisitor().DoAsync("set a 1;clear");       // what is spent is forgotten as others are noted
        }

        site.Time.SetBack(TimeSpan.FromMinutes(29));

        Assert.Equal("-", await replay.DoAsync("get user"));
        Assert.Equal(1, site.Counters.Total(CookieRefusal.SealExpired));
    }

    [Fact]
    public async Task Replayed_after_a_changed_session_was_evicted_it_shows_nothing()
    {
        await using TestSite site = await TestSite.StartAsync(static options => options.BudgetBytes = MillraceSessionOptions.BudgetBytesMin);
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set credit 100");
        Visitor replay = visitor.Copy();
        await visitor.DoAsync("set credit 0");
        await FullStore.EvictAllAsync(site);

        Assert.Equal("-", await replay.DoAsync("get credit"));
        Assert.Equal(1, site.Counters.Total(CookieRefusal.Spent));
    }

    [Fact]
    public async Task A_session_that_was_evicted_as_it_had_come_comes_back_with_its_cookie()
    {
        await using TestSite site = await TestSite.StartAsync(static options => options.BudgetBytes = MillraceSessionOptions.BudgetBytesMin);
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        await visitor.DoAsync("get a");
        await FullStore.EvictAllAsync(site);

        Assert.Equal("1", await visitor.DoAsync("get a"));
        Assert.Equal(2, site.Counters.PromotedTotal);
    }

    [Fact]
    public async Task Replayed_after_it_was_renewed_it_shows_nothing_and_nothing_can_be_stored_for_it()
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set cart book");
        Visitor replay = visitor.Copy();
        await visitor.DoAsync("renew;set user anna");

        Assert.Equal("-,-", await replay.DoAsync("get user;get cart"));
        await replay.DoAsync("set evil 1");
        Assert.Equal("anna,book,-", await visitor.DoAsync("get user;get cart;get evil"));
    }

    [Fact]
    public async Task A_seal_is_good_for_SealValidity_and_no_longer()
    {
        await using TestSite site = await TestSite.StartAsync(static options => options.SealValidity = TimeSpan.FromMinutes(5));
        string cookie = await SealedAsync(site, "set a 1");
        Visitor inTime = site.NewVisitor();
        inTime.Cookie = cookie;
        string other = await SealedAsync(site, "set a 1");
        Visitor late = site.NewVisitor();
        late.Cookie = other;

        site.Time.Advance(TimeSpan.FromSeconds(300));
        Assert.Equal("1", await inTime.DoAsync("get a"));
        site.Time.Advance(TimeSpan.FromSeconds(1));
        Assert.Equal("-", await late.DoAsync("get a"));
        Assert.Equal(1, site.Counters.Total(CookieRefusal.SealExpired));
    }

    [Fact]
    public async Task After_the_keys_are_gone_it_is_a_new_session_and_a_count_and_a_stored_session_stays()
    {
        var keys = new ChangingKeys();
        await using TestSite site = await TestSite.StartAsync(build: builder => builder.Services.AddSingleton<IDataProtectionProvider>(keys));
        Visitor stored = site.NewVisitor();
        await stored.DoAsync("set a 1");
        await stored.DoAsync("get a");
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        keys.Forget();

        Assert.Equal("-", await visitor.DoAsync("get a"));
        Assert.Equal(1, site.Counters.Total(CookieRefusal.SealUnreadable));
        Assert.Equal("1", await stored.DoAsync("get a"));
        await visitor.DoAsync("set a 2");
        Assert.Equal("2", await visitor.DoAsync("get a"));
        Assert.Empty(site.Log.Of("Millrace"));
    }

    [Fact]
    public async Task A_seal_of_a_process_that_has_ended_is_a_new_session()
    {
        var keys = new EphemeralDataProtectionProvider();
        void Share(WebApplicationBuilder builder) => builder.Services.AddSingleton<IDataProtectionProvider>(keys);
        await using TestSite before = await TestSite.StartAsync(build: Share);
        await using TestSite after = await TestSite.StartAsync(build: Share);
        string cookie = await SealedAsync(before, "set a 1");
        Visitor visitor = after.NewVisitor();
        visitor.Cookie = cookie;

        Assert.Equal("-", await visitor.DoAsync("get a"));
        Assert.Equal(1, after.Counters.Total(CookieRefusal.SealOfAnotherEpoch));
    }

    [Theory]
    [InlineData(4096, 0, 1)]
    [InlineData(4097, 1, 0)]
    public async Task One_longer_than_a_browser_keeps_is_not_looked_into(int length, int malformed, int unreadable)
    {
        await using TestSite site = await TestSite.StartAsync();
        string cookie = await SealedAsync(site, "set a 1");
        Visitor attacker = site.NewVisitor();
        attacker.Cookie = cookie.PadRight(length, 'A');

        Assert.Equal("-", await attacker.DoAsync("get a"));
        Assert.Equal(malformed, site.Counters.Total(CookieRefusal.Malformed));
        Assert.Equal(unreadable, site.Counters.Total(CookieRefusal.SealUnreadable));
    }

    [Fact]
    public async Task Of_a_thousand_in_one_request_one_is_looked_at()
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor attacker = site.NewVisitor();
        string forged = $"{SessionToken.New()}.AAAA";
        attacker.Cookie = string.Join($"; {Visitor.CookieName}=", Enumerable.Repeat(forged, 500));

        Assert.Equal("-", await attacker.DoAsync("get a"));

        Assert.Equal(1, site.Counters.Total(CookieRefusal.SealUnreadable));
        Assert.Equal("", await attacker.DoAsync(""));
    }

    [Fact]
    public async Task Thousands_of_invented_ones_leave_nothing()
    {
        await using TestSite site = await TestSite.StartAsync();
        for (int i = 0; i < 2_000; i++)
        {
            Visitor attacker = site.NewVisitor();
            attacker.Cookie = i % 2 == 0 ? SessionToken.New().ToString() : $"{SessionToken.New()}.{Base64Url.EncodeToString(new byte[i])}";
            Assert.Equal("-", await attacker.DoAsync("get a"));
            Assert.Empty(attacker.SetCookies);
        }

        Assert.Equal(0, site.Store.Live);
        Assert.Equal(site.Store.FixedBytes, site.Store.Bytes);
    }

    [Fact]
    public async Task A_token_that_a_client_has_invented_never_becomes_the_name_of_a_session()
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor victim = site.NewVisitor();
        string invented = SessionToken.New().ToString();
        victim.Cookie = invented;

        await victim.DoAsync("set user anna");

        Assert.NotEqual(invented, victim.Cookie[..SessionToken.Length]);
        Visitor attacker = site.NewVisitor();
        attacker.Cookie = invented;
        Assert.Equal("-", await attacker.DoAsync("get user"));
    }

    [Theory]
    [InlineData("; ; ;")]
    [InlineData("%00%ff")]
    [InlineData("ключ")]
    [InlineData("......................")]
    [InlineData("AAAAAAAAAAAAAAAAAAAAAA.")]
    [InlineData("AAAAAAAAAAAAAAAAAAAAAA..")]
    [InlineData("AAAAAAAAAAAAAAAAAAAAAA. ")]
    [InlineData("CfDJ8N5Zk0VYdE9Hs2mCkq1wYy7lBq3m0c0yZzZx1i2hWvYxJmKkTtUuPpQqRrSs")]      // of AddSession()
    public async Task What_is_no_cookie_of_ours_is_no_error(string cookie)
    {
        await using TestSite site = await TestSite.StartAsync();
        Visitor visitor = site.NewVisitor();
        visitor.Cookie = Uri.EscapeDataString(cookie);

        Assert.Equal("-", await visitor.DoAsync("get a"));
        await visitor.DoAsync("set a 1");
        Assert.Equal("1", await visitor.DoAsync("get a"));
    }

    private static async Task<string> SealedAsync(TestSite site, string steps)
    {
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync(steps);
        Assert.Contains('.', visitor.Cookie!);
        return visitor.Cookie!;
    }

    private sealed class ChangingKeys : IDataProtectionProvider, IDataProtector
    {
        private EphemeralDataProtectionProvider _keys = new();

        public void Forget() => _keys = new EphemeralDataProtectionProvider();

        public IDataProtector CreateProtector(string purpose) => this;

        public byte[] Protect(byte[] plaintext) => _keys.CreateProtector("x").Protect(plaintext);

        public byte[] Unprotect(byte[] protectedData) => _keys.CreateProtector("x").Unprotect(protectedData);
    }
}
