// Strikes when the program that has a request has been silent for too long. It is kept with the connection, for the next request as well, and is not set anew for every word of the program's: where it
// strikes too soon it goes on for what is left.

namespace Millrace.Connector;

internal interface ISilent
{
    /// <summary>How long the program may be silent yet. Any thread.</summary>
    TimeSpan MaySayNothingFor { get; }

    /// <summary>It has been silent for too long: what waits for it goes on. Any thread.</summary>
    void FallSilent();
}

internal sealed class SilenceTimer : IDisposable
{
    // Timers count milliseconds, and may be one too soon.
    private static readonly TimeSpan s_least = TimeSpan.FromMilliseconds(1);

    private readonly Lock _lock = new();
    private readonly TimeProvider _clock;
    private readonly ITimer _timer;
    private ISilent? _request;       // null: it strikes for nobody, and rests then
    private bool _isSet;
    private long _setAt;
    private TimeSpan _left;                 // when it was set

    public SilenceTimer(TimeProvider clock)
    {
        _clock = clock;
        bool flows = !ExecutionContext.IsFlowSuppressed();
        if (flows)
        {
            _ = ExecutionContext.SuppressFlow();        // the connection outlives the request
        }
        _timer = clock.CreateTimer(static timer => ((SilenceTimer)timer!).Strike(), this, Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);
        if (flows)
        {
            ExecutionContext.RestoreFlow();
        }
    }

    /// <summary>Whose silence is measured from here on. It has made a sign of life.</summary>
    public void Begin(ISilent request, TimeSpan limit)
    {
        lock (_lock)
        {
            _request = request;
            if (!_isSet || (limit < _left && limit < _left - _clock.GetElapsedTime(_setAt)))
            {
                Set(limit);
            }
        }
    }

    /// <summary>Nobody's: whose it was is not told any more.</summary>
    public void End()
    {
        lock (_lock)
        {
            _request = null;
        }
    }

    public void Dispose() => _timer.Dispose();

    private void Strike()
    {
        lock (_lock)        // until it has been told: the connection is the next one's soon
        {
            _isSet = false;
            if (_request is not { } request)
            {
                return;
            }
            if (request.MaySayNothingFor is { Ticks: > 0 } left)
            {
                Set(left > s_least ? left : s_least);
                return;
            }
            _request = null;
            request.FallSilent();
        }
    }

    private void Set(TimeSpan left)
    {
        (_isSet, _setAt, _left) = (true, _clock.GetTimestamp(), left);
        _ = _timer.Change(left, Timeout.InfiniteTimeSpan);
    }
}
