// What all sessions of a process share: the store, how it is called, and what is counted and said.

using Microsoft.AspNetCore.DataProtection;
using Millrace.Sessions.Cookies;
using Millrace.Sessions.Observe;
using Millrace.Sessions.Stores;

namespace Millrace.Sessions;

internal sealed class SessionServices : IDisposable
{
    private readonly Lazy<SessionSeal> _seal;
    private readonly StoreHealth _health;
    private readonly SessionMeter _meter;
    private readonly SingleFlight _loads = new();
    private readonly TouchTable? _touches;
    private readonly Lazy<TouchTable> _seals;

    public SessionServices(
        ISessionBackingStore store, SpentSeals spent, SessionCounters counters, SessionLog log, IDataProtectionProvider protection, TimeProvider time)
    {
        Store = store;
        Spent = spent;
        Counters = counters;
        Log = log;
        _seal = new Lazy<SessionSeal>(() => new SessionSeal(protection, time, store.IsLocal));
        _health = new StoreHealth(log, counters, time);
        _meter = new SessionMeter(counters, store);
        _touches = store.IsLocal ? null : new TouchTable(time);
        _seals = new Lazy<TouchTable>(() => new TouchTable(time));
        if (!store.IsLocal)
        {
            spent.ExpectWholeSessions();
        }
    }

    public ISessionBackingStore Store { get; }

    public SpentSeals Spent { get; }

    public SessionCounters Counters { get; }

    public SessionLog Log { get; }

    public SessionSeal Seal => _seal.Value;

    public StoreHealth Health => _health;

    public void Dispose() => _meter.Dispose();

    public StoredSession? Load(SessionKey key)
    {
        if (Store.IsLocal)
        {
            return Store.Load(key);
        }
        _health.ThrowIfLost();
        try
        {
            StoredSession? stored = Store.Load(key);
            _health.Answered();
            return stored;
        }
        catch (Exception error)
        {
            _health.Failed(error);
            throw;
        }
    }

    public async ValueTask<StoredSession?> LoadAsync(SessionKey key, TimeSpan limit, CancellationToken ct) => Store.IsLocal
        ? Store.Load(key)
        : await _loads.LoadAsync(key, one => CallAsync(token => Store.LoadAsync(one, token), limit, CancellationToken.None).AsTask(), ct).ConfigureAwait(false);

    /// <summary>What is there now: it is not shared with whoever has begun to load it before.</summary>
    public ValueTask<StoredSession?> LoadAnewAsync(SessionKey key, TimeSpan limit, CancellationToken ct) => Store.IsLocal
        ? ValueTask.FromResult(Store.Load(key))
        : CallAsync(token => Store.LoadAsync(key, token), limit, ct);

    public async ValueTask<SessionWriteResult> WriteAsync(SessionWrite write, TimeSpan limit, CancellationToken ct)
    {
        if (Store.IsLocal)
        {
            return await Store.WriteAsync(write, ct).ConfigureAwait(false);
        }
        try
        {
            SessionWrite longer = write with { IdleTimeout = Lasting(write.IdleTimeout) };
            return await CallAsync(token => Store.WriteAsync(longer, token), limit, ct).ConfigureAwait(false);
        }
        finally
        {
            _loads.Forget(write.Key);
        }
    }

    public async ValueTask EndAsync(SessionKey key, TimeSpan remember, TimeSpan limit, CancellationToken ct)
    {
        if (Store.IsLocal)
        {
            await Store.EndAsync(key, remember, ct).ConfigureAwait(false);
            return;
        }
        await CallAsync(
            async token =>
            {
                await Store.EndAsync(key, remember, token).ConfigureAwait(false);
                return true;
            },
            limit,
            ct).ConfigureAwait(false);
        _loads.Forget(key);
    }

    /// <summary>Never throws: that a session is not touched is no reason for a request to fail.</summary>
    public ValueTask TouchAsync(SessionKey key, TimeSpan idleTimeout, TimeSpan limit) =>
        _touches is null ? Store.TouchAsync(key, idleTimeout, CancellationToken.None)
        : _touches.IsDue(key, idleTimeout) ? TouchSharedAsync(key, Lasting(idleTimeout), limit)
        : ValueTask.CompletedTask;

    /// <summary>False: the store has the session, or somebody has asked here within the last step of the idle time.</summary>
    public bool IsSealDue(SessionKey key, TimeSpan idleTimeout) =>
        (Store is not MemorySessionStore memory || !memory.Has(key)) && _seals.Value.IsDue(key, idleTimeout);

    /// <summary>A seal has just been given: it is known to be fresh, and need not be looked at for a step.</summary>
    public void NoteSealed(SessionKey key, TimeSpan idleTimeout) => _ = _seals.Value.IsDue(key, idleTimeout);

    // A shared store hears of a session in use within a step.
    private static TimeSpan Lasting(TimeSpan idleTimeout) => idleTimeout + TouchTable.StepOf(idleTimeout);

    private async ValueTask TouchSharedAsync(SessionKey key, TimeSpan idleTimeout, TimeSpan limit)
    {
        try
        {
            await CallAsync(
                async token =>
                {
                    await Store.TouchAsync(key, idleTimeout, token).ConfigureAwait(false);
                    return true;
                },
                limit,
                CancellationToken.None).ConfigureAwait(false);
        }
        catch (Exception)
        {
            // StoreHealth has said and counted it.
        }
    }

    private async ValueTask<T> CallAsync<T>(Func<CancellationToken, ValueTask<T>> call, TimeSpan limit, CancellationToken ct)
    {
        _health.ThrowIfLost();
        using var source = CancellationTokenSource.CreateLinkedTokenSource(ct);
        source.CancelAfter(limit);
        try
        {
            T result = await call(source.Token).ConfigureAwait(false);
            _health.Answered();
            return result;
        }
        catch (Exception error)
        {
            if (ct.IsCancellationRequested)
            {
                _health.GivenUp();
            }
            else
            {
                _health.Failed(error);
            }
            throw;
        }
    }
}
