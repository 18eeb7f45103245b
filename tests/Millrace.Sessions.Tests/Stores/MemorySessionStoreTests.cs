// The store in memory: what is written is read, under conditions; what it counts is what it takes; who goes when it is full.

using System.Net;
using Millrace.Sessions.Cookies;
using Millrace.Sessions.Observe;
using Millrace.Sessions.Stores;

namespace Millrace.Sessions.Tests.Stores;

public sealed class MemorySessionStoreTests
{
    private const long Budget = 4 << 20;

    [Fact]
    public void What_is_written_is_read_and_a_write_that_expects_something_else_is_a_conflict()
    {
        using var rig = new MemoryStoreRig(Budget);
        SessionKey key = SessionToken.New().Key;
        byte[] first = [1], second = [2], third = [3];

        Assert.Null(rig.Store.Load(key));
        SessionWriteResult written = rig.Write(key, first, WriteCondition.Absent);
        Assert.Equal(WriteOutcome.Stored, written.Outcome);
        Assert.Equal(WriteOutcome.Conflict, rig.Write(key, second, WriteCondition.Absent).Outcome);
        Assert.Equal(first, rig.Store.Load(key)!.Value.Values.ToArray());

        Assert.Equal(WriteOutcome.Stored, rig.Write(key, second, WriteCondition.Unchanged, rig.Store.Load(key)!.Value.Tag).Outcome);
        Assert.Equal(WriteOutcome.Conflict, rig.Write(key, third, WriteCondition.Unchanged, written.Tag).Outcome);
        Assert.Equal(second, rig.Store.Load(key)!.Value.Values.ToArray());
        Assert.Equal(WriteOutcome.Stored, rig.Write(key, third, WriteCondition.Any).Outcome);
        Assert.Equal(third, rig.Store.Load(key)!.Value.Values.ToArray());
    }

    [Fact]
    public async Task What_has_ended_is_not_stored_again_by_whoever_had_loaded_it()
    {
        using var rig = new MemoryStoreRig(Budget);
        SessionKey key = rig.Add(10);
        object? tag = rig.Store.Load(key)!.Value.Tag;

        await rig.Store.EndAsync(key, MemoryStoreRig.Idle, default);

        Assert.False(rig.Has(key));
        Assert.Equal(WriteOutcome.Ended, rig.Write(key, [1], WriteCondition.Unchanged, tag).Outcome);
        Assert.Equal(WriteOutcome.Ended, rig.Write(key, [1], WriteCondition.Any).Outcome);
        Assert.Equal(rig.Store.FixedBytes, rig.Store.Bytes);
    }

    [Fact]
    public void A_session_that_gets_another_key_keeps_its_place()
    {
        using var rig = new MemoryStoreRig(Budget);
        SessionKey before = rig.Add(100);
        rig.Use(before);
        SessionKey after = SessionToken.New().Key;

        rig.Write(after, new byte[100], WriteCondition.Absent, replaces: before);

        Assert.False(rig.Has(before));
        Assert.True(rig.Spent.Contains(before));
        Flood(rig, 4 * rig.Places(100), 100);
        Assert.True(rig.Has(after));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(100)]
    [InlineData(300)]
    [InlineData(5_000)]
    public void The_budget_is_never_exceeded_and_nearly_used_up(int bytes)
    {
        using var rig = new MemoryStoreRig(Budget);
        int places = rig.Places(bytes);

        Flood(rig, 3 * places, bytes, each: () => Assert.InRange(rig.Store.Bytes, 0, rig.Store.BudgetBytes));

        Assert.InRange(rig.Store.Live, places - 1, places);
    }

    [Fact]
    public void A_value_that_grows_is_counted_and_others_go_for_it()
    {
        using var rig = new MemoryStoreRig(Budget);
        SessionKey key = rig.Add(100);
        Flood(rig, rig.Places(100) / 50, 100);      // out of the window
        rig.Use(key);
        Flood(rig, 2 * rig.Places(100), 100);
        int before = rig.Store.Live;

        rig.Write(key, new byte[100_000], WriteCondition.Any);

        Assert.True(rig.Has(key));
        Assert.InRange(rig.Store.Bytes, 0, rig.Store.BudgetBytes);
        Assert.InRange(before - rig.Store.Live, 100_000 / KeptSession.BytesOf(100) - 5, (100_000 / KeptSession.BytesOf(100)) + 5);
    }

    [Theory]
    [InlineData(256 << 10, WriteOutcome.Stored)]
    [InlineData((256 << 10) + 1, WriteOutcome.TooLarge)]
    public void A_session_has_at_most_a_sixteenth_of_the_budget(int bytes, WriteOutcome outcome)
    {
        using var rig = new MemoryStoreRig(Budget);

        Assert.Equal(outcome, rig.Write(SessionToken.New().Key, new byte[bytes], WriteCondition.Absent).Outcome);
    }

    [Theory]
    [InlineData(2, 50)]
    [InlineData(200, 0)]
    public void A_flood_of_new_sessions_takes_none_that_was_used_again_behind_the_window_or_in_it(int share, int leaves)
    {
        using var rig = new MemoryStoreRig(Budget);
        int places = rig.Places(100);
        SessionKey[] users = [.. Enumerable.Range(0, places / share).Select(_ => rig.Add(100))];
        Flood(rig, leaves == 0 ? 0 : places / leaves, 100);
        rig.UseAll(users);

        Flood(rig, 20 * places, 100);

        Assert.All(users, user => Assert.True(rig.Has(user)));
        Assert.Equal(0, rig.Counters.EstablishedEvictedTotal);
    }

    // Whoever listens to the meter is the application: it may throw, and look at a session.
    [Fact]
    public async Task What_listens_to_evictions_throws_or_waits_for_a_session_and_the_store_goes_on()
    {
        using var rig = new MemoryStoreRig(MillraceSessionOptions.BudgetBytesMin);
        var client = ClientPrefix.Of(System.Net.IPAddress.Parse("203.0.113.9"));
        int told = 0, written = 0;
        rig.Counters.AgeIsWanted = static () => true;
        rig.Counters.AgeOfEvicted = (_, _) =>
        {
            if (Interlocked.Increment(ref told) == 1)
            {
                written += Task.Run(() => rig.Add(10)).Wait(TimeSpan.FromSeconds(20)) ? 1 : 0;
            }
            throw new FormatException();
        };

        Task flood = Task.Run(() =>
        {
            for (int i = 0; i < 4 * rig.Places(100); i++)
            {
                rig.Add(100, client);
            }
        });

        await flood.WaitAsync(TimeSpan.FromSeconds(60));
        Assert.True(told > 100);
        Assert.Equal(1, written);
        Assert.InRange(rig.Store.Bytes, 1, rig.Store.BudgetBytes);
        rig.Time.Advance(MemoryStoreRig.Idle * 2);
        rig.Store.Sweep();
        Assert.Equal(0, rig.Store.Live);
    }

    [Fact]
    public void With_the_least_recently_used_policy_the_same_flood_takes_all()
    {
        using var rig = new MemoryStoreRig(Budget, shape: PolicyShape.Lru);
        int places = rig.Places(100);
        SessionKey[] users = [.. Enumerable.Range(0, places / 2).Select(_ => rig.Add(100))];
        rig.UseAll(users);

        Flood(rig, 2 * places, 100);

        Assert.All(users, user => Assert.False(rig.Has(user)));
        Assert.Equal(users.Length, rig.Counters.EstablishedEvictedTotal);
    }

    [Fact]
    public void When_a_session_in_use_had_to_go_the_busiest_networks_are_said_once_a_minute()
    {
        using var rig = new MemoryStoreRig(Budget, clientShare: 1);
        ClientPrefix client = ClientPrefix.Of(IPAddress.Parse("203.0.113.9"));
        rig.Add(100, client);
        for (int i = 0; i < 2 * rig.Places(100); i++)
        {
            SessionKey user = rig.Add(100);
            rig.Time.Advance(TimeSpan.FromMilliseconds(1_000));
            for (int use = 0; use < 16; use++)
            {
                rig.Store.Load(user);
            }
            if (i % 50 == 0)
            {
                rig.Add(100, client);
            }
            rig.Time.Advance(TimeSpan.FromMilliseconds(-1_000));
        }

        Assert.True(rig.Counters.EstablishedEvictedTotal > 0);
        string line = Assert.Single(rig.Log.Of("Millrace.Sessions"));
        Assert.Contains("203.0.113.0/24 (", line, StringComparison.Ordinal);
    }

    [Fact]
    public void One_network_has_its_share_when_memory_is_full_and_others_come_in()
    {
        using var rig = new MemoryStoreRig(Budget, clientShare: 1.0 / 16);
        ClientPrefix flood = ClientPrefix.Of(IPAddress.Parse("203.0.113.9"));
        int places = rig.Places(100);
        Flood(rig, 2 * places, 100, flood);
        SessionKey[] visitors = [.. Enumerable.Range(0, places / 4).Select(i => rig.Add(100, ClientPrefix.Of(new IPAddress([10, 1, (byte)i, 1]))))];

        Flood(rig, 4 * places, 100, flood);

        Assert.All(visitors, visitor => Assert.True(rig.Has(visitor)));
        Assert.InRange(rig.Counters.Total(EvictionReason.ClientShare), places, 6 * places);
    }

    [Theory]
    [InlineData(16, 0, true)]
    [InlineData(64, 0.5, true)]         // an eighth of the uses is left in the end
    [InlineData(7, 0.5, false)]
    [InlineData(1, 0, false)]
    public void Who_has_used_it_often_and_lately_stays_before_those_of_a_flood_that_come_back_twice(int uses, double partOfIdleAway, bool stays)
    {
        using var rig = new MemoryStoreRig(Budget);
        int places = rig.Places(100);
        SessionKey[] visitors = [.. Enumerable.Range(0, places / 10).Select(_ => rig.Add(100))];
        for (int i = 0; i < uses; i++)
        {
            rig.UseAll(visitors);
        }
        rig.Time.Advance(partOfIdleAway * MemoryStoreRig.Idle);
        Flood(rig, 50 * places, 100);       // the sketch forgets who was there

        for (int i = 0; i < 2 * places / 50; i++)
        {
            SessionKey[] some = [.. Enumerable.Range(0, 50).Select(_ => rig.Add(100))];
            rig.UseAll(some);
            rig.UseAll(some);
        }

        // A tenth of them was never used outside of the window, and is in the way of such a flood.
        double left = (double)visitors.Count(rig.Has) / visitors.Length;
        Assert.InRange(left, stays ? 0.95 : 0, stays ? 1 : 0.95);
    }

    [Fact]
    public void One_that_is_used_often_keeps_no_place_for_those_behind_it_that_are_not()
    {
        using var rig = new MemoryStoreRig(Budget);
        SessionKey often = rig.Add(100);
        for (int i = 0; i < 64; i++)
        {
            rig.UseAll(often);
        }
        Flood(rig, 2 * rig.Places(100), 100);

        SessionKey[] some = [.. Enumerable.Range(0, 50).Select(_ => rig.Add(100))];
        rig.UseAll(some);
        rig.UseAll(some);
        Flood(rig, 200, 100);

        Assert.True(rig.Has(often));
        Assert.InRange(some.Count(rig.Has), 45, 50);
    }

    [Fact]
    public void A_seal_is_spent_as_soon_as_the_session_has_other_values()
    {
        using var rig = new MemoryStoreRig(Budget);
        SessionKey asItCame = rig.Add(100, seal: 1, sealBefore: 1);
        SessionKey changedAtOnce = rig.Add(100, sealBefore: 1);
        SessionKey changedLater = rig.Add(100, seal: 1, sealBefore: 1);
        rig.Write(changedLater, new byte[100], WriteCondition.Any);
        SessionKey resealed = rig.Add(100, seal: 1, sealBefore: 1);
        rig.Write(resealed, new byte[100], WriteCondition.Any, seal: 2);
        rig.Write(resealed, new byte[100], WriteCondition.Any, seal: 3);

        Assert.False(rig.Spent.Contains(asItCame, 1));
        Assert.True(rig.Spent.Contains(changedAtOnce, 1));
        Assert.True(rig.Spent.Contains(changedLater, 1));
        Assert.True(rig.Spent.Contains(resealed, 1));
        Assert.True(rig.Spent.Contains(resealed, 2));
        Assert.False(rig.Spent.Contains(resealed, 3));
        Assert.False(rig.Spent.Contains(resealed));
    }

    [Fact]
    public void What_a_spent_seal_had_is_not_stored()
    {
        using var rig = new MemoryStoreRig(Budget);
        SessionKey key = SessionToken.New().Key;
        rig.Spent.Add(key, 7);

        Assert.Equal(WriteOutcome.Ended, rig.Write(key, new byte[1], WriteCondition.Absent, sealBefore: 7).Outcome);
        Assert.Equal(WriteOutcome.Stored, rig.Write(key, new byte[1], WriteCondition.Absent, sealBefore: 8).Outcome);
    }

    [Fact]
    public void It_is_nearly_full_from_seven_eighths_of_the_budget_on()
    {
        using var rig = new MemoryStoreRig(Budget);
        while (rig.Store.Bytes <= Budget - (Budget / 8))
        {
            Assert.False(rig.Store.IsNearlyFull);
            rig.Add(100);
        }

        Assert.True(rig.Store.IsNearlyFull);
    }

    [Fact]
    public async Task Many_threads_read_write_and_end_and_what_is_there_is_whole()
    {
        using var rig = new MemoryStoreRig(MillraceSessionOptions.BudgetBytesMin);
        SessionKey[] keys = [.. Enumerable.Range(0, 500).Select(static _ => SessionToken.New().Key)];

        await Task.WhenAll(Enumerable.Range(0, 8).Select(thread => Task.Run(async () =>
        {
            var random = new Random(thread);
            for (int i = 0; i < 20_000; i++)
            {
                SessionKey key = keys[random.Next(keys.Length)];
                switch (random.Next(20))
                {
                    case 0:
                        await rig.Store.EndAsync(key, MemoryStoreRig.Idle, default);
                        keys[random.Next(keys.Length)] = SessionToken.New().Key;
                        break;
                    case < 8:
                        byte[] values = new byte[random.Next(2_000)];
                        Array.Fill(values, (byte)values.Length);
                        rig.Write(key, values, WriteCondition.Any);
                        break;
                    default:
                        if (rig.Store.Load(key) is { } stored)
                        {
                            Assert.Equal(-1, stored.Values.Span.IndexOfAnyExcept((byte)stored.Values.Length));
                        }
                        break;
                }
                Assert.InRange(rig.Store.Bytes, 0, rig.Store.BudgetBytes);
            }
        })));

        rig.Time.Advance(MemoryStoreRig.Idle + TimeSpan.FromMinutes(1));
        rig.Store.Sweep();
        Assert.Equal(0, rig.Store.Live);
        Assert.Equal(rig.Store.FixedBytes, rig.Store.Bytes);
    }

    private static void Flood(MemoryStoreRig rig, int count, int bytes, ClientPrefix client = default, Action? each = null)
    {
        for (int i = 0; i < count; i++)
        {
            rig.Add(bytes, client);
            each?.Invoke();
        }
    }

    // One more that is used often.
    private static void Busy(MemoryStoreRig rig)
    {
        SessionKey key = rig.Add(100);
        for (int i = 0; i < 3; i++)
        {
            rig.Use(key);
        }
    }
}

[Collection(AloneCollection.Name)]
public sealed class MemoryBudgetTests(ITestOutputHelper output)
{
    [Theory]
    [InlineData(0, false)]
    [InlineData(30, false)]
    [InlineData(300, false)]
    [InlineData(3_000, false)]
    [InlineData(30, true)]
    public void What_is_counted_is_what_the_runtime_says(int bytes, bool isFromManyNetworks)
    {
        const long Budget = 24 << 20;
        long before = GC.GetTotalMemory(forceFullCollection: true);
        using var rig = new MemoryStoreRig(Budget);
        for (int i = 0; i < 2 * rig.Places(bytes); i++)
        {
            ClientPrefix client = isFromManyNetworks ? ClientPrefix.Of(new IPAddress([10, (byte)(i >> 8), (byte)i, 1])) : default;
            rig.Add(bytes, client, sealBefore: 1);
        }
        rig.Time.Advance(MemoryStoreRig.Idle);
        rig.Spent.Add(SessionToken.New().Key);      // in the other filter

        long taken = GC.GetTotalMemory(forceFullCollection: true) - before;
        output.WriteLine($"{rig.Store.Live:N0} sessions of {bytes} bytes: counted {rig.Store.Bytes:N0}, taken {taken:N0}, {100.0 * taken / rig.Store.Bytes:F1} %");
        Assert.InRange(taken, rig.Store.Bytes * 0.85, Budget * 1.1);
        GC.KeepAlive(rig);
    }
}
