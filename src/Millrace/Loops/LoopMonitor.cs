// Looks at the busy loops every millisecond or two and hands over those whose handler still runs. Sleeps when they sleep:
// an idle server uses no CPU. In EventLoop.pml: LOOK, LOOKED, asleep. Threads that the system has refused are asked for again here.

using Millrace.Platform;

namespace Millrace.Loops;

internal sealed class LoopMonitor(LoopServices services) : IDisposable
{
    // A look costs as much as several requests on a small machine. Where no handler has blocked for a while, looks are
    // further apart: the first that blocks is found after 2 to 4 ms, those that follow after 1 to 2.
    private const int AlertMs = 1;
    private const int CalmMs = 2;
    private const int AlertLooks = 1_000;

    // Quiet looks before deep sleep: waking the monitor costs a loop more than a few looks cost the machine.
    private const int QuietLooks = 20;

    // After a look that failed: should each of them fail, the log must not fill up, nor the machine be busy with it.
    private const int FaultPauseMs = 500;

    // Threads of the runtime that have their policy from a driver get it back after as many: about a second.
    private const int LooksBeforeTakeBack = 500;

    private readonly SemaphoreSlim _wake = new(0);
    private EventLoop[] _loops = [];
    private long[] _lastWord = [];
    private long[] _lastTurns = [];
    private int _sleeping;
    private int _alert;
    private int _looks;
    private volatile bool _stopped;

    public void Start(EventLoop[] loops)
    {
        Watch(loops);
        new Thread(Run) { IsBackground = true, Name = "Millrace monitor" }.UnsafeStart();
    }

    /// <summary>Takes note of the loops without a thread of its own: <see cref="Look"/> is then called by hand.</summary>
    public void Watch(EventLoop[] loops)
    {
        _lastWord = new long[loops.Length];
        _lastTurns = new long[loops.Length];
        _loops = loops;
    }

    /// <summary>A loop has work. It has published that with a full fence before.</summary>
    public void LoopAwoke()
    {
        if (Volatile.Read(ref _sleeping) == 1 && Interlocked.Exchange(ref _sleeping, 0) == 1)
        {
            WakeUp();
        }
    }

    public void Dispose()
    {
        _stopped = true;
        WakeUp();
    }

    private void WakeUp() => Steady.Do(static wake => wake.Release(), _wake);

    private void Run()
    {
        int quiet = 0;
        while (!_stopped)
        {
            quiet = TryLook() ? 0 : quiet + 1;
            if (quiet < QuietLooks)
            {
                SystemCalls.SleepMs(_alert > 0 ? AlertMs : CalmMs);
                continue;
            }

            Interlocked.Exchange(ref _sleeping, 1);
            if (Array.Exists(_loops, static loop => loop.IsActive) || TryLook())
            {
                Volatile.Write(ref _sleeping, 0);
            }
            else
            {
                _wake.Wait();
            }

            quiet = 0;
        }
    }

    // A fault of the server itself costs some looks, not the process.
    private bool TryLook()
    {
        try
        {
            if (++_looks % LooksBeforeTakeBack == 0)
            {
                BatchScheduling.TakeBack(all: false);
            }

            bool busy = Look();
            return services.Standby.ServeWaiting() || busy;     // no deep sleep before they are served
        }
        catch (Exception error)
        {
            services.Log.InternalError(error);
            SystemCalls.SleepMs(FaultPauseMs);
            return true;
        }
    }

    /// <summary>One look at every loop; true when any of them has been busy since the last.</summary>
    public bool Look()
    {
        bool busy = false;
        _ = services.Standby.KeepStandby();
        _alert = Math.Max(0, _alert - 1);
        for (int i = 0; i < _loops.Length; i++)
        {
            EventLoop loop = _loops[i];
            long word = loop.Word;
            long turns = loop.Turns;
            bool running = (word & 1) == 1;
            busy |= running || turns != _lastTurns[i] || loop.IsActive;
            if (running && word == _lastWord[i])
            {
                HandOver(loop, word);
            }

            _lastWord[i] = word;
            _lastTurns[i] = turns;
        }

        return busy;
    }

    private void HandOver(EventLoop loop, long word)
    {
        if (services.Standby.TryReserve() is not { } standby)
        {
            services.HandOverRefused();
            return;
        }

        if (!loop.TakeOver(word))
        {
            services.Standby.Release(standby);
            return;
        }

        _ = services.Standby.KeepStandby();     // before the loop runs its next handler
        _alert = AlertLooks;
        loop.Counters.HandOvers++;
        loop.Dispatch.HandedOver();
        standby.Give(loop);
        services.HandedOver();
    }
}
