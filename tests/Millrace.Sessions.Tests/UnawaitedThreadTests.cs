// A session in the hands of a thread that nobody waits for. Kestrel gives the context of a request to the next one of the connection, and the connections of a web server in
// front carry everybody's requests: what comes late changes nobody else's answer.

using Microsoft.Extensions.Caching.Distributed;
using Millrace.Sessions.Tests.Site;

namespace Millrace.Sessions.Tests;

public sealed class UnawaitedThreadTests
{
    private const int Visitors = 100;
    private const int Bytes = 5_000;

    [Fact]
    public async Task A_renewal_that_waits_for_its_store_as_its_request_ends_is_refused_and_gives_the_next_visitor_no_cookie()
    {
        var cache = new SwitchedCache();
        HttpContext? context = null;
        Task? renewal = null;
        bool wasRefused = false;
        await using TestSite site = await TestSite.StartAsync(
            build: builder => builder.Services.AddMillraceSessionDistributedCache().AddSingleton<IDistributedCache>(cache),
            use: app =>
            {
                app.UseSession();
                app.Use(async (its, next) =>
                {
                    if (its.Request.Path == "/begin")
                    {
                        context = its;
                        ISession session = its.Session;
                        cache.HoldOneAnswer();
                        renewal = Task.Run(() => session.Renew());
                        await cache.WaitForReaderAsync();
                        return;
                    }
                    if (renewal is { IsCompleted: false })
                    {
                        Assert.Same(context, its);
                        cache.ReleaseAnswer();
                        await Assert.ThrowsAsync<ObjectDisposedException>(() => renewal);
                        wasRefused = true;
                    }
                    await next();
                });
            });
        Visitor alice = site.NewVisitor();
        await alice.DoAsync("set a 1");
        await alice.DoAsync("set a 2");
        await alice.DoAsync("begin");
        Visitor bob = site.NewVisitor();

        Assert.Equal("-", await bob.DoAsync("get a"));
        Assert.Empty(bob.SetCookies);
        Assert.Equal("2", await alice.DoAsync("get a"));
        Assert.True(wasRefused);
    }

    [Theory]
    [InlineData("set")]
    [InlineData("remove")]
    [InlineData("clear")]
    public async Task What_is_changed_as_its_request_ends_gives_the_next_visitor_no_cookie(string how)
    {
        var ends = new System.Collections.Concurrent.ConcurrentQueue<Exception>();
        await using TestSite site = await TestSite.StartAsync(use: app =>
        {
            app.UseSession();
            app.Use(async (context, next) =>
            {
                if (context.Request.Path == "/begin")
                {
                    ISession session = context.Session;
                    session.SetString("a", "1");
                    await context.Response.StartAsync();
                    new Thread(() => ends.Enqueue(ChangeUntilItHasEnded(session, how))).Start();
                }
                await Task.Delay(5);
                await next();
            });
        });
        for (int i = 0; i < Visitors; i++)
        {
            await site.NewVisitor().DoAsync("begin");
            Visitor bob = site.NewVisitor();

            await bob.DoAsync("get a");
            Assert.Empty(bob.SetCookies);
        }
        Assert.Contains(ends, static end => end is ObjectDisposedException);
    }

    private static Exception ChangeUntilItHasEnded(ISession session, string how)
    {
        try
        {
            for (byte i = 0; ; i++)
            {
                session.Set("big", [.. Enumerable.Repeat(i, Bytes)]);
                if (how == "remove")
                {
                    session.Remove("big");
                }
                else if (how == "clear")
                {
                    session.Clear();
                }
            }
        }
        catch (Exception error)     // its request has ended, or its head has been made; or the values were read just then, which nobody keeps it from
        {
            return error;
        }
    }
}
