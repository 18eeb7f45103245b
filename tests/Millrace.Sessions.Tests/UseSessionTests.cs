// app.UseSession() means the sessions of this package where AddMillraceSession() was called, and ASP.NET Core's elsewhere.

using Microsoft.AspNetCore.Session;
using Millrace.Sessions.Tests.Site;

namespace Millrace.Sessions.Tests;

public sealed class UseSessionTests
{
    [Fact]
    public async Task With_AddSession_it_is_that_of_the_framework()
    {
        await using TestSite site = await TestSite.StartStockAsync();
        Visitor visitor = site.NewVisitor();

        await visitor.DoAsync("set a 1");

        Assert.StartsWith("CfDJ8", visitor.Cookie, StringComparison.Ordinal);      // protected
        Assert.Equal("1", await visitor.DoAsync("get a"));
    }

    [Fact]
    public async Task In_a_branch_it_is_the_same()
    {
        await using TestSite site = await TestSite.StartAsync(use: static app =>
            app.UseWhen(static _ => true, static branch => branch.UseSession()));
        Visitor visitor = site.NewVisitor();

        await visitor.DoAsync("set a 1");

        Assert.Equal("1", await visitor.DoAsync("get a"));
        Assert.Equal(1, site.Counters.PromotedTotal);
    }

    [Fact]
    public async Task With_options_of_its_own_it_has_their_cookie_and_times()
    {
        await using TestSite site = await TestSite.StartAsync(use: static app =>
            app.UseSession(new SessionOptions { IdleTimeout = TimeSpan.FromMinutes(1), Cookie = new SessionOptions().Cookie }));
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        await visitor.DoAsync("get a");

        site.Time.Advance(TimeSpan.FromSeconds(61));

        Assert.Equal("-", await visitor.DoAsync("get a"));
    }

    [Fact]
    public async Task The_middleware_of_the_framework_which_code_compiled_elsewhere_puts_in_keeps_its_sessions_here_and_that_is_said_once()
    {
        await using TestSite site = await TestSite.StartAsync(use: static app => app.UseMiddleware<Microsoft.AspNetCore.Session.SessionMiddleware>());
        Visitor visitor = site.NewVisitor();

        await visitor.DoAsync("set a 1");
        Assert.Equal(1, site.Store.Live);
        Assert.Equal("1", await visitor.DoAsync("get a;set b 2"));
        Assert.Equal("a+b", await visitor.DoAsync("keys"));
        Assert.Equal("InvalidOperationException", await visitor.DoAsync("renew"));
        Assert.Single(site.Log.Of("Millrace.Sessions"));
    }

    [Fact]
    public void It_needs_AddMillraceSession_where_it_is_called_by_its_own_name()
    {
        var app = new ApplicationBuilder(new ServiceCollection().AddOptions().BuildServiceProvider());

        Assert.Throws<InvalidOperationException>(() => app.UseMillraceSession());
    }

    [Fact]
    public async Task Of_AddSession_and_AddMillraceSession_in_any_order_the_latter_holds()
    {
        await using TestSite before = await TestSite.StartAsync(build: static builder => builder.Services.AddSession());
        Assert.Contains("StockSessionStore", before.Services.GetRequiredService<ISessionStore>().GetType().Name, StringComparison.Ordinal);
    }

    public static TheoryData<string, Action<MillraceSessionOptions>, bool> Ranges => new()
    {
        { "BudgetBytes", static o => o.BudgetBytes = 1 << 20, true },
        { "BudgetBytes", static o => o.BudgetBytes = (1 << 20) - 1, false },
        { "BudgetBytes", static o => o.BudgetBytes = (1L << 40) + 1, false },
        { "SessionBytesMax", static o => o.SessionBytesMax = 1024, true },
        { "SessionBytesMax", static o => o.SessionBytesMax = 1023, false },
        { "SessionBytesMax", static o => o.SessionBytesMax = 16 << 20, true },
        { "SessionBytesMax", static o => o.SessionBytesMax = (16 << 20) + 1, false },
        { "SealedBytesMax", static o => o.SealedBytesMax = 2560, true },
        { "SealedBytesMax", static o => o.SealedBytesMax = 2561, false },
        { "SealedBytesMax", static o => o.SealedBytesMax = -1, false },
        { "SealValidity", static o => o.SealValidity = TimeSpan.FromMinutes(1), true },
        { "SealValidity", static o => o.SealValidity = TimeSpan.FromSeconds(59), false },
        { "SealValidity", static o => o.SealValidity = TimeSpan.FromDays(1), true },
        { "SealValidity", static o => o.SealValidity = TimeSpan.FromDays(1.1), false },
        { "ClientShare", static o => o.ClientShare = 0.001, true },
        { "ClientShare", static o => o.ClientShare = 0.0009, false },
        { "ClientShare", static o => o.ClientShare = 1, true },
        { "ClientShare", static o => o.ClientShare = 1.01, false },
        { "ClientShare", static o => o.ClientShare = double.NaN, false },
        { "IdleTimeout", static o => o.IdleTimeout = TimeSpan.Zero, false },
        { "ConcurrentWrites", static o => o.ConcurrentWrites = (ConcurrentWrites)2, false },
    };

    [Theory]
    [MemberData(nameof(Ranges))]
    public void An_option_out_of_its_range_is_said_when_the_pipeline_is_built(string name, Action<MillraceSessionOptions> set, bool isGood)
    {
        var services = new ServiceCollection();
        services.AddLogging().AddMillraceSession(set);
        var app = new ApplicationBuilder(services.BuildServiceProvider());

        Exception? fault = Record.Exception(() => app.UseSession());

        Assert.Equal(isGood, fault is null);
        Assert.True(isGood || fault!.Message.Contains(name, StringComparison.Ordinal), fault?.Message);
    }

    [Theory]
    [InlineData(65_536, true)]
    [InlineData(65_537, false)]
    public async Task A_session_beyond_SessionBytesMax_is_not_stored_and_said_and_stays_as_it_was(int bytes, bool isStored)
    {
        await using TestSite site = await TestSite.StartAsync(static options => options.SessionBytesMax = 64 << 10);
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set k 1");
        await visitor.DoAsync("get k");

        await visitor.DoAsync($"remove k;big a {bytes - 6}");       // version; length and key; length of the value in three bytes

        Assert.Equal(isStored ? "a" : "k", await visitor.DoAsync("keys"));
        Assert.Equal(isStored ? 0 : 1, site.Log.Of("Millrace.Sessions").Length);
    }
}
