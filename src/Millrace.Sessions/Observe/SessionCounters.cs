// What happens to sessions, counted. SessionMeter shows it.

using Millrace.Sessions.Stores;

namespace Millrace.Sessions.Observe;

/// <summary>Why what a client holds was of no use. It has a new session then.</summary>
internal enum CookieRefusal
{
    Malformed,
    SealUnreadable,
    SealExpired,
    SealOfAnotherSession,
    SealOfAnotherEpoch,
    Spent,
}

/// <summary>Why values were not stored.</summary>
internal enum WriteRejection
{
    TooLarge,

    /// <summary>The session had ended meanwhile.</summary>
    Ended,
}

internal sealed class SessionCounters
{
    private readonly long[] _cookies = new long[Enum.GetValues<CookieRefusal>().Length];
    private readonly long[] _rejections = new long[Enum.GetValues<WriteRejection>().Length];
    private readonly long[] _evictions = new long[Enum.GetValues<EvictionReason>().Length];
    private long _sealed;
    private long _resealed;
    private long _stored;
    private long _promoted;
    private long _conflicts;
    private long _unreadable;
    private long _establishedEvicted;
    private long _failures;
    private long _notAsked;

    /// <summary>Told the reason and the age in seconds of each that goes.</summary>
    public Action<EvictionReason, int> AgeOfEvicted { get; set; } = static (_, _) => { };

    /// <summary>Whether anybody listens to that.</summary>
    public Func<bool> AgeIsWanted { get; set; } = static () => false;

    public long SealedTotal => Volatile.Read(ref _sealed);

    public long ResealedTotal => Volatile.Read(ref _resealed);

    public long StoredTotal => Volatile.Read(ref _stored);

    public long PromotedTotal => Volatile.Read(ref _promoted);

    public long ConflictsTotal => Volatile.Read(ref _conflicts);

    public long UnreadableTotal => Volatile.Read(ref _unreadable);

    public long EstablishedEvictedTotal => Volatile.Read(ref _establishedEvicted);

    public long StoreFailuresTotal => Volatile.Read(ref _failures);

    public long NotAskedTotal => Volatile.Read(ref _notAsked);

    public long Total(CookieRefusal refusal) => Volatile.Read(ref _cookies[(int)refusal]);

    public long Total(WriteRejection rejection) => Volatile.Read(ref _rejections[(int)rejection]);

    public long Total(EvictionReason reason) => Volatile.Read(ref _evictions[(int)reason]);

    /// <summary>The values of a session went into its cookie.</summary>
    /// <param name="isFirst">It begins so; if not, it has been changed while its store is nearly full.</param>
    public void Sealed(bool isFirst) => Interlocked.Increment(ref isFirst ? ref _sealed : ref _resealed);

    /// <summary>The first values of a session went to the store.</summary>
    public void Stored() => Interlocked.Increment(ref _stored);

    /// <summary>A cookie with values has come back, and the store has them.</summary>
    public void Promoted() => Interlocked.Increment(ref _promoted);

    /// <summary>Another request has changed the session meanwhile.</summary>
    public void Conflict() => Interlocked.Increment(ref _conflicts);

    /// <summary>What the store has is no session's values.</summary>
    public void Unreadable() => Interlocked.Increment(ref _unreadable);

    public void CookieRefused(CookieRefusal refusal) => Interlocked.Increment(ref _cookies[(int)refusal]);

    public void Rejected(WriteRejection rejection) => Interlocked.Increment(ref _rejections[(int)rejection]);

    public void StoreFailed() => Interlocked.Increment(ref _failures);

    /// <summary>The store is known not to answer, and was not asked.</summary>
    public void NotAsked() => Interlocked.Increment(ref _notAsked);

    public void Evicted(EvictionReason reason, bool isEstablished)
    {
        Interlocked.Increment(ref _evictions[(int)reason]);
        if (isEstablished && reason is EvictionReason.Pressure or EvictionReason.ClientShare)
        {
            Interlocked.Increment(ref _establishedEvicted);
        }
    }
}
