// One connection that moves from one process to the next, at every moment of what its client does, and either of the two crashes at every system call it makes:
// each byte belongs to one process, and where none has crashed that had the connection, its client notices nothing.

namespace Millrace.Tests.Simulation;

public sealed class MoveCrashTests
{
    private const int Old = 1;
    private const int New = 2;

    public enum Scene
    {
        Idle,
        HalfARequest,
        TheNextIsUnderWay,
        AnAnswerIsUnderWay,
        AnUploadIsUnderWay,
    }

    public static TheoryData<bool, bool, Scene> Scenes
    {
        get
        {
            var scenes = new TheoryData<bool, bool, Scene>();
            foreach (Scene scene in Enum.GetValues<Scene>())
            {
                scenes.Add(false, false, scene);
                scenes.Add(false, true, scene);
                scenes.Add(true, false, scene);
                scenes.Add(true, true, scene);
            }

            return scenes;
        }
    }

    [Theory]
    [MemberData(nameof(Scenes))]
    public void A_connection_moves_at_every_step_and_either_process_crashes_at_every_system_call(bool isHttp, bool isTcp, Scene scene) => SimulationThread.Run(() =>
    {
        int last = new Play(isHttp, isTcp, scene, moveAt: int.MaxValue, isInterleaved: false).Run().Rounds;
        int unharmed = 0;
        int cutOff = 0;
        for (int moveAt = 0; moveAt <= last; moveAt++)
        {
            foreach (bool isInterleaved in (bool[])[false, true])
            {
                Play whole = new Play(isHttp, isTcp, scene, moveAt, isInterleaved).Run();
                Assert.True(whole.Failure is null, whole.Report());
                Assert.False(whole.WasCutOff);
                foreach (int victim in (int[])[Old, New])
                {
                    for (int call = 1; call <= whole.Calls[victim]; call++)
                    {
                        Play crash = new Play(isHttp, isTcp, scene, moveAt, isInterleaved) { Victim = victim, CrashAt = call }.Run();
                        if (crash.Failure is not null || !crash.HasCrashed)
                        {
                            Play again = new Play(isHttp, isTcp, scene, moveAt, isInterleaved, traces: true) { Victim = victim, CrashAt = call }.Run();
                            Assert.Fail($"moved at {moveAt}{(isInterleaved ? ", interleaved" : "")}, process {victim} crashed at its call {call}: {again.Report()}");
                        }

                        (crash.WasCutOff ? ref cutOff : ref unharmed)++;
                    }
                }
            }
        }

        Assert.True(unharmed > 0 && cutOff > 0, $"{unharmed} connections have lived through a crash, {cutOff} have ended with one");
    });

    // A connection that has moved belongs to whoever has taken it: the crash of the process that gave it is nothing to it.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_process_that_crashes_between_giving_and_closing_takes_nothing_along(bool isHttp) => SimulationThread.Run(() =>
    {
        var play = new Play(isHttp, isTcp: true, Scene.Idle, moveAt: 4, isInterleaved: true) { Victim = Old, CrashAtName = "leave" };
        Assert.Null(play.Run().Failure);
        Assert.True(play.HasCrashed);
        Assert.False(play.WasCutOff);
    });

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void What_is_on_its_way_when_its_taker_crashes_is_taken_by_the_next(bool isHttp) => SimulationThread.Run(() =>
    {
        var play = new Play(isHttp, isTcp: true, Scene.Idle, moveAt: 4, isInterleaved: false) { Victim = New, CrashAtName = "recvmsg" };
        Assert.Null(play.Run().Failure);
        Assert.True(play.HasCrashed);
        Assert.False(play.WasCutOff);
        Assert.Equal(3, play.RunBy);
    });

    // A descriptor that comes while there is no number for it is lost: it waits in the channel.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Connections_that_move_to_a_process_without_a_free_number_wait_for_one(bool isHttp) => SimulationThread.Run(() =>
    {
        var daemon = new SimulatedDaemon(new SeededRandom(1), new DaemonSetup { ConnectionDescriptors = 2 });
        MovingClient[] clients = [.. Enumerable.Range(0, 2).Select(i => Client(daemon, isHttp, i))];
        MovingClient[] later = [.. Enumerable.Range(2, 3).Select(i => Client(daemon, isHttp, i))];
        _ = daemon.Start();
        Assert.All(clients, static client => client.Act(eager: true));
        for (int i = 0; i < 6; i++)
        {
            _ = daemon.Round();
        }

        daemon.Deploy();
        Assert.All(later, static client => client.Act(eager: true));
        daemon.Rest([.. clients, .. later]);
        Assert.Null(daemon.Machine.Failure);
        Assert.All([.. clients, .. later], static client => Assert.True(client is { IsDone: true, WasCutOff: false }));
        Assert.True(daemon.Moved > 0);
        daemon.Stop([.. clients, .. later]);
        Assert.Null(daemon.Machine.Failure);
    });

    private static MovingClient Client(SimulatedDaemon daemon, bool isHttp, int number) => new(
        daemon, number, isHttp, [.. Enumerable.Range(0, 3).Select(i => new MovedRequest($"/c{number}/r{i}", 0, 100, ""))], static bytes => [.. bytes.Select(static (each, i) => new Piece(each, i))], isPaced: true);

    /// <summary>What a client does step by step, with a move and perhaps a crash in it.</summary>
    private sealed class Play
    {
        private const int RoundsMax = 40;

        private readonly SimulatedDaemon _daemon;
        private readonly MovingClient _client;
        private readonly List<MovingClient> _clients;
        private readonly int _moveAt;
        private readonly bool _isInterleaved;
        private bool _isInside;

        public Play(bool isHttp, bool isTcp, Scene scene, int moveAt, bool isInterleaved, bool traces = false)
        {
            (_moveAt, _isInterleaved) = (moveAt, isInterleaved);
            _daemon = new SimulatedDaemon(new SeededRandom(1), new DaemonSetup { IsTcp = isTcp, HttpIsTcp = isTcp, Traces = traces });
            _daemon.Machine.AtSystemCall = AtSystemCall;
            _client = new MovingClient(_daemon, 0, isHttp, RequestsOf(scene), bytes => Script(scene, bytes), isPaced: true);
            _clients = [_client];
        }

        public int Victim { get; init; }

        public int CrashAt { get; init; }

        public string? CrashAtName { get; init; }

        public bool HasCrashed { get; private set; }

        /// <summary>System calls of each process.</summary>
        public Dictionary<int, int> Calls { get; } = new() { [Old] = 0, [New] = 0 };

        public int Rounds { get; private set; }

        public string? Failure => _daemon.Machine.Failure;

        public bool WasCutOff => _client.WasCutOff;

        /// <summary>Who has run the last request.</summary>
        public int? RunBy => _client.Requests[^1].RunBy?.Number;

        private static MovedRequest[] RequestsOf(Scene scene) => scene switch
        {
            Scene.AnAnswerIsUnderWay => [new("/first", 0, 3_000, "fpfp"), new("/second", 0, 11, "")],
            Scene.AnUploadIsUnderWay => [new("/first", 6_000, 10, "pr"), new("/second", 501, 11, "")],
            _ => [new("/first", 0, 10, ""), new("/second", 20, 11, "r"), new("/third", 0, 30, "p")],
        };

        private static List<Piece> Script(Scene scene, byte[][] bytes)
        {
            byte[] first = bytes[0];
            byte[] second = bytes[1];
            int half = first.Length / 2;
            return scene switch
            {
                Scene.HalfARequest => [new(first[..half], 0), new(first[half..], 0), new(second[..9], 1), new(second[9..], 1), new(bytes[2], 2)],
                Scene.TheNextIsUnderWay => [new([.. first, .. second[..30]], 0), new([.. second[30..], .. bytes[2]], 0)],
                Scene.AnAnswerIsUnderWay => [new(first, 0), new(second[..20], 0), new(second[20..], 0)],
                Scene.AnUploadIsUnderWay => [new(first[..half], 0), new(first[half..^1], 0), new(first[^1..], 0), new(second, 1)],
                _ => [.. bytes.Select(static (each, i) => new Piece(each, i))],
            };
        }

        public Play Run()
        {
            _ = _daemon.Start();
            for (; Rounds < RoundsMax && Failure is null && !(_client.IsDone && (Rounds > _moveAt + 2 || _moveAt == int.MaxValue)); Rounds++)
            {
                if (Rounds == _moveAt)
                {
                    _daemon.Deploy();
                }

                _daemon.Pass();
                _ = _client.Act(eager: true);
                _ = _daemon.Round();
            }

            _daemon.Machine.AtSystemCall = null;
            _daemon.Rest(_clients);
            _client.Complain();
            Visit();
            _daemon.Stop(_clients);
            return this;
        }

        // Whatever has happened, who comes now is served.
        private void Visit()
        {
            var visitor = new MovingClient(_daemon, 1, isHttp: true, [new MovedRequest("/visit", 0, 10, "")], static bytes => [new Piece(bytes[0], 0)]);
            _clients.Add(visitor);
            _daemon.Rest(_clients);
            visitor.Complain();
            if (visitor.WasCutOff)
            {
                _daemon.Violated("who came when all was over was not served");
            }
        }

        // Between any two calls of one process the others may do all they can.
        private void AtSystemCall(Simulation process, string call)
        {
            int calls = Calls[process.Number] = Calls.GetValueOrDefault(process.Number) + 1;
            if (process.Number == Victim && !HasCrashed && (calls == CrashAt || call == CrashAtName))
            {
                HasCrashed = true;
                _daemon.Crash(process);
                return;
            }

            if (_isInterleaved && !_isInside)
            {
                _isInside = process.IsInCall = true;
                _ = _daemon.Round();
                _isInside = process.IsInCall = false;
            }
        }

        public string Report() => $"{Failure ?? "nothing was wrong, but there was no crash"}\n{_client}\n{_daemon.TraceText(200)}";
    }
}
