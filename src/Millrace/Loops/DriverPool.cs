// The threads behind loops and workers. A thread is started whenever work waits, none is idle and none is on its way, up to
// the maximum (the runtime's own pool would start one or two a second), and retires after standing by for a while.
//
// Waking a thread costs as much as running a short handler. So handlers are queued, and one thread at a time is on its way
// to them, the seeker: it wakes the next before it begins, should more be waiting. A thread that has finished takes its next
// handler without being woken, perhaps before the seeker has arrived.
//
// A handler that blocks may wait for what only its loop can bring it: the rest of its body, room in its socket, the end of its time. So no
// loop ever stays with one. The maximum is one of handlers: beyond it there is a thread more for each loop, to take it over and for
// nothing else, and while one of these is in use, or none can be had, loops run no handlers themselves (LoopServices.IsShortOfThreads).

using Millrace.Platform;

namespace Millrace.Loops;

/// <summary>Where standby drivers and workers come from: threads, or in tests whatever a simulation takes for them.</summary>
internal interface IDriverSource
{
    /// <summary>A driver for a loop that is about to be given to it, beyond the maximum if need be; null when none is idle and none can be added.</summary>
    IStandbyDriver? TryReserve();

    /// <summary>
    /// One stands by for the next loop whose handler blocks. Where the system refuses it loops run no handlers themselves: one that waits for what only its
    /// loop can bring would wait for ever. The monitor asks before that can happen.
    /// </summary>
    /// <returns>Whether there is one, or none is wanted.</returns>
    bool KeepStandby();

    /// <summary>A reserved driver that is not needed after all: it takes the first handler that waits, or stands by.</summary>
    void Release(IStandbyDriver driver);

    /// <summary>Queues the handler of a connection's exchange for a worker thread.</summary>
    void Run(Connection connection);

    /// <summary>Sends a thread to handlers that wait although one could come: the system may have refused it before (the monitor asks now and then).</summary>
    /// <returns>Whether somebody waited.</returns>
    bool ServeWaiting();

    /// <summary>Threads that exist.</summary>
    int Count { get; }

    /// <summary>Handlers in the queue: a few for a moment while a thread is on its way to them.</summary>
    int Waiting { get; }
}

/// <summary>A driver that stands by.</summary>
internal interface IStandbyDriver
{
    /// <summary>A loop to drive, or a connection whose handler is to run.</summary>
    void Give(object work);
}

/// <summary>Threads that drive loops and run handlers.</summary>
internal sealed class DriverPool : IDriverSource, IDisposable
{
    private const int StartAgainMs = 100;           // after the system has refused a thread: a refusal costs more than a request
    private const int StartSparesAgainMs = 1_000;   // where there were spare ones: to ask again takes from the runtime, for a moment, what they have left it,
    private const int StartSparesAgainMsMax = 60_000;   // and it may be the moment when it needs that: more and more seldom

    private readonly LoopServices _services;
    private readonly SteadyLock _lock = new();
    private readonly Stack<DriverThread> _idle = new();
    private readonly Queue<Connection> _waiting = new();
    private readonly int _standbyMin;
    private readonly int _max;
    private readonly int _loops;
    private readonly TimeSpan _retireAfter;
    private int _count;
    private bool _hasSeeker;        // a thread has been woken or started for those who wait, and has not come yet
    private bool _isRefused;        // by the system, the last that was asked for
    private bool _isWanted;         // by a loop that found none at the monitor's last look: it goes before handlers
    private bool _isWantedStill;    // the same since that look
    private long _startAgainAtMs;
    private int _sparesPauseMs;
    private bool _stopped;

    public DriverPool(LoopServices services)
    {
        _services = services;
        _standbyMin = services.Options.StandbyDriversMin;
        _max = services.Options.DriversMax;
        _loops = services.Options.EffectiveLoops;
        _retireAfter = TimeSpan.FromSeconds(10);
    }

    /// <summary>For tests: a system that refuses threads.</summary>
    internal Action<DriverThread> StartThread { get; init; } = static thread => thread.Start();

    internal SpareThreads Spares { get; init; } = new();

    public int Count
    {
        get
        {
            using (_lock.Hold())
            {
                return _count;
            }
        }
    }

    public int Waiting
    {
        get
        {
            using (_lock.Hold())
            {
                return _waiting.Count;
            }
        }
    }

    public IStandbyDriver? TryReserve()
    {
        using (_lock.Hold())
        {
            DriverThread? driver = Take(_max + _loops);
            _isWanted = _isWantedStill = driver is null;
            return driver;
        }
    }

    public bool KeepStandby()
    {
        using (_lock.Hold())
        {
            if (_idle.Count == 0 && _standbyMin > 0)
            {
                if (TryAdd(_max + _loops) is { } driver)
                {
                    _idle.Push(driver);
                }

                NoteShortage();
            }

            return _idle.Count > 0 || _standbyMin == 0;
        }
    }

    public void Release(IStandbyDriver driver)
    {
        var thread = (DriverThread)driver;
        if (NextFor(thread) is { } work)
        {
            thread.Give(work);      // somebody may have come to wait while it was reserved
        }
    }

    public void Run(Connection connection)
    {
        DriverThread? seeker;
        using (_lock.Hold())
        {
            _waiting.Enqueue(connection);
            seeker = TakeSeeker();
        }

        seeker?.Give(DriverThread.Seek);
    }

    public void Dispose()
    {
        DriverThread[] idle;
        using (_lock.Hold())
        {
            _stopped = true;
            idle = [.. _idle];
            _idle.Clear();
            _count -= idle.Length;
            Spares.GiveUp();
        }

        foreach (DriverThread thread in idle)
        {
            thread.Give(DriverThread.Retire);
        }
    }

    // Under the lock. An idle one, or a new one where there are fewer.
    private DriverThread? Take(int max)
    {
        DriverThread? driver = _idle.TryPop(out DriverThread? idle) ? idle : TryAdd(max);
        NoteShortage();
        return driver;
    }

    // Under the lock, whenever a thread has begun or ended to be busy. Every loop may be in a handler that blocks: there must be a thread for each.
    private void NoteShortage() => _services.IsShortOfThreads = Busy > _max || (_isRefused && _idle.Count == 0);

    // Those that drive loops, and those that handlers run on or are about to.
    private int Busy => _count - _idle.Count;

    // The system may refuse a thread (pids.max, RLIMIT_NPROC, no memory for its stack). Then it is as if the maximum were
    // reached, but for the threads beyond it: a loop in a handler that blocks stays with it until a thread has finished. A thread that becomes free takes the first that waits;
    // where none can, since all of them drive loops or there are none, the monitor asks again (ServeWaiting). What the system allows
    // is not for drivers alone: beyond those of the loops spare threads are there before the next, and end when one is refused.
    private DriverThread? TryAdd(int max)
    {
        if (_count >= max || _stopped || Environment.TickCount64 < _startAgainAtMs)
        {
            return null;
        }

        DriverThread thread;
        try
        {
            thread = new DriverThread(this, _services);
            _ = _idle.EnsureCapacity(_count + 1);       // when it stands by there is room for it, whatever memory there is then
            Spares.Keep(SparesFor(_count + 1));
            StartThread(thread);
        }
        catch (Exception error) when (error is OutOfMemoryException or ThreadStartException)
        {
            _sparesPauseMs = Math.Clamp(_sparesPauseMs * 2, StartSparesAgainMs, StartSparesAgainMsMax);
            _startAgainAtMs = Environment.TickCount64 + (Spares.GiveUp() ? _sparesPauseMs : StartAgainMs);
            _services.Log.ThreadRefused(_count);
            _isRefused = true;
            return null;
        }

        _isRefused = false;
        _sparesPauseMs = 0;
        _count++;
        return thread;
    }

    // All before the first driver that is for handlers alone: the runtime goes before it. None for a server whose handlers do not block.
    private int SparesFor(int drivers) => drivers > _loops + _standbyMin ? SpareThreads.Most : 0;

    public bool ServeWaiting()
    {
        DriverThread? seeker;
        using (_lock.Hold())
        {
            _isWanted = _isWantedStill;
            _isWantedStill = false;
            if (_waiting.Count == 0 || (_count >= _max && _idle.Count == 0))
            {
                return false;       // where there are as many threads as may be, the next that has finished comes by itself
            }

            seeker = TakeSeeker();
        }

        seeker?.Give(DriverThread.Seek);
        return true;
    }

    // Where there will be no other: handlers that wait have those that are busy, if there are any besides the loops' own.
    private bool IsLastForLoops => _isRefused && _idle.Count == 1 && _standbyMin > 0 && Busy > _loops;

    // Under the lock. Whenever somebody waits, a thread is on its way, or every thread is busy and looks when it has finished, or
    // the system has refused one (TryAdd).
    private DriverThread? TakeSeeker()
    {
        if (_hasSeeker || _waiting.Count == 0 || _isWanted || Busy >= _max || IsLastForLoops)
        {
            return null;
        }

        DriverThread? seeker = Take(_max);
        _hasSeeker = seeker is not null;
        return seeker;
    }

    /// <summary>Waiting work for a thread that has finished, was not needed or has been sent for it; null: it stands by.</summary>
    internal object? NextFor(DriverThread thread, bool isSeeker = false)
    {
        Connection? connection;
        DriverThread? seeker;
        using (_lock.Hold())
        {
            _hasSeeker &= !isSeeker;
            if (_isWanted || Busy > _max + 1 || !_waiting.TryDequeue(out connection))
            {
                return Push(thread) ? null : DriverThread.Retire;
            }

            seeker = TakeSeeker();
        }

        seeker?.Give(DriverThread.Seek);
        return connection;
    }

    /// <summary>A thread that has stood by for long enough asks to go.</summary>
    internal bool MayRetire(DriverThread thread)
    {
        using (_lock.Hold())
        {
            if (_idle.Count <= _standbyMin || !_idle.Contains(thread))
            {
                return false;
            }

            DriverThread[] others;
            try
            {
                others = [.. _idle.Where(t => t != thread).Reverse()];
            }
            catch (OutOfMemoryException)
            {
                return false;       // it asks again
            }

            _idle.Clear();
            Array.ForEach(others, _idle.Push);
            _count--;
            NoteShortage();
            Spares.Keep(Math.Min(Spares.Count, SparesFor(_count)));
            return true;
        }
    }

    internal TimeSpan RetireAfter => _retireAfter;

    private bool Push(DriverThread thread)
    {
        if (_stopped)
        {
            _count--;
            return false;
        }

        _idle.Push(thread);
        NoteShortage();
        return true;
    }
}
