// Whether a peer takes what is sent to it, while its socket takes no more. That a socket has room is told only when a third of
// its buffer is free, which a slow reader needs minutes for; so the kernel is asked how much is left.

using Millrace.Exchanges;

namespace Millrace.Connections;

internal enum PeerPace
{
    /// <summary>Fast enough, as far as anybody can tell.</summary>
    Fair,

    /// <summary>It has taken no byte for too long.</summary>
    Silent,

    /// <summary>It takes bytes, but fewer than it must.</summary>
    TooSlow,
}

/// <summary>What a peer has taken since its socket was full. Used by whoever owns the output; by the loop under the exchange's send lock.</summary>
internal struct SendProgress
{
    private long _slowSinceMs;      // since when it is known to be too slow; 0: it is not
    private int _unsentAtFirst;
    private int _unsent;

    /// <summary>The socket has taken no byte since it took no more.</summary>
    public bool IsStuck { get; private set; }

    /// <summary>When the socket took no more.</summary>
    public long FullSinceMs { get; private set; }

    /// <summary>When the peer is known to have taken something last.</summary>
    public long TakenAtMs { get; private set; }

    /// <summary>Nothing was left when it was last looked at.</summary>
    public readonly bool IsAllTaken => _unsent == 0;

    /// <summary>No more than this was left when it was last looked at.</summary>
    public readonly bool IsTakenBut(long bytes) => _unsent <= bytes;

    /// <summary>The socket takes no more, and holds this many bytes that the peer has not got.</summary>
    public void Begin(long nowMs, int unsent)
    {
        FullSinceMs = TakenAtMs = nowMs;
        IsStuck = true;
        _slowSinceMs = 0;
        _unsentAtFirst = _unsent = unsent;
    }

    /// <summary>The socket has taken bytes.</summary>
    public void NoteSent() => IsStuck = false;

    // A peer's system tells in steps what it has taken, 95 to 129 KB on loopback: between two of them nobody knows how fast it is. So
    // it is judged on average, and found too slow, when a step has just been told; until then only its silence counts.
    /// <param name="nowMs">What the peer is judged by: the time at which everybody had been heard, which may be long ago.</param>
    /// <param name="atMs">When <paramref name="unsent"/> was asked for: its silence counts from then on.</param>
    /// <param name="unsent">Bytes that the peer has not got.</param>
    /// <param name="silenceMs">How long it may take nothing.</param>
    /// <param name="rate">How fast it must be.</param>
    public PeerPace Look(long nowMs, long atMs, int unsent, long silenceMs, MinRate? rate)
    {
        if (unsent >= _unsent)
        {
            return nowMs - TakenAtMs >= silenceMs ? PeerPace.Silent : PeerPace.Fair;
        }

        _unsent = unsent;
        TakenAtMs = atMs;
        if (rate?.IsMissed(_unsentAtFirst - unsent, nowMs - FullSinceMs) != true)
        {
            _slowSinceMs = 0;
            return PeerPace.Fair;
        }

        if (_slowSinceMs == 0)
        {
            _slowSinceMs = nowMs;
        }

        return nowMs - _slowSinceMs >= rate.GraceMs ? PeerPace.TooSlow : PeerPace.Fair;
    }

    /// <summary>When to look again.</summary>
    public readonly long NextLookMs(long nowMs, long silenceMs) => Math.Min(nowMs + LookMs, Math.Max(TakenAtMs + silenceMs, nowMs + 1));

    /// <summary>Milliseconds between two looks at a peer's speed, in either direction.</summary>
    public const long LookMs = 1_000;

    /// <summary>Milliseconds to the first look where the peer has probably taken everything.</summary>
    public const long FirstLookMs = 100;
}
