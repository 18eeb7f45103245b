// Whether a store that is elsewhere answers. One that does not is asked once a second, by one request, so that the others do not wait for it.

using Millrace.Sessions.Observe;

namespace Millrace.Sessions.Stores;

internal sealed class StoreHealth
{
    private static readonly TimeSpan s_between = TimeSpan.FromSeconds(1);

    private readonly SessionLog _log;
    private readonly SessionCounters _counters;
    private readonly TimeProvider _time;
    private int _isLost;
    private long _askAgain;

    public StoreHealth(SessionLog log, SessionCounters counters, TimeProvider time)
    {
        _log = log;
        _counters = counters;
        _time = time;
    }

    public bool IsLost => Volatile.Read(ref _isLost) != 0;

    /// <exception cref="SessionStoreLostException">It has not answered a moment ago.</exception>
    public void ThrowIfLost()
    {
        if (!IsLost)
        {
            return;
        }
        long due = Volatile.Read(ref _askAgain);
        long now = _time.GetTimestamp();
        if (now < due || Interlocked.CompareExchange(ref _askAgain, Next(now), due) != due)
        {
            _counters.NotAsked();
            throw new SessionStoreLostException("The store of sessions does not answer; it is asked again within a second.");
        }
    }

    public void Answered()
    {
        if (IsLost && Interlocked.Exchange(ref _isLost, 0) != 0)
        {
            _log.StoreIsBack();
        }
    }

    public void Failed(Exception error)
    {
        _counters.StoreFailed();
        Volatile.Write(ref _askAgain, Next(_time.GetTimestamp()));
        if (Interlocked.Exchange(ref _isLost, 1) == 0)
        {
            _log.StoreLost(error);
        }
    }

    /// <summary>Whoever has asked waits no more: nothing is known of the store.</summary>
    public void GivenUp() => Volatile.Write(ref _askAgain, 0);

    private long Next(long now) => now + (long)(s_between.TotalSeconds * _time.TimestampFrequency);
}

/// <summary>A store does not answer, and is not asked at the moment.</summary>
public sealed class SessionStoreLostException : Exception
{
    /// <summary>A store does not answer.</summary>
    public SessionStoreLostException()
    {
    }

    /// <summary>A store does not answer.</summary>
    /// <param name="message">What has happened.</param>
    public SessionStoreLostException(string message)
        : base(message)
    {
    }

    /// <summary>A store does not answer.</summary>
    /// <param name="message">What has happened.</param>
    /// <param name="innerException">Why.</param>
    public SessionStoreLostException(string message, Exception innerException)
        : base(message, innerException)
    {
    }
}
