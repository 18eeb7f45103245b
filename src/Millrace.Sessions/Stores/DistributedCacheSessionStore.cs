// Sessions in any IDistributedCache. It has no condition for a write: who expects something looks first, and two that look at the same moment do not see each other.
//
//   entry:  version 1 | 1: it has ended, 0: it has not | values

using Microsoft.Extensions.Caching.Distributed;

namespace Millrace.Sessions.Stores;

internal sealed class DistributedCacheSessionStore(IDistributedCache cache) : ISessionBackingStore
{
    private const byte Version = 1;
    private const int HeadSize = 2;
    private const string Prefix = "millrace.session:";

    public long Epoch => 0;

    public bool IsLocal => false;

    public StoredSession? Load(SessionKey key) => Read(cache.Get(Name(key)));

    public async ValueTask<StoredSession?> LoadAsync(SessionKey key, CancellationToken cancellationToken) =>
        Read(await cache.GetAsync(Name(key), cancellationToken).ConfigureAwait(false));

    public async ValueTask<SessionWriteResult> WriteAsync(SessionWrite write, CancellationToken cancellationToken)
    {
        ArgumentNullException.ThrowIfNull(write);
        string name = Name(write.Key);
        StoredSession? there = Read(await cache.GetAsync(name, cancellationToken).ConfigureAwait(false));
        if (there is { HasEnded: true })
        {
            return new SessionWriteResult(WriteOutcome.Ended, null);
        }
        if (there is { } other && (write.Condition == WriteCondition.Absent || (write.Condition == WriteCondition.Unchanged && !IsSame(other, write.Expected))))
        {
            return new SessionWriteResult(WriteOutcome.Conflict, other.Tag);
        }
        byte[] entry = new byte[HeadSize + write.Values.Length];
        entry[0] = Version;
        write.Values.CopyTo(entry, HeadSize);
        var options = new DistributedCacheEntryOptions { SlidingExpiration = write.IdleTimeout };
        await cache.SetAsync(name, entry, options, cancellationToken).ConfigureAwait(false);
        if (write.Replaces is { } before)
        {
            await EndAsync(before, write.IdleTimeout, cancellationToken).ConfigureAwait(false);
        }
        return new SessionWriteResult(WriteOutcome.Stored, write.Values);
    }

    public async ValueTask TouchAsync(SessionKey key, TimeSpan idleTimeout, CancellationToken cancellationToken) =>
        await cache.RefreshAsync(Name(key), cancellationToken).ConfigureAwait(false);

    public async ValueTask EndAsync(SessionKey key, TimeSpan remember, CancellationToken cancellationToken) =>
        await cache.SetAsync(Name(key), [Version, 1], new DistributedCacheEntryOptions { AbsoluteExpirationRelativeToNow = remember }, cancellationToken).ConfigureAwait(false);

    private static string Name(SessionKey key) => Prefix + key;

    private static StoredSession? Read(byte[]? entry)
    {
        if (entry is null || entry.Length < HeadSize || entry[0] != Version)
        {
            return null;
        }
        ReadOnlyMemory<byte> values = entry.AsMemory(HeadSize);
        return new StoredSession(values, values, HasEnded: entry[1] != 0);
    }

    private static bool IsSame(StoredSession there, object? expected) => expected switch
    {
        ReadOnlyMemory<byte> memory => memory.Span.SequenceEqual(there.Values.Span),
        byte[] bytes => bytes.AsSpan().SequenceEqual(there.Values.Span),
        _ => false,
    };
}
