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

    public void NoteBytes(long nowMs) => _lastMs = nowMs;

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

    /// <summary>It is time for a look: what has passed since the last one counts if the handler waits for bytes now.</summary>
    public void Look(long nowMs, bool isAwaited)
    {
        if (!isAwaited && _pausedSinceMs == 0)
        {
            _sinceMs += nowMs - _lookedMs;
            _lastMs = Math.Min(nowMs, _lastMs + nowMs - _lookedMs);     // behind a process that stood still bytes may be as young as the look
        }

        _lookedMs = nowMs;
    }

    /// <param name="nowMs">The time.</param>
    /// <param name="received">Bytes of it so far.</param>
    /// <param name="silence">How long there may be none.</param>
    /// <param name="rate">How many there must be.</param>
    /// <param name="inBlocks">A web server may pass on in large blocks what its client sends (Caddy): how fast that is shows when one has come.</param>
    public readonly bool IsTooSlow(long nowMs, long received, TimeSpan silence, MinRate? rate, bool inBlocks) =>
        nowMs - _lastMs > silence.TotalMilliseconds || rate?.IsMissed(received, (inBlocks ? _lastMs : nowMs) - _sinceMs) == true;
}
