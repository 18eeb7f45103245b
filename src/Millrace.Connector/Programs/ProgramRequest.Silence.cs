// How long the program may be silent. While the visitor is waited for, for his body or for room for the answer, its silence is nobody's.

namespace Millrace.Connector;

internal sealed partial class ProgramRequest
{
    private PooledConnection? _asked;       // whose program is to speak
    private int _visitorWaits;
    private long _lifeAt;
    private volatile bool _isSilent;

    TimeSpan ISilent.MaySayNothingFor =>
        Volatile.Read(ref _visitorWaits) > 0 ? _options.ReadTimeout : _options.ReadTimeout - _options.Clock.GetElapsedTime(Volatile.Read(ref _lifeAt));

    void ISilent.FallSilent()
    {
        _isSilent = true;
        Stop(_asked!);
    }

    private void BeginSilence(PooledConnection connection)
    {
        _asked = connection;
        _isSilent = false;
        NoteLife();
        (connection.Silence ??= new SilenceTimer(_options.Clock)).Begin(this, _options.ReadTimeout);
    }

    private void NoteLife() => Volatile.Write(ref _lifeAt, _options.Clock.GetTimestamp());

    private void BeginVisitorWait() => Interlocked.Increment(ref _visitorWaits);

    // Whoever sees that nobody waits any more sees this.
    private void EndVisitorWait()
    {
        NoteLife();
        Interlocked.Decrement(ref _visitorWaits);
    }
}
