// Where sessions are kept that have come back. A store knows bytes and keys; what they mean, and what a client holds, is not its business.

namespace Millrace.Sessions;

/// <summary>Keeps the values of sessions: in this process, or where several processes share them. Safe for concurrent use.</summary>
public interface ISessionBackingStore
{
    /// <summary>Changes when the store forgets its sessions, as with the end of a process: what clients hold from before is then of no use. 0 for a store that lasts.</summary>
    long Epoch { get; }

    /// <summary>Whether calls end at once, without input or output.</summary>
    bool IsLocal { get; }

    /// <summary>The values of a session.</summary>
    /// <param name="key">The session.</param>
    /// <returns>Null if there is none.</returns>
    StoredSession? Load(SessionKey key);

    /// <inheritdoc cref="Load"/>
    /// <param name="key">The session.</param>
    /// <param name="cancellationToken">Nobody waits any more.</param>
    ValueTask<StoredSession?> LoadAsync(SessionKey key, CancellationToken cancellationToken);

    /// <summary>Stores the values of a session.</summary>
    /// <param name="write">What, and under which condition.</param>
    /// <param name="cancellationToken">Nobody waits any more.</param>
    ValueTask<SessionWriteResult> WriteAsync(SessionWrite write, CancellationToken cancellationToken);

    /// <summary>A session was used: its idle time begins anew. A store that is not local hears of it in steps, a minute at most, and not with every request; its idle times are so much longer.</summary>
    /// <param name="key">The session; it need not be there.</param>
    /// <param name="idleTimeout">How long it may be idle from now on.</param>
    /// <param name="cancellationToken">Nobody waits any more.</param>
    ValueTask TouchAsync(SessionKey key, TimeSpan idleTimeout, CancellationToken cancellationToken);

    /// <summary>A session has ended. As long as a client may hold something of it, nothing is stored under its key again.</summary>
    /// <param name="key">The session; it need not be there.</param>
    /// <param name="remember">For how long its end is remembered.</param>
    /// <param name="cancellationToken">Nobody waits any more.</param>
    ValueTask EndAsync(SessionKey key, TimeSpan remember, CancellationToken cancellationToken);
}

/// <summary>What a store has of a session.</summary>
/// <param name="Values">As they were written; empty for one that has ended. Requests look at them until they end: nobody changes them.</param>
/// <param name="Tag">Tells this state of the session from all others; for <see cref="SessionWrite.Expected"/>.</param>
/// <param name="HasEnded">It has ended: <see cref="ISessionBackingStore.EndAsync"/>.</param>
/// <param name="Seal">The <see cref="SessionWrite.Seal"/> that these values were written with; 0 for none, and from a store that does not keep it.</param>
public readonly record struct StoredSession(ReadOnlyMemory<byte> Values, object? Tag, bool HasEnded = false, uint Seal = 0);

/// <summary>What is to be stored.</summary>
/// <param name="Key">The session.</param>
/// <param name="Values">Kept as they are: whoever writes them changes them no more.</param>
/// <param name="Condition">What must be there before.</param>
/// <param name="Expected">For <see cref="WriteCondition.Unchanged"/>: the <see cref="StoredSession.Tag"/> of what must be there.</param>
/// <param name="IdleTimeout">How long the session may be idle from now on.</param>
/// <param name="Client">Who it belongs to, as far as an address says.</param>
/// <param name="Seal">The serial of the seal that the client's cookie has, or gets when this is stored, with these same values, which are not lost with the store's copy then; 0 for none. A store that lasts need not keep it.</param>
/// <param name="SealBefore">The serial of the seal with the values that the request has begun with; 0 for none. In memory it is spent with this write, unless it is <paramref name="Seal"/>.</param>
/// <param name="Replaces">The session had another key until now, under which it ends.</param>
public sealed record SessionWrite(
    SessionKey Key, byte[] Values, WriteCondition Condition, object? Expected, TimeSpan IdleTimeout, ClientPrefix Client, uint Seal = 0, uint SealBefore = 0, SessionKey? Replaces = null);

/// <summary>What must be there for a write to happen.</summary>
public enum WriteCondition
{
    /// <summary>Nothing.</summary>
    Absent,

    /// <summary>What was loaded.</summary>
    Unchanged,

    /// <summary>Anything but the memory of its end.</summary>
    Any,
}

/// <summary>What has become of a write.</summary>
/// <param name="Outcome">Whether it has happened.</param>
/// <param name="Tag">The tag of what is there now, where the store says so.</param>
public readonly record struct SessionWriteResult(WriteOutcome Outcome, object? Tag);

/// <summary>Whether a write has happened.</summary>
public enum WriteOutcome
{
    /// <summary>It has.</summary>
    Stored,

    /// <summary>Something else was there than expected.</summary>
    Conflict,

    /// <summary>The session has ended meanwhile.</summary>
    Ended,

    /// <summary>The store does not take so much.</summary>
    TooLarge,
}
