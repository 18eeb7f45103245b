// A request that does not use its session costs one small object: nothing is decrypted, random or written.

using System.Diagnostics.CodeAnalysis;
using Microsoft.AspNetCore.DataProtection;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.Extensions.Caching.Distributed;
using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Sessions.Cookies;
using Millrace.Sessions.Tests.Site;

namespace Millrace.Sessions.Tests;

[Collection(AloneCollection.Name)]
public sealed class LazinessTests(ITestOutputHelper output)
{
    private const int Rounds = 2_000;
    private const int FeatureSize = 40;     // an object of each request's own: what was kept of one must never open the session of another

    [Theory]
    [InlineData("none")]
    [InlineData("of another")]
    [InlineData("token")]
    [InlineData("sealed")]
    public void A_request_that_does_not_use_its_session_allocates_one_small_object_more_than_without(string cookie)
    {
        ServiceProvider services = Services(static s => s.AddMillraceSession());
        RequestDelegate without = Pipeline(services, static _ => { });
        RequestDelegate with = Pipeline(services, static app => app.UseSession());
        ServiceProvider stockServices = Services(static s => s.AddDistributedMemoryCache().AddSession());
        RequestDelegate stock = Pipeline(stockServices, static app => SessionMiddlewareExtensions.UseSession(app));
        string? field = cookie switch
        {
            "none" => null,
            "of another" => "theme=dark; .AspNetCore.SessionX=1",
            "token" => $"{Visitor.CookieName}={SessionToken.New()}",
            _ => $"a=b; {Visitor.CookieName}={SessionToken.New()}.AAAA",
        };

        long bare = Allocated(without, field);
        long ours = Allocated(with, field);
        long theirs = Allocated(stock, field);
        output.WriteLine($"cookie {cookie}: {ours / (double)Rounds:F1} bytes per request, without {bare / (double)Rounds:F1}, AddSession {theirs / (double)Rounds:F1}");

        Assert.Equal(bare + (FeatureSize * Rounds), ours);
        Assert.True(theirs > bare + (100 * Rounds), "the measurement does not see what AddSession allocates");
    }

    [Fact]
    public async Task Nothing_is_protected_for_a_request_that_does_not_use_its_session_nor_for_one_that_only_reads()
    {
        var protection = new CountingProtection();
        await using TestSite site = await TestSite.StartAsync(build: builder => builder.Services.AddSingleton<IDataProtectionProvider>(protection));
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("");
        await visitor.DoAsync("get a;id");
        Assert.Equal(0, protection.Calls);

        await visitor.DoAsync("set a 1");
        Assert.Equal(1, protection.Calls);      // the seal
        await visitor.DoAsync("");
        Assert.Equal(1, protection.Calls);
        await visitor.DoAsync("get a");
        Assert.Equal(2, protection.Calls);      // it comes back
        await visitor.DoAsync("get a");
        await visitor.DoAsync("set a 2");
        Assert.Equal(2, protection.Calls);      // the server has it
    }

    [Fact]
    public async Task The_feature_of_a_request_that_has_ended_opens_no_session_of_the_next()
    {
        ISessionFeature? kept = null;
        ISession? session = null;
        await using TestSite site = await TestSite.StartAsync(use: app =>
        {
            app.UseSession();
            app.Use(async (context, next) =>
            {
                if (kept is null)
                {
                    kept = context.Features.Get<ISessionFeature>();
                    await Task.Yield();         // it does not end in its turn
                }
                else
                {
                    session = context.Session;
                }
                await next();
            });
        });
        await site.NewVisitor().DoAsync("");
        await site.NewVisitor().DoAsync("set secret 1");

        Assert.Throws<ObjectDisposedException>(() => kept!.Session);
        Assert.Throws<ObjectDisposedException>(() => session!.SetString("late", "1"));
    }

    [Fact]
    public async Task The_feature_of_a_request_that_ended_in_its_turn_and_was_never_read_opens_no_session_of_the_next()
    {
        var kept = new List<ISessionFeature>();
        await using TestSite site = await TestSite.StartAsync(use: app =>
        {
            app.UseSession();
            app.Use((context, next) =>
            {
                kept.ForEach(static old => Assert.Throws<ObjectDisposedException>(() => old.Session));
                kept.Add(context.Features.Get<ISessionFeature>()!);
                return next(context);
            });
        });
        for (int i = 0; i < 5; i++)
        {
            await site.NewVisitor().DoAsync("");
        }

        Assert.Equal(5, kept.Distinct().Count());
        kept.ForEach(static old => Assert.Throws<ObjectDisposedException>(() => old.Session));
    }

    // A thread that nobody waits for: HttpContext.Session has fetched the feature, and asks it while the request ends, or behind that.
    [Fact]
    public async Task A_thread_that_asks_for_the_session_as_its_request_ends_has_that_of_its_own_request_or_none()
    {
        const int Requests = 20_000;
        ServiceProvider services = Services(static s => s.AddMillraceSession());
        var features = new ISessionFeature?[Requests];
        var sessions = new ISession?[Requests];
        Task other = Task.Run(
            () =>
            {
                for (int i = 0; i < Requests; i++)
                {
                    ISessionFeature? feature;
                    while ((feature = Volatile.Read(ref features[i])) is null)
                    {
                        Thread.SpinWait(1);
                    }

                    try
                    {
                        sessions[i] = feature.Session;
                    }
                    catch (ObjectDisposedException)
                    {
                        // its request has ended
                    }
                }
            },
            TestContext.Current.CancellationToken);
        int number = 0;
        RequestDelegate pipeline = Pipeline(services, app =>
        {
            app.UseSession();
            app.Use((context, next) =>
            {
                Volatile.Write(ref features[number++], context.Features.Get<ISessionFeature>());
                return next(context);
            });
        });
        for (int i = 0; i < Requests; i++)
        {
            await pipeline(new DefaultHttpContext { RequestServices = services });
        }

        await other;
        Assert.Equal(Requests, features.Distinct().Count());
        ISession[] opened = [.. sessions.OfType<ISession>()];
        Assert.Equal(opened.Length, opened.Distinct().Count());
        Assert.All(opened, static session => Assert.Throws<ObjectDisposedException>(() => session.SetString("late", "1")));
    }

    [Fact]
    public async Task A_session_that_was_kept_and_not_read_reads_nobody_elses_afterwards_and_writes_no_cookie_of_another_response()
    {
        ISession? unread = null, written = null;
        await using TestSite site = await TestSite.StartAsync(use: app =>
        {
            app.UseSession();
            app.Use((context, next) =>
            {
                if (unread is null)
                {
                    unread = context.Session;
                }
                else if (written is null)
                {
                    written = context.Session;
                    written.SetString("mine", "1");
                }
                else
                {
                    Assert.Throws<ObjectDisposedException>(() => unread.GetString("secret"));
                    Assert.Throws<ObjectDisposedException>(() => written.Remove("mine"));
                    Assert.Throws<ObjectDisposedException>(written.Clear);
                    Assert.Throws<ObjectDisposedException>(written.Renew);
                    Assert.Equal("1", written.GetString("mine"));
                }
                return next(context);
            });
        });
        await site.NewVisitor().DoAsync("");
        await site.NewVisitor().DoAsync("");
        Visitor other = site.NewVisitor();

        Assert.Equal("1", await other.DoAsync("set secret 1;get secret"));
        Assert.Single(other.SetCookies);
    }

    [Fact]
    public async Task A_session_that_is_asked_for_and_not_read_does_not_expire()
    {
        await using TestSite site = await TestSite.StartAsync(use: static app =>
        {
            app.UseSession();
            app.Use(static (context, next) =>
            {
                _ = context.Session;
                return next(context);
            });
        });
        Visitor visitor = site.NewVisitor();
        await visitor.DoAsync("set a 1");
        await visitor.DoAsync("get a");
        site.Time.Advance(TimeSpan.FromMinutes(19));
        await visitor.DoAsync("");
        site.Time.Advance(TimeSpan.FromMinutes(19));

        Assert.Equal("1", await visitor.DoAsync("get a"));
    }

    [Fact]
    public async Task After_the_request_there_is_no_session_in_its_context()
    {
        bool isThere = true;
        await using TestSite site = await TestSite.StartAsync(use: app =>
        {
            app.Use(async (context, next) =>
            {
                await next();
                isThere = context.Features.Get<ISessionFeature>() is not null;
            });
            app.UseSession();
        });

        await site.NewVisitor().DoAsync("");
        Assert.False(isThere);
        isThere = true;
        await site.NewVisitor().DoAsync("set a 1");
        Assert.False(isThere);
    }

    private static ServiceProvider Services(Action<IServiceCollection> add)
    {
        var services = new ServiceCollection();
        services.AddSingleton<IDataProtectionProvider>(new EphemeralDataProtectionProvider());
        services.AddSingleton<Microsoft.Extensions.Logging.ILoggerFactory>(NullLoggerFactory.Instance);
        services.AddSingleton(typeof(Microsoft.Extensions.Logging.ILogger<>), typeof(NullLogger<>));
        services.AddOptions();
        add(services);
        return services.BuildServiceProvider();
    }

    private static RequestDelegate Pipeline(IServiceProvider services, Action<IApplicationBuilder> use)
    {
        var app = new ApplicationBuilder(services);
        use(app);
        app.Run(static _ => Task.CompletedTask);
        return app.Build();
    }

    // The context and its feature collection are made once, as servers keep theirs; the collection has had a session before.
    private static long Allocated(RequestDelegate pipeline, string? cookie)
    {
        var context = new DefaultHttpContext();
        if (cookie is not null)
        {
            context.Request.Headers.Cookie = cookie;
        }
        for (int i = 0; i < Rounds; i++)
        {
            Run(pipeline, context);
        }
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int i = 0; i < Rounds; i++)
        {
            Run(pipeline, context);
        }
        return GC.GetAllocatedBytesForCurrentThread() - before;
    }

    [SuppressMessage("Usage", "xUnit1031", Justification = "It has ended.")]
    private static void Run(RequestDelegate pipeline, HttpContext context)
    {
        Task task = pipeline(context);
        Assert.True(task.IsCompletedSuccessfully);
    }

    private sealed class CountingProtection : IDataProtectionProvider, IDataProtector
    {
        private readonly IDataProtector _inner = new EphemeralDataProtectionProvider().CreateProtector("x");

        public int Calls { get; private set; }

        public IDataProtector CreateProtector(string purpose) => this;

        public byte[] Protect(byte[] plaintext)
        {
            Calls++;
            return _inner.Protect(plaintext);
        }

        public byte[] Unprotect(byte[] protectedData)
        {
            Calls++;
            return _inner.Unprotect(protectedData);
        }
    }
}

/// <summary>Tests that measure memory run by themselves, after all others.</summary>
[CollectionDefinition(Name, DisableParallelization = true)]
[SuppressMessage("Naming", "CA1711", Justification = "It is a collection of tests.")]
public sealed class AloneCollection
{
    public const string Name = "alone";
}
