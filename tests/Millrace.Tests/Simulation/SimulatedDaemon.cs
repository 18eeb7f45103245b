// The daemon over simulated processes: it holds the listening sockets and both ends of the channel, starts a generation and tells the one before it to give its
// connections away, and replaces one that has crashed. What it has outlives every process (AppListeners, ServedApp).

using System.Net;
using Millrace.Handlers;
using Millrace.Listeners;
using Millrace.Loops;

namespace Millrace.Tests.Simulation;

/// <summary>What the processes of a simulated daemon are started with.</summary>
internal sealed class DaemonSetup
{
    /// <summary>Of the listening socket for FastCGI: TCP, or a Unix socket.</summary>
    public bool IsTcp { get; init; } = true;

    public bool HttpIsTcp { get; init; } = true;

    /// <summary>How often, in percent, a new generation is found well when it is looked at; only then the one before it is told to move.</summary>
    public int WellPercent { get; init; } = 100;

    public int ChannelCapacity { get; init; } = int.MaxValue;

    public Func<MillraceOptions> Options { get; init; } = static () => new MillraceOptions { Loops = 1 };

    public int InterleavePercent { get; init; }

    /// <summary>Descriptors each process may have for connections.</summary>
    public int? ConnectionDescriptors { get; init; }

    public bool Traces { get; init; }
}

internal sealed class SimulatedDaemon
{
    private const int LookMs = 20;

    private readonly DaemonSetup _setup;
    private readonly List<string>? _trace;
    private readonly Dictionary<string, MovedRequest> _requests = [];
    private readonly SimulatedListener[] _listeners;
    private Simulation? _next;      // it has begun to serve, and the one before it has not been told yet
    private bool _isStopping;

    public SimulatedDaemon(SeededRandom random, DaemonSetup setup)
    {
        _setup = setup;
        _trace = setup.Traces ? [] : null;
        Machine = new SimulatedMachine(random) { Tracer = Trace };
        _listeners = [new SimulatedListener(setup.IsTcp, random) { References = 1 }, new SimulatedListener(setup.HttpIsTcp, random) { References = 1 }];
        Channel = new SimulatedChannel { Capacity = setup.ChannelCapacity, Random = random };
        Channel.Gives.References = Channel.Takes.References = 1;
    }

    public SimulatedMachine Machine { get; }

    public SimulatedChannel Channel { get; }

    /// <summary>Those that have not ended, the oldest first.</summary>
    public List<Simulation> Processes { get; } = [];

    public int Started { get; private set; }

    public int Crashes { get; private set; }

    /// <summary>Connections that have been given to another process.</summary>
    public long Moved { get; private set; }

    public ulong Fingerprint { get; private set; } = 14695981039346656037;

    public SimulatedListener Listener(bool isHttp) => _listeners[isHttp ? 1 : 0];

    public void Add(MovedRequest request) => _requests.Add(request.Name, request);

    // ---- generations ----

    /// <summary>A process that serves from now on.</summary>
    public Simulation Start()
    {
        MillraceOptions options = _setup.Options();
        var process = new Simulation(0, new SimulationSetup
        {
            Loops = options.Loops,
            IsTcp = _setup.IsTcp,
            HttpIsTcp = _setup.HttpIsTcp,
            Options = options,
            Handler = simulation => new DelegateHandler((request, response) => MovedRequest.Answer(simulation, _requests, request, response)),
            InterleavePercent = _setup.InterleavePercent,
            HasFingerprint = false,
            Inherited = new Inheritance(Machine, ++Started, _listeners, Channel),
        });
        Processes.Add(process);
        process.TakeConnections();
        if (_setup.ConnectionDescriptors is int few)
        {
            process.World.DescriptorsMax = process.World.Open + few;
            process.Services.DescriptorCeiling = 3 + process.World.DescriptorsMax;
        }

        return process;
    }

    /// <summary>A next generation begins to serve; the one before it is told when it is looked at next.</summary>
    public void Deploy() => _next = Start();

    public void Crash(Simulation process)
    {
        Crashes++;
        Moved += process.Moved;
        process.Crash();
    }

    /// <summary>What it does again and again.</summary>
    public void Look()
    {
        if (Processes.RemoveAll(static process => process.HasEnded) > 0 && Processes.Exists(static process => !process.IsMoving))
        {
            PassOn();
        }

        if (_next is { HasEnded: true })
        {
            _next = null;       // the one before it goes on
        }

        if (_next is { } next && (_setup.WellPercent == 100 || Machine.Random.Chance(_setup.WellPercent)))
        {
            _next = null;
            Processes.FindAll(process => process != next && !process.IsMoving).ForEach(static process =>
            {
                process.GiveConnections();
                _ = process.BeginDrain();
            });
        }

        if (!_isStopping && Processes.TrueForAll(static process => process.IsMoving))
        {
            _ = Start();
        }

        foreach (Simulation process in Processes.FindAll(process => process.IsMoving || _isStopping))
        {
            if (process.MayExit)
            {
                Moved += process.Moved;
                process.Exit();
            }
            else
            {
                process.Sweep();
            }
        }
    }

    // AppListeners.PassOnAsync: who waits in a queue may be known to nobody but a process that has crashed.
    private void PassOn()
    {
        byte[] message = new byte[MovedConnection.SizeMax];
        foreach (SimulatedListener listener in _listeners)
        {
            while (listener.Pending > 0 && !Channel.IsFull)
            {
                (SimulatedSocket socket, IPAddress from) = listener.Dequeue();
                var its = new MovedConnection(
                    listener == _listeners[0] ? ListenProtocol.FastCgi : ListenProtocol.Http1, listener.IsTcp, Knowledge: 0, IdleUntilMs: 0, listener.IsTcp ? SocketName.Write(from, 40_000) : []);
                Trace("pass on", socket.Number);
                Channel.Enqueue(socket, message[..its.Write(message)]);
            }
        }
    }

    // ---- steps ----

    public void Pass(int milliseconds = LookMs)
    {
        Machine.NowMs += milliseconds;
        Look();
    }

    /// <summary>Each process does what it can at this moment, once.</summary>
    public bool Round()
    {
        bool busy = false;
        foreach (Simulation process in Processes.ToArray())
        {
            busy |= !process.HasEnded && !process.IsInCall && Round(process);
        }

        return busy;
    }

    private static bool Round(Simulation process)
    {
        bool busy = false;
        foreach (DrivenLoop loop in process.Loops)
        {
            busy |= !process.HasEnded && loop.HasWork;
            _ = process.HasEnded || loop.Turn(0);
        }

        for (int most = process.PoolCount; most > 0 && !process.HasEnded && process.PoolStep(); most--)
        {
            busy = true;
        }

        return busy;
    }

    /// <summary>Everybody does all he can, and time passes, until no client has had anything to do for long.</summary>
    public void Rest(IReadOnlyList<MovingClient> clients)
    {
        const int LongEnoughMs = 1_000;     // longer than any pause in accepting, watching or draining
        for (int quietMs = 0; quietMs < LongEnoughMs && Machine.Failure is null; quietMs += LookMs)
        {
            for (int still = 0, rounds = 0; still < 3 && Machine.Failure is null; still++)
            {
                bool busy = Round();
                foreach (MovingClient client in clients)
                {
                    if (client.Act(eager: true))
                    {
                        busy = true;
                        quietMs = 0;
                    }
                }

                still = busy ? -1 : still;
                if (++rounds > 100_000)
                {
                    Violated("the processes never come to rest");
                }
            }

            Pass();
        }
    }

    // ---- the end ----

    /// <summary>Everything has ended: nothing may be left of it.</summary>
    public void Stop(IReadOnlyList<MovingClient> clients)
    {
        _isStopping = true;
        Processes.ForEach(static process => _ = process.BeginDrain());
        Rest(clients);
        if (Machine.Failure is not null)
        {
            return;
        }

        Require(Processes.Count == 0, $"{Processes.Count} processes have not ended");
        Require(Channel.Count == 0, $"{Channel.Count} connections are between two processes");
        foreach (IOpenFile file in (IOpenFile[])[.. _listeners, Channel.Gives, Channel.Takes])
        {
            SimulatedMachine.Release(file);
            Require(file.References == 0, $"{file.References} descriptors of what was inherited are open");
        }

        foreach (MovingClient client in clients)
        {
            Require(client.Socket is null or { References: 0, ServerClosed: true }, $"connection {client.Socket?.Number} is open");
        }
    }

    private void Require(bool holds, string otherwise)
    {
        if (!holds)
        {
            Violated("at the end " + otherwise);
        }
    }

    public void Violated(string what)
    {
        if (Machine.Failure is null)
        {
            Machine.Failure = what;
            _trace?.Add("VIOLATED: " + what);
        }
    }

    // ---- the trace ----

    public void Trace(string what, long a = 0, long b = 0) => Trace(null, what, a, b);

    private void Trace(Simulation? process, string what, long a, long b)
    {
        Mix((ulong)(process?.Number ?? 0));
        Mix((ulong)what.Length + what[0]);
        Mix((ulong)a);
        Mix((ulong)b);
        _trace?.Add(FormattableString.Invariant($"{Machine.NowMs - 1_000_000,7} {new string(' ', Machine.Depth * 2)}{process?.Number} {what} {a} {b}"));
    }

    private void Mix(ulong value) => Fingerprint = (Fingerprint ^ value) * 1099511628211;

    /// <summary>The last steps, one a line.</summary>
    public string TraceText(int last) => _trace is null ? "" : string.Join('\n', _trace.TakeLast(last));
}
