// The life of an application from a seed: generations that follow one another while clients of both protocols are served, and crash at any system call.
// See RandomLivesTests for what must hold.

namespace Millrace.Tests.Simulation;

internal sealed class RandomDeployments : IRandomLife
{
    private const int StepsMax = 3_000;

    private readonly SimulatedDaemon _daemon;
    private readonly List<MovingClient> _clients = [];
    private readonly List<int> _deploysAt = [];
    private readonly int _interleavePercent;
    private readonly bool _crashesWhereItHurts;
    private int _crashesLeft;

    public RandomDeployments(ulong seed, bool traces)
    {
        var random = new SeededRandom((seed * 31) + 9);
        int loops = random.Chance(60) ? 1 : 2;
        _interleavePercent = random.Chance(30) ? 0 : random.Between(1, 30);
        var dispatch = (DispatchMode)random.Below(3);
        int drivers = loops + random.Between(1, 8);
        int? concurrent = random.Chance(20) ? random.Between(1, 3) : null;
        _daemon = new SimulatedDaemon(new SeededRandom(seed), new DaemonSetup
        {
            IsTcp = random.Chance(50),
            HttpIsTcp = random.Chance(50),
            WellPercent = random.Chance(50) ? 100 : random.Between(5, 60),
            ChannelCapacity = random.Chance(70) ? int.MaxValue : random.Between(1, 3),
            ConnectionDescriptors = random.Chance(75) ? null : random.Between(1, 4),
            InterleavePercent = random.Chance(50) ? 0 : random.Between(1, 30),
            Options = () => new MillraceOptions
            {
                Loops = loops,
                Dispatch = dispatch,
                DriversMax = drivers,
                MaxConcurrentRequests = concurrent,
                RequestBodyBuffer = 4_096,
                MinBodyBytesPerSecond = 0,
                MinResponseBytesPerSecond = 0,
                HeadTimeout = TimeSpan.FromMinutes(10),
                IdleTimeout = TimeSpan.FromMinutes(10),
            },
            Traces = traces,
        });
        SimulatedMachine machine = _daemon.Machine;
        machine.ReceiveCapacityMax = random.Chance(60) ? 256 * 1024 : random.Between(1, 5_000);
        machine.SendCapacityMax = random.Chance(60) ? 256 * 1024 : random.Between(16, 8_000);
        if (random.Chance(30))
        {
            machine.Faults.ShortSend = random.Between(0, 90);
            machine.Faults.FailedAccept = random.Chance(70) ? 0 : random.Between(1, 40);
            machine.Faults.FailedWatch = random.Chance(80) ? 0 : random.Between(1, 20);
            machine.Faults.EventsMax = random.Chance(50) ? int.MaxValue : random.Between(1, 4);
        }

        _crashesLeft = random.Chance(30) ? 0 : random.Between(1, 3);
        _crashesWhereItHurts = random.Chance(60);
        for (int i = random.Between(1, 3); i > 0; i--)
        {
            _deploysAt.Add(random.Between(0, 400));
        }

        for (int i = random.Between(1, 6); i > 0; i--)
        {
            AddClient(random);
        }

        machine.AtSystemCall = AtSystemCall;
        machine.RandomStep = Step;
    }

    public SimulatedDaemon Daemon => _daemon;

    public int Steps { get; private set; }

    // ---- clients ----

    private void AddClient(SeededRandom random)
    {
        int number = _clients.Count;
        var requests = new MovedRequest[random.Between(1, 5)];
        for (int i = 0; i < requests.Length; i++)
        {
            int body = random.Chance(60) ? 0 : random.Size(20_000);
            requests[i] = new MovedRequest(FormattableString.Invariant($"/c{number}/r{i}"), body, random.Chance(70) ? random.Below(2_000) : random.Size(60_000), Acts(random, body));
        }

        bool pipelines = random.Chance(30);
        var cuts = new SeededRandom(random.NextBits());
        _clients.Add(new MovingClient(_daemon, number, random.Chance(50), requests, bytes => Cut(cuts, bytes, pipelines)));
    }

    // What reads its body may do so at any place; nothing waits for what comes behind its own request.
    private static string Acts(SeededRandom random, int body)
    {
        var acts = new List<char>();
        for (int i = random.Below(4); i > 0; i--)
        {
            acts.Add("ppbf"[random.Below(4)]);
        }

        if (body > 0 && random.Chance(70))
        {
            acts.Insert(random.Below(acts.Count + 1), 'r');
        }

        return new string([.. acts]);
    }

    private static List<Piece> Cut(SeededRandom random, byte[][] bytes, bool pipelines)
    {
        var pieces = new List<Piece>();
        byte[] held = [];
        for (int i = 0; i < bytes.Length; i++)
        {
            int after = pipelines ? 0 : i;
            byte[] request = [.. held, .. bytes[i]];
            held = [];
            if (pipelines && random.Chance(30))
            {
                held = request;
                continue;
            }

            int at = 0;
            for (int cuts = random.Below(3); cuts > 0; cuts--)
            {
                int next = random.Between(at, request.Length);
                pieces.Add(new Piece(request[at..next], after));
                at = next;
            }

            pieces.Add(new Piece(request[at..], after));
        }

        pieces.Add(new Piece(held, 0));
        return pieces;
    }

    // ---- living ----

    /// <summary>Null, or what went wrong.</summary>
    public string? Run()
    {
        _ = _daemon.Start();
        for (; Steps < StepsMax && _daemon.Machine.Failure is null && (Steps <= 400 || !_clients.TrueForAll(static client => client.IsDone));)
        {
            if (_deploysAt.Remove(Steps))
            {
                _daemon.Trace("deploy");
                _daemon.Deploy();
            }

            Steps++;
            Step();
        }

        _daemon.Machine.AtSystemCall = null;        // no crash from here on
        _daemon.Rest(_clients);
        _clients.ForEach(static client => client.Complain());
        Visit();
        _daemon.Stop(_clients);
        return _daemon.Machine.Failure;
    }

    // Whatever has happened, who comes now is served.
    private void Visit()
    {
        for (int i = 0; i < 2; i++)
        {
            var visitor = new MovingClient(_daemon, _clients.Count, i == 1, [new MovedRequest($"/visit{i}", 0, 10, "")], static bytes => [new Piece(bytes[0], 0)]);
            _clients.Add(visitor);
            _daemon.Rest(_clients);
            visitor.Complain();
            if (visitor.WasCutOff)
            {
                _daemon.Violated("who came when all was over was not served");
            }
        }
    }

    // One step of anybody, whoever is in the middle of one.
    private void Step()
    {
        SeededRandom random = _daemon.Machine.Random;
        int draw = random.Below(100);
        if (draw < 5)
        {
            _daemon.Pass(random.Between(1, 40));
            return;
        }

        if (draw < 45 || _daemon.Processes.Count == 0)
        {
            _ = _clients[random.Below(_clients.Count)].Act(eager: false);
            return;
        }

        Simulation process = _daemon.Processes[random.Below(_daemon.Processes.Count)];
        if (!process.HasEnded && !process.IsInCall)
        {
            _ = process.ServerStep(random.Below(2 * process.Loops.Length));
        }
    }

    private void AtSystemCall(Simulation process, string call)
    {
        SeededRandom random = _daemon.Machine.Random;
        if (_crashesLeft > 0 && random.Below(1_000) < (_crashesWhereItHurts && call is "sendmsg" or "leave" or "recvmsg" or "close" ? 100 : 2))
        {
            _crashesLeft--;
            _daemon.Crash(process);
            return;
        }

        if (_interleavePercent > 0 && !process.IsInCall && process.MayNest && random.Chance(_interleavePercent))
        {
            process.IsInCall = true;
            _daemon.Machine.Depth++;
            for (int i = random.Between(1, 4); i > 0; i--)
            {
                Step();
            }

            _daemon.Machine.Depth--;
            process.IsInCall = false;
        }
    }

    public string Report(int lines) => $"{Describe()}\n{_daemon.TraceText(lines)}";

    private string Describe() => FormattableString.Invariant($"{Steps} steps, {_daemon.Started} processes, {_daemon.Crashes} crashes, {_daemon.Moved} moved\n") + string.Join('\n', _clients.Select(static client => client.ToString()
        + string.Concat(client.Requests.Select(static each => FormattableString.Invariant($"\n  {each.Name} body {each.BodyLength} answer {each.AnswerLength} acts {each.Acts} bytes {each.From} to {each.End} started {each.Started} by {each.RunBy?.Number}")))));
}
