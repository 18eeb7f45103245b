// A clock that goes on when a life says so, and rings what is due in the order in which it was set.

namespace Millrace.Tests.Simulation.Children;

internal sealed class SimulatedTime : TimeProvider
{
    private readonly List<Alarm> _alarms = [];
    private long _lastNumber;

    public long NowMs { get; private set; } = 1_000;

    public override long TimestampFrequency => 1_000;

    public override long GetTimestamp() => NowMs;

    public override DateTimeOffset GetUtcNow() => DateTimeOffset.UnixEpoch.AddMilliseconds(NowMs);

    public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period)
    {
        var alarm = new Alarm(this, () => callback(state));
        alarm.Change(dueTime, period);
        return alarm;
    }

    public void Pass(int milliseconds)
    {
        long end = NowMs + milliseconds;
        while (_alarms.Where(alarm => alarm.DueMs <= end).MinBy(static alarm => (alarm.DueMs, alarm.Number)) is { } alarm)
        {
            NowMs = Math.Max(NowMs, alarm.DueMs);
            _alarms.Remove(alarm);
            alarm.Ring();
        }

        NowMs = end;
    }

    /// <summary>Ends when so much time has passed.</summary>
    public Task Delay(TimeSpan time)
    {
        var passed = new TaskCompletionSource();
        _ = CreateTimer(_ => passed.TrySetResult(), null, time, Timeout.InfiniteTimeSpan);
        return passed.Task;
    }

    private sealed class Alarm(SimulatedTime time, Action ring) : ITimer
    {
        public long DueMs { get; private set; }

        public long Number { get; private set; }

        public void Ring() => ring();

        public bool Change(TimeSpan dueTime, TimeSpan period)
        {
            time._alarms.Remove(this);
            if (dueTime != Timeout.InfiniteTimeSpan)
            {
                DueMs = time.NowMs + (long)dueTime.TotalMilliseconds;
                Number = ++time._lastNumber;
                time._alarms.Add(this);
            }

            return true;
        }

        public void Dispose() => time._alarms.Remove(this);

        public ValueTask DisposeAsync()
        {
            Dispose();
            return ValueTask.CompletedTask;
        }
    }
}
