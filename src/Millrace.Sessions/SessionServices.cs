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

    public SessionServices(
        ISessionBackingStore store, SpentSeals spent, SessionCounters counters, SessionLog log, IDataProtectionProvider protection, TimeProvider time)
    {
        Store = store;
        Spent = spent;
        Counters = counters;
        Log = log;
        _seal = new Lazy<SessionSeal>(() => new SessionSeal(protection, time));
        _health = new StoreHealth(log, counters, time);
        _meter = new SessionMeter(counters, store);
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

    public ValueTask<StoredSession?> LoadAsync(SessionKey key, TimeSpan limit, CancellationToken ct) =>
        Store.IsLocal ? ValueTask.FromResult(Store.Load(key)) : CallAsync(token => Store.LoadAsync(key, token), limit, ct);

    public ValueTask<SessionWriteResult> WriteAsync(SessionWrite write, TimeSpan limit, CancellationToken ct) =>
        Store.IsLocal ? Store.WriteAsync(write, ct) : CallAsync(token => Store.WriteAsync(write, token), limit, ct);

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
    }

    /// <summary>Never throws: that a session is not touched is no reason for a request to fail.</summary>
    public ValueTask TouchAsync(SessionKey key, TimeSpan idleTimeout, TimeSpan limit) =>
        Store.IsLocal ? Store.TouchAsync(key, idleTimeout, CancellationToken.None) : TouchSharedAsync(key, idleTimeout, limit);

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
