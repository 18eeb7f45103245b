// A whole server over the simulated kernel in one thread: its loops, the drivers that hand them on, the threads that run
// what is not on a loop, and the clock. Everything that happens is a step, and which step comes next is drawn from a seed.
//
// Threads that block are simulated by nesting: a handler that calls Block is on the stack while other steps go on, and its
// loop is taken over by a standby driver exactly as the monitor does it. A stack of frames says who is at work, so that
// each system call can be checked against the owner of the loop.

using Millrace.Connections;
using Millrace.Exchanges;
using Millrace.Handlers;
using Millrace.Listeners;
using Millrace.Loops;
using Millrace.Observe;

namespace Millrace.Tests.Simulation;

/// <summary>What a simulation is made with.</summary>
internal sealed class SimulationSetup
{
    public int Loops { get; init; } = 1;

    public bool IsTcp { get; init; } = true;

    public string? Address { get; init; }

    /// <summary>A second listening socket, for HTTP, over TCP or a Unix socket; null: there is none.</summary>
    public bool? HttpIsTcp { get; init; }

    public MillraceOptions Options { get; init; } = new();

    public required Func<Simulation, RequestHandler> Handler { get; init; }

    /// <summary>How often, in percent, other threads do something in the middle of a system call.</summary>
    public int InterleavePercent { get; init; }

    /// <summary>What it shares with other processes; null: it is the only one.</summary>
    public Inheritance? Inherited { get; init; }

    /// <summary>Whether to keep a text of every step.</summary>
    public bool Traces { get; init; }

    /// <summary>Whether steps go into the fingerprint.</summary>
    public bool HasFingerprint { get; init; } = true;
}

internal sealed partial class Simulation : IKernelObserver
{
    private const int DepthMax = 7;

    private readonly List<Action> _pool = [];
    private readonly PriorityQueue<Action, long> _timers = new();
    private readonly Stack<Frame> _frames = new();
    private readonly int _interleavePercent;
    private readonly Func<Task> _beginDrain;

    public Simulation(ulong seed, SimulationSetup setup)
    {
        Seed = seed;
        _inherited = setup.Inherited;
        Random = _inherited?.Machine.Random ?? new SeededRandom(seed);
        World = new SimulatedWorld(Random, _inherited?.Machine ?? new SimulatedMachine(Random)) { Observer = this };
        _interleavePercent = setup.InterleavePercent;
        _trace = setup.Traces ? [] : null;
        _hasFingerprint = setup.HasFingerprint;
        Drivers = new SimulatedDrivers(this, setup.Options.DriversMax);
        Handler = new WatchedHandler(this, setup.Handler(this));
        Services = new LoopServices(setup.Options, Handler, new Log(new WatchedLog(Said), static message => message()), Drivers)
        {
            QueueUserCode = (action, state) => InPool(() => action(state)),
            CancelToken = static (services, source) => services.RunUserCode(static source => ((CancellationTokenSource)source!).Cancel(), source),
        };
        Listener = _inherited?.Listeners[0] ?? World.Listen(setup.IsTcp);
        ListenAddress address = ListenAddress.Parse(setup.Address ?? (setup.IsTcp ? "fastcgi://127.0.0.1:9000" : "fastcgi://unix:/run/simulated.sock"));
        var socket = new ListenSocket(_inherited is null ? Listener.Descriptor : World.Inherit(Listener), address, default, loop: -1);
        ListenSocket? httpSocket = null;
        if (setup.HttpIsTcp is bool httpIsTcp)
        {
            HttpListener = _inherited?.Listeners[1] ?? World.Listen(httpIsTcp);
            httpSocket = new ListenSocket(_inherited is null ? HttpListener.Descriptor : World.Inherit(HttpListener), ListenAddress.Parse(httpIsTcp ? "http://127.0.0.1:8080" : "http://unix:/run/simulated-http.sock"), default, loop: -1);
        }

        Loops = [.. Enumerable.Range(0, setup.Loops).Select(index => new DrivenLoop(this, index))];
        foreach (DrivenLoop loop in Loops)
        {
            loop.Loop.AddListener(socket);
            if (httpSocket is not null)
            {
                loop.Loop.AddListener(httpSocket);
            }

            loop.Loop.Siblings = [.. Loops.Select(static each => each.Loop)];
        }

        _listening = httpSocket is null ? [socket] : [socket, httpSocket];
        _beginDrain = _inherited is not null ? BeginStop : () => new ListenerShutdown<SimulatedKernel>(
            [.. Loops.Select(static each => each.Loop)],
            [.. _listening, .. _channels],
            setup.Options.Backlog,
            each => _ = each.IsChannel || (ListenerOf(each).Refuses |= !ListenerOf(each).IsTcp),
            each => !each.IsChannel && ListenerOf(each).IsTcp && (ListenerOf(each).Refuses = true),     // who is held off is refused a second later
            each => Close(each)).Begin();
        Services.Monitor.Watch([.. Loops.Select(static each => each.Loop)]);
    }

    private readonly Inheritance? _inherited;
    private readonly ListenSocket[] _listening;
    private ListenSocket[] _channels = [];

    /// <summary>The channel through which the connections of one loop move to the others; null before that.</summary>
    public SimulatedChannel? Channel { get; private set; }

    /// <summary>One loop gives its connections to the others from now on, as a server does to its successor, and listens no more.</summary>
    public void BeginMove(int from, int capacity)
    {
        Channel = World.OpenChannel(capacity);
        var takes = new ListenSocket(Channel.Descriptor, ListenAddress.Parse("http://unix:/run/channel.sock"), default, loop: -1) { IsChannel = true };
        _channels = [takes];
        foreach (DrivenLoop loop in Loops)
        {
            // What one server accepts its loops share out among themselves.
            bool gives = loop == Loops[from];
            loop.Loop.Post(new Action<EventLoop<SimulatedKernel>>(its =>
            {
                its.Siblings = gives ? [its] : [.. its.Siblings.Where(each => each != Loops[from].Loop)];
                if (gives)
                {
                    its.BeginMove(Channel.Descriptor);
                    Array.ForEach(_listening, socket => its.Post(new AcceptBacklog(socket, max: 4_096, static _ => false, static _ => { })));
                }
                else
                {
                    its.AddListener(takes);
                }
            }));
        }
    }

    private void Close(ListenSocket socket)
    {
        if (socket.IsChannel)
        {
            World.Close(Channel!);
        }
        else
        {
            World.Close(ListenerOf(socket));
        }
    }

    private SimulatedListener ListenerOf(ListenSocket socket) => World.ListenerAt(socket.Descriptor);

    public ulong Seed { get; }

    public SeededRandom Random { get; }

    public SimulatedWorld World { get; }

    public SimulatedListener Listener { get; }

    /// <summary>The second one, if it was asked for.</summary>
    public SimulatedListener? HttpListener { get; }

    public SimulatedDrivers Drivers { get; }

    public WatchedHandler Handler { get; }

    public LoopServices Services { get; }

    public DrivenLoop[] Loops { get; }

    /// <summary>What else can happen: clients, time. Called from the steps below; false when there was nothing to do.</summary>
    public Func<bool> OtherStep { get; set; } = static () => false;

    /// <summary>The first thing that went wrong.</summary>
    public string? Failure => Machine.Failure;

    private SimulatedMachine Machine => World.Machine;

    public int Steps { get; private set; }

    public bool MayNest => Machine.Depth < DepthMax && Failure is null && !World.HasEnded;

    /// <summary>The drain time is over: whatever still runs is cut off.</summary>
    public bool IsCutting { get; set; }

    // ---- what handlers do ----

    /// <summary>Ends at some later step.</summary>
    public Task Pause()
    {
        var source = new TaskCompletionSource();
        InPool(source.SetResult);
        return source.Task;
    }

    /// <summary>Ends when so much time has passed.</summary>
    public Task Sleep(int milliseconds)
    {
        var source = new TaskCompletionSource();
        _timers.Enqueue(source.SetResult, World.NowMs + milliseconds);
        return source.Task;
    }

    // What is due now is for some thread to do.
    private void Ring()
    {
        while (_timers.TryPeek(out _, out long dueMs) && dueMs <= World.NowMs)
        {
            InPool(_timers.Dequeue());
        }
    }

    /// <summary>Blocks the calling thread: the monitor notices it, and other things go on meanwhile.</summary>
    public void Block(int stepsMax = 30)
    {
        if (!MayNest)
        {
            return;
        }

        Trace("block", Machine.Depth, 0);
        Services.Monitor.Look();
        Services.Monitor.Look();
        Nest(Random.Between(0, stepsMax));
        Trace("unblock", Machine.Depth, 0);
    }

    /// <summary>Something a thread of the pool does at some later step.</summary>
    public void InPool(Action action)
    {
        if (!World.HasEnded)
        {
            _pool.Add(action);
        }
    }

    public int PoolCount => _pool.Count;

    // ---- steps ----

    /// <summary>One step of the server, if it has anything to do there: a turn of a loop, or something in the pool.</summary>
    public bool ServerStep(int choice)
    {
        Ring();
        if (choice % 2 == 0 && _pool.Count > 0)
        {
            return PoolStep();
        }

        return Loops[(choice / 2) % Loops.Length].Turn(MayNest && Random.Chance(30) ? -1 : 0);
    }

    public bool PoolStep()
    {
        Ring();
        if (_pool.Count == 0)
        {
            return false;
        }

        int index = Random.Below(_pool.Count);
        Action action = _pool[index];
        _pool.RemoveAt(index);
        Trace("pool", index, _pool.Count);
        InFrame(null, 0, action);
        return true;
    }

    public void RandomStep()
    {
        Steps++;
        if (Machine.RandomStep is { } step)
        {
            step();
            return;
        }

        if (Random.Chance(45))
        {
            _ = OtherStep();
        }
        else
        {
            _ = ServerStep(Random.Below(2 * Loops.Length));
        }
    }

    private void Nest(int steps)
    {
        Machine.Depth++;
        for (int i = 0; i < steps && Failure is null && !World.HasEnded; i++)
        {
            RandomStep();
        }

        Machine.Depth--;
    }

    /// <summary>Steps of the server alone until nothing is left to do at this time.</summary>
    public void Settle()
    {
        for (int quiet = 0, guard = 0; quiet < 3 && Failure is null; guard++)
        {
            bool busy = false;
            foreach (DrivenLoop loop in Loops)
            {
                busy |= loop.HasWork;
                _ = loop.Turn(0);
            }

            while (PoolStep())
            {
                busy = true;
            }

            quiet = busy ? 0 : quiet + 1;
            if (guard > 200_000)
            {
                Violated("the server never comes to rest");
            }
        }
    }

    public void Post(Action<EventLoop<SimulatedKernel>> action) => Array.ForEach(Loops, loop => loop.Loop.Post(action));

    /// <summary>The server stops as <see cref="Engine"/> does it: listening ends, connections close as they become idle.</summary>
    public Task BeginDrain() => _drain ??= _beginDrain();

    private Task? _drain;

    // ---- frames: who is at work ----

    internal void InFrame(DrivenLoop? loop, int generation, Action action)
    {
        _frames.Push(new Frame(loop, generation));
        try
        {
            action();
        }
        catch (Exception error)
        {
            Violated($"the server threw {error}");
        }

        _frames.Pop();
    }

    private readonly record struct Frame(DrivenLoop? Loop, int Generation);

    // ---- the kernel's observer ----

    void IKernelObserver.OnLoopCall(string call, SimulatedSocket? socket)
    {
        if (!_frames.TryPeek(out Frame frame) || frame.Loop is not { } loop)
        {
            Violated($"{call} by a thread that drives no loop");
            return;
        }

        if (frame.Generation != loop.Generation)
        {
            Violated($"{call} by a driver that has lost loop {loop.Loop.Index}");
        }

        if (socket is not null && (socket.Reader ??= loop) != loop)
        {
            Violated($"{call} on connection {socket.Number} by loop {loop.Loop.Index}, which does not own it");
        }
    }

    void IKernelObserver.OnSleep(SimulatedPoller poller, int timeoutMs)
    {
        var loop = (DrivenLoop)poller.Loop!;
        if (!MayNest)
        {
            return;
        }

        Machine.Depth++;
        long until = timeoutMs < 0 ? long.MaxValue : World.NowMs + timeoutMs;
        for (int i = Random.Between(0, 12); i > 0 && !poller.HasReady && World.NowMs < until && Failure is null && !World.HasEnded; i--)
        {
            RandomStep();
        }

        Machine.Depth--;
        if (loop.Loop.HasPosted && !poller.WakePending)
        {
            Violated($"work was posted to loop {loop.Loop.Index} while it slept, and nobody woke it");
        }
    }

    void IKernelObserver.Interleave()
    {
        if (_interleavePercent > 0 && MayNest && Random.Chance(_interleavePercent))
        {
            Machine.Depth++;
            for (int i = Random.Between(1, 4); i > 0; i--)
            {
                _ = PoolStep();
            }

            Machine.Depth--;
        }
    }

    /// <summary>Faults of the server that a test has made; null: there must be none.</summary>
    public List<string>? FaultsMade { get; set; }

    private void Said(string fault)
    {
        if (FaultsMade is null)
        {
            Violated(fault);
        }

        FaultsMade?.Add(fault);
    }

    public void Violated(string what)
    {
        if (Failure is null && !World.HasEnded)
        {
            Machine.Failure = _inherited is null ? what : $"{what}, in process {_inherited.Number}";
            _trace?.Add("VIOLATED: " + what);
        }
    }
}
