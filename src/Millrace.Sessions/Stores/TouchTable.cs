// When a shared store was last told that a session is in use, so that it is told in steps. A table of fixed size: two sessions that share a place are told a little more often.

namespace Millrace.Sessions.Stores;

/// <summary>512 KiB.</summary>
internal sealed class TouchTable(TimeProvider time)
{
    private const int Places = 1 << 15;
    private const int StepsPerIdleTimeout = 20;
    private static readonly TimeSpan s_stepMax = TimeSpan.FromMinutes(1);

    private readonly (ulong Key, long Due)[] _places = new (ulong, long)[Places];

    /// <summary>How long a store may not hear of a session that is in use: a twentieth of its idle time, a minute at most. It keeps sessions for so much longer.</summary>
    public static TimeSpan StepOf(TimeSpan idleTimeout)
    {
        TimeSpan step = idleTimeout / StepsPerIdleTimeout;
        return step < s_stepMax ? step : s_stepMax;
    }

    /// <summary>Whether the store is to be told now; whoever is told so tells it.</summary>
    /// <returns>False if it was told within the last step.</returns>
    public bool IsDue(SessionKey key, TimeSpan idleTimeout)
    {
        int place = (int)(key.High & (Places - 1));
        lock (_places)
        {
            long now = time.GetTimestamp();
            if (_places[place].Key == key.Low && now < _places[place].Due)
            {
                return false;
            }
            _places[place] = (key.Low, now + (long)(StepOf(idleTimeout).TotalSeconds * time.TimestampFrequency));
            return true;
        }
    }
}
