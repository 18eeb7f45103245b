// The part of an event loop that does not depend on the kernel: the word by which it is handed from driver to driver,
// its posted work and its counters. What a turn of the loop does is in EventLoop.Turn.cs.
//
// Exactly one driver drives a loop. Around every call of user code the driver writes (sequence << 1 | 1) into the word
// and afterwards takes the 1 off with one compare-exchange. The monitor that finds the same odd word twice does the same
// exchange first: then the loop is the monitor's to give to another driver, and the old one, losing its own exchange,
// knows that it must not touch the loop again.
//
//        Enter                    Leave (driver wins)
//   even ------> odd (running) ---------------------> even
//                  |   TakeOver (monitor wins)
//                  +---------------------------------> even, driven by a standby driver; the old driver finishes alone
//
// EventLoop.pml checks this exhaustively: TURN, POLL, ENTER, RUNNING (odd), HELD (a handler that never returns), STANDBY.

using Millrace.Observe;
using Millrace.Platform;

namespace Millrace.Loops;

internal abstract class EventLoop
{
    private readonly SteadyQueue<object> _posted = new();
    private long _word;
    private long _sequence;
    private int _sleeping;
    private int _wakers;            // threads between the look at _sleeping and the end of their Wake
    private int _ended;
    private int _active;

    protected EventLoop(int index, LoopServices services)
    {
        Index = index;
        Services = services;
        Dispatch = new DispatchPolicy(services.Options.Dispatch);
    }

    public int Index { get; }

    public LoopServices Services { get; }

    public LoopCounters Counters { get; } = new();

    public DispatchPolicy Dispatch { get; }

    /// <summary>Milliseconds, taken once a turn.</summary>
    public long NowMs { get; protected set; }

    /// <summary>When the last handler that was called in the loop's turn had come back: until then whoever comes behind it has waited. Known where slow requests are told of.</summary>
    public long HandlerEndedMs { get; set; }

    /// <summary>Connections of this loop; written by its driver, read by others to spread new ones evenly.</summary>
    public int ConnectionCount;

    /// <summary>The connection whose handler runs, null for code of an application that goes on: set before the word turns odd, and of no meaning while it is even.</summary>
    public Connection? HandlerOf { get; private set; }

    /// <summary>Turns made so far, so that the monitor can tell a busy loop from a quiet one.</summary>
    public long Turns { get; protected set; }

    /// <summary>Drives the loop until it ends or is taken over. True: it has ended, and this driver has closed what was the loop's.</summary>
    public abstract bool Drive(LoopDriver driver);

    /// <summary>Called by a driver that was given this loop from another whose handler blocks.</summary>
    public abstract bool Resume(LoopDriver driver);

    // ---- the word ----

    /// <summary>Before user code. Give the answer to <see cref="Leave"/>.</summary>
    public long Enter(Connection? running)
    {
        HandlerOf = running;
        long mark = (++_sequence << 1) | 1;
        Volatile.Write(ref _word, mark);
        return mark;
    }

    /// <summary>After user code: false when the loop has been taken over and belongs to another driver now.</summary>
    public bool Leave(long mark) => Interlocked.CompareExchange(ref _word, mark - 1, mark) == mark;

    public long Word => Volatile.Read(ref _word);

    /// <summary>The monitor's side: true when the loop is the caller's to give away.</summary>
    public bool TakeOver(long mark) => Interlocked.CompareExchange(ref _word, mark - 1, mark) == mark;

    // ---- posted work ----

    /// <summary>Queues work for the loop's driver and wakes the loop if it sleeps. Any thread.</summary>
    public void Post(object work)
    {
        _posted.Enqueue(work);
        Interlocked.MemoryBarrier();
        if (Volatile.Read(ref _sleeping) == 1)
        {
            Interlocked.Increment(ref _wakers);
            if (Interlocked.Exchange(ref _sleeping, 0) == 1)
            {
                Wake();
            }

            Interlocked.Decrement(ref _wakers);
        }

        if (HasEnded)
        {
            Abandon();
        }
    }

    protected bool TryTakePosted(out object? work) => _posted.TryDequeue(out work);

    protected int PostedCount => _posted.Count;

    /// <summary>Whether posted work waits for the driver.</summary>
    public bool HasPosted => !_posted.IsEmpty;

    /// <summary>True: nothing is posted and posters will wake the loop from now on.</summary>
    protected bool TryFallAsleep()
    {
        Interlocked.Exchange(ref _sleeping, 1);
        if (_posted.IsEmpty)
        {
            return true;
        }

        Volatile.Write(ref _sleeping, 0);
        return false;
    }

    protected void WakeUp() => Volatile.Write(ref _sleeping, 0);

    protected abstract void Wake();

    // ---- the end ----

    /// <summary>It has been told to stop, and connections are left whose handlers have not ended: the last of them ends it.</summary>
    public bool IsOutlived { get; protected set; }

    /// <summary>Nobody drives it any more.</summary>
    public bool HasEnded => Volatile.Read(ref _ended) == 1;

    /// <summary>The loop has nothing left. Afterwards nobody wakes it: what it was woken with may be closed.</summary>
    protected void MarkEnded()
    {
        Interlocked.Exchange(ref _ended, 1);
        var spin = default(SpinWait);
        while (Volatile.Read(ref _wakers) != 0)
        {
            Steady.Spin(ref spin);
        }
    }

    /// <summary>Throws away what is posted to a loop that has ended. Any thread.</summary>
    protected abstract void Abandon();

    // ---- seen by the monitor ----

    public bool IsActive => Volatile.Read(ref _active) == 1;

    protected void SetActive()
    {
        Interlocked.Exchange(ref _active, 1);
        Services.Monitor.LoopAwoke();
    }

    protected void EnsureActive()
    {
        if (_active == 0)
        {
            SetActive();
        }
    }

    protected void SetInactive() => Volatile.Write(ref _active, 0);
}
