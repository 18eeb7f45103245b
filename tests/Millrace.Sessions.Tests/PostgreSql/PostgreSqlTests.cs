// Sessions in a real PostgreSQL: conditions, expiry, two applications that share it, and its end in between.

using Microsoft.AspNetCore.DataProtection;
using Millrace.Sessions.Cookies;
using Millrace.Sessions.PostgreSql;
using Millrace.Sessions.Tests.Site;

namespace Millrace.Sessions.Tests.PostgreSql;

[Collection(AloneCollection.Name)]
public sealed class PostgreSqlTests(Database database) : IClassFixture<Database>
{
    private static readonly TimeSpan s_idle = TimeSpan.FromMinutes(20);

    private readonly EphemeralDataProtectionProvider _keys = new();

    [Fact]
    public async Task What_is_written_is_read_and_a_write_that_expects_something_else_is_a_conflict()
    {
        await using PostgreSqlSessionStore store = NewStore();
        SessionKey key = SessionToken.New().Key;

        Assert.Null(await store.LoadAsync(key, default));
        Assert.Equal(WriteOutcome.Stored, (await WriteAsync(store, key, [1], WriteCondition.Absent)).Outcome);
        Assert.Equal(WriteOutcome.Conflict, (await WriteAsync(store, key, [2], WriteCondition.Absent)).Outcome);
        StoredSession first = store.Load(key)!.Value;
        Assert.Equal([1], first.Values.ToArray());
        SessionWriteResult second = await WriteAsync(store, key, [2], WriteCondition.Unchanged, first.Tag);
        Assert.Equal(WriteOutcome.Stored, second.Outcome);
        Assert.Equal(WriteOutcome.Conflict, (await WriteAsync(store, key, [3], WriteCondition.Unchanged, first.Tag)).Outcome);
        Assert.Equal(WriteOutcome.Stored, (await WriteAsync(store, key, [3], WriteCondition.Unchanged, second.Tag)).Outcome);
        Assert.Equal(WriteOutcome.Stored, (await WriteAsync(store, key, [4], WriteCondition.Any)).Outcome);
        Assert.Equal([4], (await store.LoadAsync(key, default))!.Value.Values.ToArray());

        await store.EndAsync(key, s_idle, default);
        Assert.True((await store.LoadAsync(key, default))!.Value.HasEnded);
        Assert.Equal(WriteOutcome.Ended, (await WriteAsync(store, key, [5], WriteCondition.Any)).Outcome);
        Assert.Equal(WriteOutcome.Ended, (await WriteAsync(store, key, [5], WriteCondition.Absent)).Outcome);
    }

    [Fact]
    public async Task What_has_expired_is_not_there_and_is_deleted_and_a_session_in_use_stays()
    {
        await using PostgreSqlSessionStore store = NewStore();
        SessionKey expired = SessionToken.New().Key, used = SessionToken.New().Key;
        await WriteAsync(store, expired, [1], WriteCondition.Absent, idle: TimeSpan.Zero);
        await WriteAsync(store, used, [1], WriteCondition.Absent, idle: TimeSpan.FromMinutes(1));
        await store.TouchAsync(used, s_idle, default);

        Assert.Null(await store.LoadAsync(expired, default));
        Assert.InRange(await store.SweepAsync(default), 1, int.MaxValue);
        Assert.Equal(0L, await database.ExecuteAsync($"SELECT count(*) FROM millrace_sessions WHERE encode(key, 'hex') = '{expired}'"));
        Assert.Equal(true, await database.ExecuteAsync($"SELECT expires > now() + interval '19 minutes' FROM millrace_sessions WHERE encode(key, 'hex') = '{used}'"));
        Assert.Equal(WriteOutcome.Stored, (await WriteAsync(store, expired, [2], WriteCondition.Absent)).Outcome);
    }

    [Fact]
    public async Task A_session_that_gets_another_key_ends_under_the_one_before()
    {
        await using PostgreSqlSessionStore store = NewStore();
        SessionKey before = SessionToken.New().Key, after = SessionToken.New().Key;
        await WriteAsync(store, before, [1], WriteCondition.Absent);

        await store.WriteAsync(new SessionWrite(after, [1], WriteCondition.Absent, null, s_idle, default, Replaces: before), default);

        Assert.True(store.Load(before)!.Value.HasEnded);
        Assert.False(store.Load(after)!.Value.HasEnded);
    }

    [Fact]
    public async Task Eight_processes_that_make_the_table_at_once_all_have_it()
    {
        string table = "made_at_once";
        PostgreSqlSessionStore[] stores = [.. Enumerable.Range(0, 8).Select(_ => NewStore(table))];

        await Task.WhenAll(stores.Select(static store => store.LoadAsync(SessionToken.New().Key, default).AsTask()));

        foreach (PostgreSqlSessionStore store in stores)
        {
            await store.DisposeAsync();
        }
    }

    [Fact]
    public async Task Two_applications_share_sessions_and_when_one_is_gone_the_other_has_them_all()
    {
        await using TestSite stays = await StartAsync();
        var visitors = new List<Visitor>();
        await using (TestSite goes = await StartAsync())
        {
            for (int i = 0; i < 20; i++)
            {
                Visitor visitor = goes.NewVisitor();
                await visitor.DoAsync($"set n {i}");
                await visitor.DoAsync("set m 1");
                visitors.Add(visitor);
            }
        }

        for (int i = 0; i < visitors.Count; i++)
        {
            Visitor visitor = stays.NewVisitor();
            visitor.Cookie = visitors[i].Cookie;
            Assert.Equal($"{i},1", await visitor.DoAsync("load;get n;get m"));
        }
    }

    [Fact]
    public async Task A_hundred_requests_of_one_session_in_two_applications_lose_no_key()
    {
        await using TestSite one = await StartAsync(static options => options.ConcurrentWrites = ConcurrentWrites.MergeKeys);
        await using TestSite other = await StartAsync(static options => options.ConcurrentWrites = ConcurrentWrites.MergeKeys);
        Visitor visitor = one.NewVisitor();
        await visitor.DoAsync("set start 1");

        foreach (int[] some in Enumerable.Range(0, 100).Chunk(8))
        {
            await Task.WhenAll(some.Select(i =>
            {
                Visitor tab = (i % 2 == 0 ? one : other).NewVisitor();
                tab.Cookie = visitor.Cookie;
                return tab.DoAsync($"load;set k{i} 1");
            }));
        }

        Assert.Equal(101, (await visitor.DoAsync("keys")).Split('+').Length);
    }

    [Fact]
    public async Task While_the_database_is_gone_the_site_answers_and_afterwards_no_established_session_is_lost()
    {
        await using TestSite site = await StartAsync();
        Visitor established = site.NewVisitor();
        await established.DoAsync("set a 1");
        await established.DoAsync("set a 2");
        await established.DoAsync("set a 3");
        Visitor returning = site.NewVisitor();
        await returning.DoAsync("set a 1");

        await database.KillAsync();
        try
        {
            Assert.Equal("-,False", await established.DoAsync("get a;available"));
            Assert.Equal("1", await returning.DoAsync("get a"));
            Visitor fresh = site.NewVisitor();
            await fresh.DoAsync("set a 5");
            Assert.Equal("5", await fresh.DoAsync("load;get a"));
            Assert.Single(site.Log.Of("Millrace.Sessions"));
        }
        finally
        {
            await database.StartAsync();
        }
        site.Time.Advance(TimeSpan.FromSeconds(2));
        await established.DoAsync("get a");         // the first may meet a connection from before
        site.Time.Advance(TimeSpan.FromSeconds(2));

        Assert.Equal("3", await established.DoAsync("get a"));
        Assert.Equal("1", await returning.DoAsync("get a"));
    }

    [Theory]
    [InlineData("", "t", 60)]
    [InlineData("Host=x", "t; DROP TABLE x", 60)]
    [InlineData("Host=x", "a.b.c", 60)]
    [InlineData("Host=x", "", 60)]
    [InlineData("Host=x", "t", 0.9)]
    [InlineData("Host=x", "t", 86_401)]
    public void An_option_that_cannot_be_is_said(string connection, string table, double sweepSeconds) =>
        Assert.ThrowsAny<ArgumentException>(() => new ServiceCollection().AddMillraceSessionPostgreSql(connection, options =>
        {
            options.Table = table;
            options.SweepEvery = TimeSpan.FromSeconds(sweepSeconds);
        }));

    private static Task<SessionWriteResult> WriteAsync(PostgreSqlSessionStore store, SessionKey key, byte[] values, WriteCondition condition, object? expected = null, TimeSpan? idle = null) =>
        store.WriteAsync(new SessionWrite(key, values, condition, expected, idle ?? s_idle, default), default).AsTask();

    private PostgreSqlSessionStore NewStore(string table = "millrace_sessions") =>
        new(new PostgreSqlSessionOptions { ConnectionString = database.ConnectionString, Table = table }, TimeProvider.System);

    private Task<TestSite> StartAsync(Action<MillraceSessionOptions>? options = null) => TestSite.StartAsync(options, builder =>
    {
        builder.Services.AddSingleton<IDataProtectionProvider>(_keys);
        builder.Services.AddMillraceSessionPostgreSql(database.ConnectionString);
    });
}
