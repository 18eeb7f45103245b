// The policies that are compared, as a client sees them: a session begins, and it comes back or it does not. All but the rules of MemoryCache are the store of src/Millrace.Sessions
// itself, with other shapes of its policy, and with or without sealed first writes.

using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Sessions;
using Millrace.Sessions.Cookies;
using Millrace.Sessions.Observe;
using Millrace.Sessions.Stores;

namespace Millrace.Bench.Sessions;

/// <summary>What a client keeps.</summary>
internal sealed class Client(ClientPrefix prefix)
{
    public ClientPrefix Prefix { get; } = prefix;

    public SessionKey Key { get; set; }

    /// <summary>Until when the values in its cookie are good; null: there are none.</summary>
    public DateTimeOffset? SealedUntil { get; set; }

    /// <summary>The serial of the seal around them.</summary>
    public uint Seal { get; set; }
}

internal interface IContestant
{
    /// <summary>Without a cookie, and the session is written.</summary>
    void Begin(Client client);

    /// <summary>With its cookie, and the session is read, or changed.</summary>
    /// <returns>Whether the session was there.</returns>
    bool Return(Client client, bool isChange);
}

internal sealed class RealStore : IContestant, IDisposable
{
    private const int ValueBytes = 100;
    private static readonly TimeSpan s_idle = TimeSpan.FromMinutes(20);

    private readonly SimulatedTime _time;
    private readonly bool _isSealed;
    private readonly SpentSeals _spent;
    private readonly MemorySessionStore _store;

    public RealStore(SimulatedTime time, int places, PolicyShape shape, bool isSealed, double clientShare)
    {
        _time = time;
        _isSealed = isSealed;
        long budget = BudgetFor(places);
        var options = new MillraceSessionOptions { BudgetBytes = budget, ClientShare = clientShare, IdleTimeout = s_idle };
        _spent = new SpentSeals(budget, s_idle, time);
        _store = new MemorySessionStore(options, _spent, new SessionCounters(), new SessionLog(NullLogger.Instance, time), time, shape);
    }

    public void Begin(Client client)
    {
        client.Key = SessionToken.New().Key;
        if (_isSealed)
        {
            Seal(client);
        }
        else
        {
            Write(client, WriteCondition.Absent, 0, 0);
        }
    }

    public bool Return(Client client, bool isChange)
    {
        StoredSession? stored = _store.Load(client.Key);
        bool isThere = stored is not null;
        bool isInCookie = !isThere && client.SealedUntil >= _time.GetUtcNow() && !_spent.Contains(client.Key, client.Seal);
        if (isInCookie || (isThere && isChange))
        {
            uint before = stored?.Seal ?? client.Seal;
            bool isResealed = isChange && _isSealed && _store.IsNearlyFull;
            if (isResealed)
            {
                Seal(client);
            }
            Write(client, isThere ? WriteCondition.Any : WriteCondition.Absent, isResealed || !isChange ? client.Seal : 0, before);
        }
        return isThere || isInCookie;
    }

    public void Dispose() => _store.Dispose();

    private void Seal(Client client)
    {
        client.SealedUntil = _time.GetUtcNow() + s_idle;
        client.Seal = SessionSeal.NewSerial();
    }

    private void Write(Client client, WriteCondition condition, uint seal, uint before) =>
        _ = _store.WriteAsync(new SessionWrite(client.Key, new byte[ValueBytes], condition, null, s_idle, client.Prefix, seal, before), default).AsTask().GetAwaiter().GetResult();

    // What the store itself needs depends on the budget.
    private static long BudgetFor(int places)
    {
        long sessions = (long)places * KeptSession.BytesOf(ValueBytes);
        long budget = sessions;
        for (int i = 0; i < 16; i++)
        {
            budget = sessions + FrequencySketch.BytesOf((int)(budget / 512)) + SpentSeals.BytesOf(budget);
        }
        return budget;
    }
}

/// <summary>As Microsoft.Extensions.Caching.Memory has it with a SizeLimit: what does not fit is dropped, and a twentieth of all, least recently used first, is taken out then.</summary>
internal sealed class MemoryCacheRules(SimulatedTime time, int places) : IContestant
{
    private const double Compaction = 0.05;

    private readonly Dictionary<SessionKey, long> _used = [];

    public void Begin(Client client)
    {
        client.Key = SessionToken.New().Key;
        if (_used.Count < places)
        {
            _used[client.Key] = time.GetTimestamp();
            return;
        }
        foreach (SessionKey key in _used.OrderBy(static pair => pair.Value).Take((int)(places * Compaction)).Select(static pair => pair.Key).ToArray())
        {
            _used.Remove(key);
        }
    }

    public bool Return(Client client, bool isChange)
    {
        if (!_used.ContainsKey(client.Key))
        {
            return false;
        }
        _used[client.Key] = time.GetTimestamp();
        return true;
    }
}

internal sealed class SimulatedTime : TimeProvider
{
    private long _now = DateTimeOffset.UnixEpoch.AddYears(60).Ticks;

    public override long TimestampFrequency => TimeSpan.TicksPerSecond;

    public override long GetTimestamp() => _now;

    public override DateTimeOffset GetUtcNow() => new(_now, TimeSpan.Zero);

    public void Set(long ticks) => _now = ticks;

    // Nothing expires within the simulated time, so that nothing need be swept.
    public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period) => new NoTimer();

    private sealed class NoTimer : ITimer
    {
        public bool Change(TimeSpan dueTime, TimeSpan period) => true;

        public void Dispose()
        {
        }

        public ValueTask DisposeAsync() => ValueTask.CompletedTask;
    }
}
