// A store in memory with a clock that a test moves.

using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Sessions.Cookies;
using Millrace.Sessions.Observe;
using Millrace.Sessions.Stores;
using Millrace.Sessions.Tests.Site;

namespace Millrace.Sessions.Tests.Stores;

internal sealed class MemoryStoreRig : IDisposable
{
    public static readonly TimeSpan Idle = TimeSpan.FromMinutes(20);

    public MemoryStoreRig(long budgetBytes, double clientShare = 1.0 / 32, PolicyShape? shape = null)
    {
        var options = new MillraceSessionOptions { BudgetBytes = budgetBytes, ClientShare = clientShare };
        Spent = new SpentSeals(budgetBytes, Idle, Time);
        Store = new MemorySessionStore(options, Spent, Counters, new SessionLog(Log.CreateLogger(SessionLog.Category), Time), Time, shape ?? PolicyShape.WTinyLfu);
    }

    public ManualTime Time { get; } = new();

    public SessionCounters Counters { get; } = new();

    public LogLines Log { get; } = new();

    public SpentSeals Spent { get; }

    public MemorySessionStore Store { get; }

    /// <summary>How many sessions of so many bytes there is room for.</summary>
    public int Places(int bytes) => (int)((Store.BudgetBytes - Store.FixedBytes) / KeptSession.BytesOf(bytes));

    public SessionKey Add(int bytes, ClientPrefix client = default, uint seal = 0, uint sealBefore = 0)
    {
        SessionKey key = SessionToken.New().Key;
        Write(key, new byte[bytes], WriteCondition.Absent, null, client, seal, sealBefore);
        return key;
    }

    public SessionWriteResult Write(
        SessionKey key, byte[] values, WriteCondition condition, object? expected = null, ClientPrefix client = default, uint seal = 0, uint sealBefore = 0, SessionKey? replaces = null)
    {
        Task<SessionWriteResult> write = Store.WriteAsync(new SessionWrite(key, values, condition, expected, Idle, client, seal, sealBefore, replaces), default).AsTask();
        Assert.True(write.IsCompletedSuccessfully);
        return write.GetAwaiter().GetResult();
    }

    public bool Has(SessionKey key) => Store.Load(key) is not null;

    /// <summary>Once more, a second later.</summary>
    public void Use(SessionKey key) => UseAll(key);

    /// <summary>Once more, a second later.</summary>
    public void UseAll(params ReadOnlySpan<SessionKey> keys)
    {
        Time.Advance(TimeSpan.FromSeconds(1));
        foreach (SessionKey key in keys)
        {
            Assert.True(Has(key));
        }
    }

    public void Dispose() => Store.Dispose();
}
