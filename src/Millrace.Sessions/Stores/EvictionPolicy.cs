// Who has to go when memory is full: W-TinyLFU, in bytes. Not safe for concurrent use; knows no clock and no dictionary.
//
//    new -> Window (1 %) -> Probation -----used again----> Protected (80 % of the rest)
//                   |          ^  |                          |
//       the one that is used    |  +--> out       too many    |
//       less goes out: it, or   +-----------------------------+
//       the oldest in Probation, which begins anew there if it stays
//
// A flood of new sessions passes through the window and meets its like in Probation; what has been used again is out of its reach. Whoever has more than a client's share is the
// first to go: its own oldest for its new ones.
//
// G. Einziger, R. Friedman, B. Manes: TinyLFU, a highly efficient cache admission policy (2017).

namespace Millrace.Sessions.Stores;

internal enum EvictionReason
{
    Expired,

    /// <summary>Memory was full.</summary>
    Pressure,

    /// <summary>Memory was full, and its network had more than its share.</summary>
    ClientShare,

    /// <summary>It has ended, or has another key.</summary>
    Ended,
}

/// <param name="Window">Part of the budget for the newest.</param>
/// <param name="Protected">Part of the rest for those that were used again.</param>
/// <param name="ByFrequency">Whether the less frequent goes out, or the older.</param>
internal readonly record struct PolicyShape(double Window, double Protected, bool ByFrequency)
{
    public static PolicyShape WTinyLfu => new(0.01, 0.8, true);

    /// <summary>For comparison: the least recently used goes.</summary>
    public static PolicyShape Lru => new(1, 0, false);

    /// <summary>For comparison: 20 % for those that have not been used again.</summary>
    public static PolicyShape SegmentedLru => new(0, 0.8, false);
}

internal sealed class EvictionPolicy
{
    private readonly long _budget;
    private readonly long _windowMax;
    private readonly long _protectedMax;
    private readonly bool _byFrequency;
    private readonly FrequencySketch _sketch;
    private readonly ClientAccounts _clients;
    private readonly Action<KeptSession, EvictionReason> _evicted;
    private RecencyList _window;
    private RecencyList _probation;
    private RecencyList _protected;

    /// <param name="budget">Bytes of all sessions together.</param>
    /// <param name="places">Sessions that fit, about.</param>
    /// <param name="clientBytesMax">Bytes that one network's sessions may take before they are used again, once the budget is spent.</param>
    /// <param name="shape">The parts.</param>
    /// <param name="evicted">Told of each that goes, when it is in no list any more.</param>
    public EvictionPolicy(long budget, int places, long clientBytesMax, PolicyShape shape, Action<KeptSession, EvictionReason> evicted)
    {
        _budget = budget;
        _windowMax = (long)(budget * shape.Window);
        _protectedMax = (long)((budget - _windowMax) * shape.Protected);
        _byFrequency = shape.ByFrequency;
        _sketch = new FrequencySketch(places);
        _clients = new ClientAccounts(clientBytesMax);
        _evicted = evicted;
    }

    public long Bytes => _window.Bytes + _probation.Bytes + _protected.Bytes + _clients.Bytes;

    public int Count => _window.Count + _probation.Count + _protected.Count;

    public ClientAccounts Clients => _clients;

    public void Add(KeptSession session, ClientPrefix client)
    {
        _sketch.Count(session.Key);
        Enter(session, Segment.Window);
        _clients.Add(session, client);
        Shrink(session);
    }

    /// <summary>It is another one under a new key: it has its place and its past.</summary>
    public void Replace(KeptSession session, KeptSession before)
    {
        session.IsEstablished = before.IsEstablished;
        (session.Uses, session.CountedAt) = (before.Uses, before.CountedAt);
        Segment segment = before.IsEstablished ? Segment.Protected : before.Segment;
        for (int i = _sketch.Estimate(before.Key); i > 0; i--)
        {
            _sketch.Count(session.Key);
        }
        Remove(before, EvictionReason.Ended);
        Enter(session, segment);
        ShrinkProtected();
        Shrink(null);
    }

    public void Use(KeptSession session)
    {
        if (session.Segment == Segment.None)
        {
            return;
        }
        _sketch.Count(session.Key);
        session.IsEstablished = true;
        int now = Volatile.Read(ref session.LastUsed);
        session.Uses = (byte)Math.Min(UsesLeft(session, now) + 1, byte.MaxValue);
        session.CountedAt = now;
        _clients.Remove(session);
        Segment next = session.Segment == Segment.Window ? Segment.Window : Segment.Protected;
        Leave(session);
        Enter(session, next);
        ShrinkProtected();
    }

    /// <summary>It has other values.</summary>
    public void Change(KeptSession session, byte[] values)
    {
        int more = KeptSession.BytesOf(values.Length) - session.Bytes;
        Segment segment = session.Segment;
        Leave(session);
        session.Values = values;
        Enter(session, segment);
        ClientAccounts.Grow(session, more);
        Shrink(null);
    }

    public void Remove(KeptSession session, EvictionReason reason)
    {
        if (session.Segment != Segment.None)
        {
            Leave(session);
            session.Segment = Segment.None;
            _clients.Remove(session);
            _evicted(session, reason);
        }
    }

    // What leaves the window asks for a place in Probation.
    private void Shrink(KeptSession? added)
    {
        while (Bytes > _budget && added is not null && _clients.IsOver(added) && added.Client!.Oldest is { } own)
        {
            Remove(own, EvictionReason.ClientShare);
        }
        while (_window.Bytes > _windowMax && _window.Oldest is { } candidate)
        {
            KeptSession? victim = _probation.Oldest ?? _protected.Oldest;
            Leave(candidate);
            Enter(candidate, Segment.Probation);
            if (Bytes > _budget)
            {
                Remove(victim is null || !Beats(candidate, victim) ? candidate : victim, EvictionReason.Pressure);
                if (victim is { Segment: Segment.Probation })
                {
                    Leave(victim);      // the next one meets another: a strong one keeps no weak ones there behind its back
                    Enter(victim, Segment.Probation);
                }
            }
        }
        while (Bytes > _budget && Weakest() is { } weakest)
        {
            Remove(weakest, EvictionReason.Pressure);
        }
    }

    // Values have grown, or networks are many: the window is not full, and yet somebody has to go.
    private KeptSession? Weakest()
    {
        KeptSession? oldest = _probation.Oldest ?? _protected.Oldest;
        return oldest is null || (_byFrequency && _window.Oldest is { } candidate && !Beats(candidate, oldest)) ? _window.Oldest : oldest;
    }

    private void ShrinkProtected()
    {
        while (_protected.Bytes > _protectedMax && _protected.Oldest is { } oldest)
        {
            Leave(oldest);
            Enter(oldest, Segment.Probation);
        }
    }

    private bool Beats(KeptSession candidate, KeptSession victim)
    {
        bool isOver = _clients.IsOver(candidate);
        if (isOver != _clients.IsOver(victim))
        {
            return !isOver;
        }
        if (_byFrequency && candidate.IsEstablished != victim.IsEstablished)
        {
            return candidate.IsEstablished;     // counters may collide, and one that was used again while it was in the window lies in Probation
        }
        int now = Volatile.Read(ref candidate.LastUsed);
        return !_byFrequency || Frequency(candidate, now) > Frequency(victim, now);
    }

    // The sketch forgets by the number of uses: soon, in a flood. What is kept has its own count, of which half goes with every quarter of the idle time that it was not used.
    private int Frequency(KeptSession session, int now) => Math.Max(_sketch.Estimate(session.Key), UsesLeft(session, now));

    private static int UsesLeft(KeptSession session, int now) => session.Uses >> Math.Clamp((now - session.CountedAt) / Math.Max(session.IdleTimeout / 4, 1), 0, 8);

    private void Enter(KeptSession session, Segment segment)
    {
        session.Segment = segment;
        List(segment).AddNewest(session);
    }

    private void Leave(KeptSession session) => List(session.Segment).Remove(session);

    private ref RecencyList List(Segment segment)
    {
        switch (segment)
        {
            case Segment.Window:
                return ref _window;
            case Segment.Probation:
                return ref _probation;
            default:
                return ref _protected;
        }
    }
}
