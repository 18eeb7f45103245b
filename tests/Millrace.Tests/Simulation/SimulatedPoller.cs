// An epoll instance of the simulated kernel. A registration stands in the ready list from an edge until a wait has reported
// it, and what is reported is the state at the time of the wait, as in Linux. Listening sockets are level-triggered: they
// stay in the list while a connection waits.

using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Simulation;

internal sealed class SimulatedPoller(SeededRandom random)
{
    private readonly List<Registration> _ready = [];
    private Registration? _mark;

    public bool WakePending { get; set; }

    /// <summary>Whose it is.</summary>
    public SimulatedWorld? Process { get; init; }

    /// <summary>It has been closed: what is registered in it tells nobody anything any more.</summary>
    public bool HasEnded { get; private set; }

    public void End()
    {
        HasEnded = true;
        _ready.Clear();
    }

    /// <summary>How long the loop wanted to sleep at most when it last did; -1: until it is woken.</summary>
    public int SleepMs { get; set; }

    /// <summary>The loop's place in the simulation.</summary>
    public object? Loop { get; set; }

    public bool HasReady
    {
        get
        {
            if (WakePending)
            {
                return true;
            }

            foreach (Registration registration in _ready)
            {
                if (registration.State != Readiness.None)
                {
                    return true;
                }
            }

            return false;
        }
    }

    /// <summary>An event behind those that are ready.</summary>
    public void Mark() => (_mark ??= new Registration(this, IKernel.MarkToken, isLevel: false, static () => Readiness.Read)).Raise();

    public void Add(Registration registration) => _ready.Add(registration);

    public void Remove(Registration registration) => _ready.Remove(registration);

    public int Collect(PollEvent[] events, int eventsMax)
    {
        int count = 0;
        int max = Math.Min(events.Length, Math.Max(2, eventsMax));
        if (WakePending)
        {
            WakePending = false;
            events[count++] = new PollEvent { Token = IKernel.WakeToken, Ready = Readiness.Read };
        }

        // Those that do not fit are the first of the next wait (epoll_wait(2): round robin); among those that do any order may be.
        int first = count;
        int taken = 0;
        List<Registration> stay = [];
        while (taken < _ready.Count && count < max)
        {
            Registration registration = _ready[taken++];
            Readiness state = registration.TakeState();
            if (state != Readiness.None)
            {
                events[count++] = new PollEvent { Token = registration.Token, Ready = state };
            }

            registration.IsReady = registration.IsLevel && state != Readiness.None;
            if (registration.IsReady)
            {
                stay.Add(registration);
            }
        }

        _ready.RemoveRange(0, taken);
        _ready.AddRange(stay);
        for (int i = count - 1; i > first; i--)
        {
            int other = first + random.Below(i - first + 1);
            (events[i], events[other]) = (events[other], events[i]);
        }

        return count;
    }
}

/// <summary>A descriptor in an epoll instance.</summary>
internal sealed class Registration(SimulatedPoller poller, ulong token, bool isLevel, Func<Readiness> state)
{
    public SimulatedPoller Poller => poller;

    public ulong Token => token;

    /// <summary>The number it was registered under: a registration is of that and the open file together.</summary>
    public int Descriptor { get; init; } = -1;

    /// <summary>EPOLLEXCLUSIVE.</summary>
    public bool IsExclusive { get; init; }

    public bool IsLevel => isLevel;

    public bool IsReady { get; set; }

    /// <summary>Whether writability is waited for.</summary>
    public bool Writing { get; set; } = true;

    /// <summary>What the next wait tells although it is not so.</summary>
    public Readiness Lie { get; set; }

    public Readiness State => Writing ? state() | Lie : (state() | Lie) & ~Readiness.Write;

    public Readiness TakeState()
    {
        Readiness told = State;
        Lie = Readiness.None;
        return told;
    }

    public void Raise()
    {
        if (!IsReady && !poller.HasEnded)
        {
            IsReady = true;
            poller.Add(this);
        }
    }

    public void Remove()
    {
        if (IsReady)
        {
            IsReady = false;
            poller.Remove(this);
        }
    }
}
