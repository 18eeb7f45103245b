// A clock that goes when a test says so, and rings its timers on the thread that moves it.

namespace Millrace.Sessions.Tests.Site;

internal sealed class ManualTime : TimeProvider
{
    private readonly List<Alarm> _alarms = [];
    private DateTimeOffset _now = new(2030, 1, 1, 0, 0, 0, TimeSpan.Zero);
    private TimeSpan _setBack;

    public override long TimestampFrequency => TimeSpan.TicksPerSecond;

    public override DateTimeOffset GetUtcNow() => _now - _setBack;

    public override long GetTimestamp() => _now.Ticks;

    public int Armed
    {
        get
        {
            lock (_alarms)
            {
                return _alarms.Count(static alarm => alarm.Due is not null);
            }
        }
    }

    /// <summary>Sets the time of day back, and no other clock.</summary>
    public void SetBack(TimeSpan by) => _setBack += by;

    public void Advance(TimeSpan by)
    {
        _now += by;
        Alarm[] due;
        lock (_alarms)
        {
            due = [.. _alarms.Where(alarm => alarm.Due <= _now)];
        }
        foreach (Alarm alarm in due)
        {
            alarm.Ring();
        }
    }

    public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period)
    {
        var alarm = new Alarm(this, callback, state);
        lock (_alarms)
        {
            _alarms.Add(alarm);
        }
        alarm.Change(dueTime, period);
        return alarm;
    }

    private sealed class Alarm(ManualTime time, TimerCallback callback, object? state) : ITimer
    {
        public DateTimeOffset? Due { get; private set; }

        public void Ring()
        {
            Due = null;
            callback(state);
        }

        public bool Change(TimeSpan dueTime, TimeSpan period)
        {
            Due = dueTime == Timeout.InfiniteTimeSpan ? null : time._now + dueTime;
            return true;
        }

        public void Dispose()
        {
            lock (time._alarms)
            {
                time._alarms.Remove(this);
            }
        }

        public ValueTask DisposeAsync()
        {
            Dispose();
            return ValueTask.CompletedTask;
        }
    }
}
