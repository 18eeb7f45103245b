// A server's life from a seed: a random configuration, random clients and handlers, random steps, then rest, time and drain,
// with the invariants checked on the way. See RandomLivesTests for the list of them.

using System.Globalization;
using Millrace.Connections;
using Millrace.Handlers;
using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Simulation;

internal sealed partial class RandomLife : IRandomLife
{
    private const int SleepsMax = 60;       // seconds: as many acts as a handler has, of 9 each

    private readonly Dictionary<string, Plan> _plans = [];
    private readonly List<RandomClient> _clients = [];
    private readonly Dictionary<SimulatedSocket, RandomClient> _bySocket = [];
    private readonly int _drainAtStep;
    private readonly int _jumpAtStep;
    private readonly int _moveAtStep = int.MaxValue;
    private readonly int _movesFrom;
    private readonly int _channelCapacity;

    public RandomLife(ulong seed, bool traces, bool isSlow = false)
    {
        IsSlow = isSlow;
        var random = new SeededRandom(seed * 31 + 7);
        int loops = random.Between(1, 3);
        int httpShare = random.Below(10) switch { < 2 => 0, < 5 => 100, _ => 50 };
        MayOverload = !isSlow && random.Chance(8);
        MayRefuseConnections = !isSlow && random.Chance(4);
        BodyMax = isSlow || random.Chance(70) ? 20_000 : 200_000;
        var options = new MillraceOptions
        {
            Loops = loops,
            Dispatch = (DispatchMode)random.Below(3),
            DriversMax = loops + random.Between(1, 12),
            MaxConcurrentRequests = MayOverload || random.Chance(25) ? random.Between(1, 4) : null,
            RequestQueueLimit = MayOverload ? random.Between(0, 2) : 1_000,
            MaxConnections = MayRefuseConnections ? random.Between(1, 4) : 65_536,
            RequestBodyBuffer = random.Chance(50) ? 4_096 : random.Between(4_096, 100_000),
            MinBodyBytesPerSecond = 0,
            MinResponseBytesPerSecond = 0,
            MaxDiscardBytes = httpShare == 100 && random.Chance(25) ? random.Between(0, 100_000) : 16 * 1024 * 1024,
            IdleTimeout = random.Chance(50) ? TimeSpan.FromSeconds(20) : TimeSpan.FromSeconds(130),
        };
        if (isSlow)
        {
            SetTimes(options, random);
        }

        BodyHeldMax = options.RequestBodyBuffer + (3 * BufferPool.InputSize);
        var plain = new PlanHandler(() => Simulation!, name => _plans.GetValueOrDefault(name));
        Simulation = new Simulation(seed, new SimulationSetup
        {
            Loops = loops,
            IsTcp = random.Chance(50),
            HttpIsTcp = random.Chance(50),
            Options = options,
            Handler = _ => new DelegateHandler(plain.Handle),
            InterleavePercent = random.Chance(50) ? 0 : random.Between(1, 30),
            Traces = traces,
        });
        Simulation.World.ReceiveCapacityMax = random.Chance(50) ? random.Between(1, 5_000) : 256 * 1024;
        Simulation.World.SendCapacityMax = random.Chance(50) ? random.Between(16, 8_000) : 256 * 1024;
        if (isSlow)
        {
            Simulation.World.SendCapacityMax = random.Chance(30) ? 256 * 1024 : random.Between(1_000, 30_000);
            Simulation.World.ReceiveCapacityMax = random.Chance(30) ? 256 * 1024 : random.Between(500, 10_000);
            Simulation.World.UnsentStep = random.Chance(70) ? 1 : 512;
        }
        else if (random.Chance(10))
        {
            Simulation.World.DescriptorsMax = Simulation.World.Open + random.Between(1, 4);
        }

        SocketFaults faults = Simulation.World.Faults;
        if (!isSlow && random.Chance(35))
        {
            faults.ShortSend = random.Between(0, 90);
            faults.RefusedSend = random.Chance(50) ? 0 : random.Between(1, 60);
            faults.FailedAccept = random.Chance(70) ? 0 : random.Between(1, 40);
            faults.FailedWatch = random.Chance(85) ? 0 : random.Between(1, 20);
            faults.EventsMax = random.Chance(50) ? int.MaxValue : random.Between(1, 4);
        }

        _jumpAtStep = !isSlow && random.Chance(4) ? random.Between(0, 600) : int.MaxValue;
        _drainAtStep = !isSlow && random.Chance(15) ? random.Between(0, 600) : int.MaxValue;
        var moves = new SeededRandom(seed * 31 + 8);
        if (!isSlow && loops > 1 && !MayRefuseConnections && Simulation.World.DescriptorsMax == int.MaxValue && moves.Chance(40))
        {
            _moveAtStep = moves.Between(0, 600);
            _movesFrom = moves.Below(loops);
            _channelCapacity = moves.Chance(50) ? int.MaxValue : moves.Between(1, 3);
        }

        int clients = random.Chance(80) ? random.Between(1, 8) : random.Between(8, 25);
        for (int i = 0; i < clients; i++)
        {
            _clients.Add(random.Below(100) < httpShare ? new RandomHttpClient(this, i) : new RandomFastCgiClient(this, i));
        }

        Simulation.OtherStep = OtherStep;
    }

    public Simulation Simulation { get; }

    /// <summary>Its peers have speeds, and time limits are short enough to be met.</summary>
    public bool IsSlow { get; }

    public int BodyMax { get; }

    /// <summary>Bytes of a body that may be inside the server while its handler does not read.</summary>
    public int BodyHeldMax { get; }

    public bool MayOverload { get; }

    public bool MayRefuseConnections { get; }

    public bool IsDraining { get; private set; }

    /// <summary>So much time has passed at rest that every limit may have struck.</summary>
    public bool TimePassed { get; private set; }

    public bool IsOver { get; private set; }

    public void Add(Plan plan) => _plans[plan.Name] = plan;

    public void Connected(RandomClient client) => _bySocket[client.Socket!] = client;

    /// <summary>Null, or what went wrong.</summary>
    public string? Run()
    {
        if (IsSlow)
        {
            LiveSlowly();
        }

        for (int i = 0; !IsSlow && i < 4_000 && Simulation.Failure is null && (i < 100 || !_clients.TrueForAll(static client => client.IsDone)); i++)
        {
            if (i == _jumpAtStep)
            {
                // A machine that slept: every time limit strikes at once.
                TimeHasPassed();
                Simulation.World.NowMs += Simulation.Random.Between(10_000, 100_000_000);
            }

            if (i == _drainAtStep)
            {
                BeginDrain();
            }

            if (i == _moveAtStep && !IsDraining)
            {
                Simulation.Trace("move", _movesFrom, _channelCapacity);
                Simulation.BeginMove(_movesFrom, _channelCapacity);
            }

            Simulation.RandomStep();
            Check();
        }

        if (!IsSlow)
        {
            Rest();
        }

        LetTimePass();
        Drain();
        Simulation.Trace("end", Simulation.Steps, Simulation.Handler.Started);
        return Simulation.Failure;
    }

    // ---- steps that are not the server's ----

    private bool OtherStep()
    {
        SeededRandom random = Simulation.Random;
        if (IsSlow)
        {
            if (random.Chance(2) && _nestedMs < NestedMsMax)
            {
                int milliseconds = random.Between(1, 30);
                _nestedMs += milliseconds;
                PassSlowly(milliseconds);
            }
        }
        else if (random.Chance(3))
        {
            Simulation.World.NowMs += random.Chance(90) ? random.Between(1, 50) : random.Between(100, 1_500);
            return true;
        }

        if (IsDraining && random.Chance(5))
        {
            Simulation.Post(static loop => loop.DrainConnections());
            return true;
        }

        if (Simulation.Channel is not null && random.Chance(5))
        {
            Offer();
            return true;
        }

        RandomClient client = _clients[random.Below(_clients.Count)];
        if (!IsSlow && random.Chance(2) && client.Socket is { } socket)
        {
            socket.SpuriousEdge(lies: random.Chance(30));
        }

        return client.Act(eager: false);
    }

    // As an engine does every 20 ms until it has no connection any more.
    private void Offer() => Simulation.Loops[_movesFrom].Loop.Post(new Action<EventLoop<SimulatedKernel>>(static loop => loop.DrainConnections()));

    private void BeginDrain()
    {
        IsDraining = true;
        Simulation.Trace("drain");
        if (Simulation.Channel is { } channel)
        {
            channel.HasEnded = true;        // nobody is left to give anything to
            Offer();
            Simulation.Settle();
        }

        _ = Simulation.BeginDrain();
    }

    // ---- rest ----

    private void Rest()
    {
        Quiet();
        for (int i = 0; i < 25 && Simulation.Failure is null; i++)
        {
            Pass(110);       // accepting may be pausing, connections may be lingering
        }

        // Where requests or connections are limited, one that is never read holds up others until its time is over.
        if (Simulation.Failure is null && !IsDraining && Simulation.World.DescriptorsMax == int.MaxValue && Simulation.Services.Gate is null
            && _clients.Select(static client => client.Complaint()).FirstOrDefault(static complaint => complaint is not null) is { } stuck)
        {
            Simulation.Violated("nothing moves any more, but " + stuck);
        }
    }

    private void Pass(int milliseconds)
    {
        Simulation.World.NowMs += milliseconds;
        if (Simulation.Channel is not null && !IsDraining)
        {
            Offer();
        }

        Quiet();
    }

    /// <summary>Everybody does all he can until nobody can do anything.</summary>
    private void Quiet()
    {
        for (bool busy = true; busy && Simulation.Failure is null;)
        {
            Simulation.Settle();
            Check();
            busy = false;
            foreach (RandomClient client in _clients)
            {
                busy |= client.Act(eager: true);
            }
        }
    }

    // From here on a limit may strike any request that has not been answered.
    private void TimeHasPassed()
    {
        TimePassed = true;
        _clients.ForEach(static client =>
        {
            client.DisturbUnfinished();
            client.Plans.ForEach(client.Tell);
        });
    }

    private void LetTimePass()
    {
        TimeHasPassed();
        for (int i = 0; i < 100 && Simulation.Failure is null && !_clients.TrueForAll(static client => client.IsDone); i++)
        {
            Pass(5_000);
        }

        WakeSleepers();
        if (Simulation.Failure is null && !IsDraining && Simulation.World.DescriptorsMax == int.MaxValue && _clients.Find(static client => !client.IsDone) is { } waiting)
        {
            Simulation.Violated($"eight minutes have passed, but client {waiting.Number} ({waiting.Trouble}) still has an open connection and no answer");
        }
    }

    // A handler that sleeps keeps its connection, whoever has gone: its client, or the server.
    private void WakeSleepers()
    {
        for (int i = 0; i < SleepsMax && IsSlow && Simulation.Failure is null && _plans.Values.Any(static plan => plan.Started > plan.Finished); i++)
        {
            Pass(1_000);
        }
    }

    // ---- the end ----

    private void Drain()
    {
        IsOver = true;
        if (!IsDraining)
        {
            BeginDrain();
        }

        for (int i = 0; i < 20 && Simulation.Failure is null; i++)
        {
            Simulation.Post(static loop => loop.DrainConnections());
            Pass(100);
        }

        Simulation.IsCutting = true;
        for (int i = 0; i < 5 && Simulation.Failure is null; i++)
        {
            Simulation.Post(static loop => loop.CutConnections());
            Pass(20);
        }

        WakeSleepers();
        if (Simulation.Failure is null)
        {
            CheckEmpty();
        }
    }

    private void CheckEmpty()
    {
        Simulation simulation = Simulation;
        Require(simulation.Services.Connections == 0, $"{simulation.Services.Connections} connections are still counted");
        Require(Array.TrueForAll(simulation.Loops, static loop => loop.Loop.ConnectionCount == 0), "a loop still counts connections");
        Require(simulation.World.Open == simulation.Loops.Length, $"{simulation.World.Open - simulation.Loops.Length} descriptors are still open");
        Require(simulation.Handler.Running == 0, $"{simulation.Handler.Running} exchanges have not come back");
        Require(simulation.Loops.Sum(static loop => loop.Loop.Counters.Requests) == simulation.Handler.Started, "not as many requests are counted as were run");
        Require(!IsUneventful || Refusals.Count == 0, $"something was refused in a life without trouble: {string.Join(", ", Refusals)}");
        Require(simulation.PoolCount == 0, "work is left in the pool");
        Require(_plans.Values.All(static plan => plan.Started == plan.Finished), "a handler has started and not ended");
        Require(simulation.Drivers.Idle == simulation.Drivers.Count - simulation.Loops.Length, "a driver has not come back");
        Require(simulation.Loops.Sum(static loop => loop.Loop.Counters.Accepted) == simulation.Loops.Sum(static loop => loop.Loop.Counters.Closed + loop.Loop.Counters.Moved),
            "not as many connections were closed, or given away, as accepted");
        Require(simulation.Channel is null or { Count: 0 }, "connections are left between two loops");
    }

    private List<string> Refusals => [.. Simulation.Loops.SelectMany(static loop => loop.Loop.Counters.Refusals).Concat(Simulation.Services.OffLoop.Refusals)
        .Select(static pair => pair.Key).Where(static name => name is not (Millrace.Observe.Refusal.UnknownType or Millrace.Observe.Refusal.Multiplexed or Millrace.Observe.Refusal.LeftQueue)).Distinct()];

    // Nobody misbehaved and nothing was short: nothing may have been refused.
    private bool IsUneventful => !IsSlow && _clients.TrueForAll(static client => client.Trouble == Trouble.None) && !MayOverload && !MayRefuseConnections
        && _jumpAtStep == int.MaxValue && Simulation.World.DescriptorsMax == int.MaxValue && !Simulation.World.Faults.AnyRefusing
        && _clients.TrueForAll(client => client.StreamLength <= Simulation.Services.Options.MaxDiscardBytes);

    private void Require(bool holds, string otherwise)
    {
        if (!holds)
        {
            Simulation.Violated("at the end " + otherwise);
        }
    }

    // ---- after each step ----

    private void Check()
    {
        foreach ((SimulatedSocket socket, RandomClient client) in _bySocket)
        {
            if (client.IsDone || socket.TakenByServer <= BodyHeldMax)
            {
                continue;
            }

            foreach (Plan plan in client.Plans)
            {
                // What was taken behind the body is not held for its handler; nor is what comes of one that a time limit has ended.
                long held = Math.Min(socket.TakenByServer - plan.BodyOffset - plan.BodyOverhead, plan.BodyLength) - plan.BodyRead;
                if (held > BodyHeldMax && !TimePassed && plan.Started > plan.Finished && plan.BodyLength > 0)
                {
                    Simulation.Violated($"the server holds {held} bytes of the body of {plan.Name}, whose handler has read {plan.BodyRead}");
                }
            }
        }
    }

    public string Report(int lines) => $"{Describe()}\n{Simulation.TraceText(lines)}";

    private string Describe() => string.Create(CultureInfo.InvariantCulture,
        $"{Simulation.Loops.Length} loops, {Simulation.Services.Options.Dispatch}, {Simulation.Steps} steps, {Simulation.Handler.Started} requests, {Simulation.Loops.Sum(static loop => loop.Loop.Counters.HandOvers)} hand-overs\n{(IsSlow ? TimesText : "")}")
        + string.Join('\n', _clients.Select(static client => client.Describe()));
}
