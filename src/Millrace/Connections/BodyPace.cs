// How fast the body of a request arrives, by the clock of the loop. While its handler takes nothing, or waits for nothing, and before it is asked for, its peer
// cannot be too slow.

using Millrace.Exchanges;

namespace Millrace.Connections;

internal struct BodyPace
{
    private long _sinceMs;
    private long _lastMs;
    private long _lookedMs;
    private long _pausedSinceMs;    // 0: there is room

    /// <summary>The handler is about to run.</summary>
    /// <param name="nowMs">The time.</param>
    /// <param name="isPaused">There is no room: full with what came along with the head, or in the queue.</param>
    public void Begin(long nowMs, bool isPaused)
    {
        _pausedSinceMs = isPaused ? nowMs : 0;
        Restart(nowMs);
    }

    /// <summary>Nothing has been due before this.</summary>
    public void Restart(long nowMs) => _sinceMs = _lastMs = _lookedMs = nowMs;

    /// <param name="nowMs">The time, which may be later than that of a look in the same turn.</param>
    /// <param name="awaitedSinceMs">Since when the handler has waited for them, -1 if it has not: what it has waited counts, whatever it is at when the next look comes.</param>
    public void NoteBytes(long nowMs, long awaitedSinceMs)
    {
        if (awaitedSinceMs >= 0)
        {
            Look(nowMs, awaitedSinceMs);
        }

        _lastMs = nowMs;
    }

    public void Pause(long nowMs)
    {
        if (_pausedSinceMs == 0)
        {
            _pausedSinceMs = nowMs;
        }
    }

    public void Resume(long nowMs)
    {
        if (_pausedSinceMs != 0)
        {
            _sinceMs += nowMs - _pausedSinceMs;
            _lastMs = _lookedMs = nowMs;
            _pausedSinceMs = 0;
        }
    }

    /// <summary>It is time for a look: of what has passed since the last one that counts in which the handler has waited for bytes.</summary>
    /// <param name="nowMs">The time.</param>
    /// <param name="awaitedSinceMs">Since when it waits now; -1: it does not.</param>
    public void Look(long nowMs, long awaitedSinceMs)
    {
        long passed = nowMs - _lookedMs;
        if (passed <= 0)
        {
            return;
        }

        _lookedMs = nowMs;
        if (_pausedSinceMs != 0)
        {
            return;
        }

        // Where nobody has looked for long the process stood still, and has read no more than the socket held: beyond two looks that is nobody's rate. It is a silence all the same.
        long waited = awaitedSinceMs < 0 ? 0 : Math.Clamp(nowMs - awaitedSinceMs, 0, passed);
        _sinceMs += passed - Math.Min(waited, 2 * SendProgress.LookMs);
        _lastMs = Math.Max(_lastMs, Math.Min(nowMs, _lastMs + passed - waited));     // bytes may be as young as the look
    }

    /// <param name="nowMs">The time.</param>
    /// <param name="received">Bytes of it so far.</param>
    /// <param name="silence">How long there may be none.</param>
    /// <param name="rate">How many there must be.</param>
    /// <param name="inBlocks">A web server may pass on in large blocks what its client sends (Caddy): how fast that is shows when one has come.</param>
    public readonly bool IsTooSlow(long nowMs, long received, TimeSpan silence, MinRate? rate, bool inBlocks) =>
        nowMs - _lastMs > silence.TotalMilliseconds || rate?.IsMissed(received, (inBlocks ? _lastMs : nowMs) - _sinceMs) == true;
}
