// Sessions in the memory of this process. Readers take no lock: a dictionary finds a session, its time of use is a plain store, and the policy hears of it later. Whoever adds,
// changes or removes one holds the policy's lock for that moment.

using System.Collections.Concurrent;
using Millrace.Sessions.Observe;

namespace Millrace.Sessions.Stores;

internal sealed class MemorySessionStore : ISessionBackingStore, ISessionStoreFigures, IDisposable
{
    // For the sketch only: a session with a few values.
    private const int TypicalBytes = 512;

    private static readonly TimeSpan s_sweepEvery = TimeSpan.FromSeconds(30);

    private readonly ConcurrentDictionary<SessionKey, KeptSession> _sessions = new();
    private readonly Lock _lock = new();
    private readonly EvictionPolicy _policy;
    private readonly UseBuffer _uses = new();
    private readonly SpentSeals _spent;
    private readonly SessionCounters _counters;
    private readonly SessionLog _log;
    private readonly TimeProvider _time;
    private readonly long _begun;
    private readonly int _sessionBytesMax;
    private readonly ITimer _sweep;
    private bool _isSweeping;
    private News _unsaid;

    public MemorySessionStore(MillraceSessionOptions options, SpentSeals spent, SessionCounters counters, SessionLog log, TimeProvider time)
        : this(options, spent, counters, log, time, PolicyShape.WTinyLfu)
    {
    }

    internal MemorySessionStore(MillraceSessionOptions options, SpentSeals spent, SessionCounters counters, SessionLog log, TimeProvider time, PolicyShape shape)
    {
        options.Check();
        _spent = spent;
        _counters = counters;
        _log = log;
        _time = time;
        _begun = time.GetTimestamp();
        _sessionBytesMax = options.EffectiveSessionBytesMax;
        int places = (int)Math.Min(options.BudgetBytes / TypicalBytes, 1 << 27);
        BudgetBytes = options.BudgetBytes;
        FixedBytes = FrequencySketch.BytesOf(places) + SpentSeals.BytesOf(options.BudgetBytes);
        _policy = new EvictionPolicy(BudgetBytes - FixedBytes, places, (long)(BudgetBytes * options.ClientShare), shape, OnEvicted);
        _sweep = time.CreateTimer(static store => ((MemorySessionStore)store!).Sweep(), this, Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);
        Epoch = Random.Shared.NextInt64() | 1;
    }

    /// <inheritdoc/>
    public long Epoch { get; }

    /// <inheritdoc/>
    public bool IsLocal => true;

    /// <summary>A session that is kept now may soon have to go: what is changed is sealed into the client's cookie as well, where it is small enough.</summary>
    public bool IsNearlyFull => Bytes > BudgetBytes - (BudgetBytes / 8);

    public int Live => _sessions.Count;

    public long Bytes => FixedBytes + Volatile.Read(ref _bytes);

    public long BudgetBytes { get; }

    /// <summary>What there is without any session.</summary>
    public long FixedBytes { get; }

    private long _bytes;

    private int Now => (int)_time.GetElapsedTime(_begun).TotalSeconds;

    /// <inheritdoc/>
    public StoredSession? Load(SessionKey key)
    {
        if (!_sessions.TryGetValue(key, out KeptSession? session) || IsExpired(session, Now))
        {
            return null;
        }
        Use(session);
        byte[] values = Volatile.Read(ref session.Values);
        return new StoredSession(values, values, HasEnded: false, session.Seal);
    }

    /// <inheritdoc/>
    public ValueTask<StoredSession?> LoadAsync(SessionKey key, CancellationToken cancellationToken) => ValueTask.FromResult(Load(key));

    /// <inheritdoc/>
    public ValueTask TouchAsync(SessionKey key, TimeSpan idleTimeout, CancellationToken cancellationToken)
    {
        if (_sessions.TryGetValue(key, out KeptSession? session) && !IsExpired(session, Now))
        {
            Use(session);
        }
        return ValueTask.CompletedTask;
    }

    /// <summary>It has a session of that key, which may have ended, but is not forgotten.</summary>
    internal bool Has(SessionKey key) => _sessions.TryGetValue(key, out KeptSession? session) && !IsExpired(session, Now);

    /// <inheritdoc/>
    public ValueTask<SessionWriteResult> WriteAsync(SessionWrite write, CancellationToken cancellationToken)
    {
        if (write.Values.Length > _sessionBytesMax)
        {
            return ValueTask.FromResult(new SessionWriteResult(WriteOutcome.TooLarge, null));
        }
        SessionWriteResult result;
        News news;
        lock (_lock)
        {
            _uses.HandOver(_policy);
            result = Write(write);
            Volatile.Write(ref _bytes, _policy.Bytes);
            news = TakeNews();
        }
        Say(news);
        return ValueTask.FromResult(result);
    }

    /// <inheritdoc/>
    public ValueTask EndAsync(SessionKey key, TimeSpan remember, CancellationToken cancellationToken)
    {
        News news;
        lock (_lock)
        {
            End(key);
            Volatile.Write(ref _bytes, _policy.Bytes);
            news = TakeNews();
        }
        Say(news);
        return ValueTask.CompletedTask;
    }

    public void Dispose() => _sweep.Dispose();

    /// <summary>Takes out what has expired.</summary>
    internal void Sweep()
    {
        int now = Now;
        News news;
        foreach ((_, KeptSession session) in _sessions)
        {
            if (IsExpired(session, now))
            {
                lock (_lock)
                {
                    if (IsExpired(session, now))
                    {
                        _policy.Remove(session, EvictionReason.Expired);
                    }
                }
            }
        }
        lock (_lock)
        {
            Volatile.Write(ref _bytes, _policy.Bytes);
            _isSweeping = _policy.Count > 0;
            if (_isSweeping)
            {
                _sweep.Change(s_sweepEvery, Timeout.InfiniteTimeSpan);
            }
            news = TakeNews();
        }
        Say(news);
    }

    private SessionWriteResult Write(SessionWrite write)
    {
        int now = Now;
        KeptSession? there = _sessions.TryGetValue(write.Key, out KeptSession? session) && !IsExpired(session, now) ? session : null;
        if (write.Condition == WriteCondition.Absent ? there is not null : there is not null && write.Condition == WriteCondition.Unchanged && !ReferenceEquals(there.Values, write.Expected))
        {
            return new SessionWriteResult(WriteOutcome.Conflict, there!.Values);
        }
        if (there is null && (write.Condition == WriteCondition.Absent ? write.SealBefore != 0 && _spent.Contains(write.Key, write.SealBefore) : _spent.Contains(write.Key)))
        {
            return new SessionWriteResult(WriteOutcome.Ended, null);
        }
        if (there is null)
        {
            if (session is not null)
            {
                _policy.Remove(session, EvictionReason.Expired);
            }

            // It was there when the request began. Unless the seal from then shows that nobody has changed it since, it may have been given others that nobody knows of here.
            if (write.Condition != WriteCondition.Absent && (write.SealBefore == 0 || _spent.Contains(write.Key, write.SealBefore)))
            {
                _spent.AddAllOf(write.Key);
            }
            Add(write, now);
            Spend(write, 0);
        }
        else
        {
            uint before = there.Seal;
            there.Seal = write.Seal;
            there.LastUsed = now;
            there.IdleTimeout = (int)write.IdleTimeout.TotalSeconds;
            _policy.Change(there, write.Values);
            Spend(write, before);
            if (write.Replaces is { } replaced)
            {
                End(replaced);
            }
        }
        return new SessionWriteResult(WriteOutcome.Stored, write.Values);
    }

    // Seals with other values than the session has now. Each is noted at the moment when it becomes untrue, and not when the session has to go.
    private void Spend(SessionWrite write, uint before)
    {
        if (before != 0 && before != write.Seal)
        {
            _spent.Add(write.Key, before);
        }
        if (write.SealBefore != 0 && write.SealBefore != write.Seal && write.SealBefore != before)
        {
            _spent.Add(write.Key, write.SealBefore);
        }
    }

    private void End(SessionKey key)
    {
        if (_sessions.TryGetValue(key, out KeptSession? session))
        {
            _policy.Remove(session, EvictionReason.Ended);      // OnEvicted remembers it
        }
        else
        {
            _spent.Add(key);
        }
    }

    private void Add(SessionWrite write, int now)
    {
        var session = new KeptSession
        {
            Key = write.Key,
            Values = write.Values,
            LastUsed = now,
            Created = now,
            IdleTimeout = (int)write.IdleTimeout.TotalSeconds,
            Seal = write.Seal,
        };
        _sessions[write.Key] = session;
        if (write.Replaces is { } before && _sessions.TryGetValue(before, out KeptSession? replaced))
        {
            _policy.Replace(session, replaced);
        }
        else
        {
            _policy.Add(session, write.Client);
            if (write.Replaces is { } gone)
            {
                _spent.Add(gone);
            }
        }
        if (!_isSweeping)
        {
            _isSweeping = true;
            _sweep.Change(s_sweepEvery, Timeout.InfiniteTimeSpan);
        }
    }

    // Once a second is enough to know who is in use.
    private void Use(KeptSession session)
    {
        int now = Now;
        if (Volatile.Read(ref session.LastUsed) == now)
        {
            return;
        }
        Volatile.Write(ref session.LastUsed, now);
        if (_uses.Note(session) && _lock.TryEnter())
        {
            try
            {
                _uses.HandOver(_policy);
            }
            finally
            {
                _lock.Exit();
            }
        }
    }

    private void OnEvicted(KeptSession session, EvictionReason reason)
    {
        _sessions.TryRemove(new KeyValuePair<SessionKey, KeptSession>(session.Key, session));
        _counters.Evicted(reason, session.IsEstablished);
        if (_counters.AgeIsWanted())
        {
            (_unsaid.Ages ??= []).Add((reason, Now - session.Created));
        }
        if (reason == EvictionReason.Ended)
        {
            _spent.Add(session.Key);
        }
        if (reason == EvictionReason.Pressure && session.IsEstablished)
        {
            _unsaid.Busiest = _log.BusiestToSay(_policy.Clients) ?? _unsaid.Busiest;
        }
    }

    // Under the lock.
    private News TakeNews()
    {
        News news = _unsaid;
        _unsaid = default;
        return news;
    }

    // Whoever listens to the meter, or has made the logger, is the application: it may block, throw, or use a session, and is told when the lock has been left.
    private void Say(in News news)
    {
        news.Ages?.ForEach(SayAge);
        if (news.Busiest is { } busiest)
        {
            _log.EstablishedEvicted(BudgetBytes, busiest);
        }
    }

    private void SayAge((EvictionReason Reason, int Age) evicted)
    {
        try
        {
            _counters.AgeOfEvicted(evicted.Reason, evicted.Age);
        }
        catch (Exception)
        {
            // Of a listener: there is nobody to tell.
        }
    }

    private struct News
    {
        public List<(EvictionReason Reason, int Age)>? Ages;
        public string? Busiest;
    }

    private static bool IsExpired(KeptSession session, int now) => now - Volatile.Read(ref session.LastUsed) > session.IdleTimeout;
}
