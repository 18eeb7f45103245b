// Requests of one session that are loading it at the same time ask a shared store once. What is written meanwhile ends the sharing: who comes then asks anew.

using System.Collections.Concurrent;

namespace Millrace.Sessions.Stores;

internal sealed class SingleFlight
{
    private readonly ConcurrentDictionary<SessionKey, Lazy<Task<StoredSession?>>> _flights = new();

    /// <summary>Loads that are under way.</summary>
    public int Count => _flights.Count;

    public Task<StoredSession?> LoadAsync(SessionKey key, Func<SessionKey, Task<StoredSession?>> load, CancellationToken ct)
    {
        Lazy<Task<StoredSession?>> flight = _flights.GetOrAdd(
            key, static (key, with) => new Lazy<Task<StoredSession?>>(() => with.This.FlyAsync(key, with.Load)), (This: this, Load: load));
        return flight.Value.WaitAsync(ct);
    }

    /// <summary>What has been loaded so far is no longer all there is.</summary>
    public void Forget(SessionKey key) => _flights.TryRemove(key, out _);

    private async Task<StoredSession?> FlyAsync(SessionKey key, Func<SessionKey, Task<StoredSession?>> load)
    {
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);      // the flight is in the table before it can end
        Lazy<Task<StoredSession?>>? mine = _flights.GetValueOrDefault(key);
        try
        {
            return await load(key).ConfigureAwait(false);
        }
        finally
        {
            if (mine is not null)
            {
                _flights.TryRemove(KeyValuePair.Create(key, mine));
            }
        }
    }
}
