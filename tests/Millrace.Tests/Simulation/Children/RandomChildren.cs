// The life of a client and its children, from a seed: visitors come, ask and leave; children do with each request what children do, die, are killed, stop, crash at their start, close what nobody uses.
// They are those of a pool, one for each call, or all listen at one address. RandomLivesTests.cs says what must be so.

using System.Globalization;
using Millrace.Connector;

namespace Millrace.Tests.Simulation.Children;

[System.Diagnostics.CodeAnalysis.SuppressMessage("Design", "CA1001", Justification = "At the end of Run nothing is left.")]
internal sealed class RandomChildren : IRandomLife
{
    private const int Steps = 160;
    private const int AskedMax = 6;
    private const int CalmTurnsMax = 2_000;
    private const int CalmTurnMs = 20;
    private const int SilenceTurns = 150;       // longer than ReadTimeout
    private const int GivenMax = 9;             // the first child, and eight more (GoneMax of a program's request)
    private static readonly TimeSpan s_readTimeout = TimeSpan.FromSeconds(2);

    private readonly SeededRandom _random;
    private readonly ChildrenWorld _world;
    private readonly FastCgiProgramOptions _options;
    private readonly int _places;
    private readonly ChildPool? _pool;
    private readonly ConnectionPool? _connections;
    private readonly List<SimulatedChild> _listening = [];
    private readonly List<ChildVisit> _visits = [];
    private int _lastId = 100_000;
    private int _lastChild;

    public RandomChildren(ulong seed, bool traces)
    {
        _random = new SeededRandom(seed);
        _world = new ChildrenWorld(_random, traces);
        _places = _random.Between(1, 4);
        bool isPool = _random.Chance(60);
        _options = new FastCgiProgramOptions { ReadTimeout = s_readTimeout, Clock = _world.Time };
        if (isPool)
        {
            _pool = new ChildPool(_world, _places);
        }
        else
        {
            bool isTight = _random.Chance(30);
            _connections = new ConnectionPool(new System.Net.DnsEndPoint("children", 9000), new ConnectionLimits(isTight ? 2 : 1_000, TimeSpan.FromHours(1), TimeSpan.Zero))
            {
                KeepsConnections = _random.Chance(80),
                Connecting = ConnectAsync,
            };
        }
    }

    public ulong Fingerprint => _world.Fingerprint;

    public int Notes => _world.Notes;

    public string Report(int lines) => $"{(_pool is null ? "children at an address" : $"a pool of {_places}")}\n{_world.Trace(lines)}";

    public string? Run()
    {
        try
        {
            Live();
            return null;
        }
        catch (Exception error)
        {
            return error is Xunit.Sdk.XunitException ? error.Message : error.ToString();
        }
        finally
        {
            _connections?.Dispose();
            _pool?.Dispose();
        }
    }

    private void Live()
    {
        for (int i = 0; i < Steps; i++)
        {
            Step();
            Collect();
        }

        _world.IsCalm = true;
        _world.Note("calm");
        ComeToRest();
        _visits.ForEach(Check);

        ChildVisit[] last = [.. Enumerable.Range(0, 2 * _places).Select(_ => Ask())];
        ComeToRest();
        Assert.All(last.Where(visit => _connections is null || visit.Failure is not ConnectorException { Fault: ConnectorFault.Busy }), visit => Assert.True(visit.Failure is null, $"not served: {visit}, {_world.Of(visit.Id)}"));
        _visits.ForEach(Check);
        _connections?.Dispose();
        _pool?.Dispose();
        Assert.All(_world.Connections, static connection => Assert.True(connection.IsDisposed, $"the connection of {connection.Request} has not been closed"));
        Assert.True(_connections?.TryTakePlace() ?? true, "no place is left");
    }

    // ---- what happens ----

    private IReadOnlyList<SimulatedChild> Children => _pool?.Children ?? _listening;

    private SimulatedChild? AnyChild => Children is { Count: > 0 } children ? children[_random.Below(children.Count)] : null;

    private void Step()
    {
        switch (_random.Below(24))
        {
            case <= 3 when _visits.Count(static visit => !visit.IsOver) < AskedMax:
                _ = Ask();
                break;
            case 4 or 5:
                _world.Time.Pass(_random.Below(500));
                break;
            case 6 when _random.Chance(50):
                AnyChild?.Die();
                break;
            case 7:
                AnyChild?.CloseIdle();
                break;
            case 8 when _random.Chance(50):
                ChildVisit[] here = [.. _visits.Where(static visit => !visit.IsOver)];
                if (here.Length > 0)
                {
                    here[_random.Below(here.Length)].Leave();
                }

                break;
            case 9 when AnyChild is { } child:
                child.IsStopped = !child.IsStopped && _random.Chance(30);
                break;
            case 10 when _random.Chance(20):
                _pool?.Kill(_random.Below(_places));
                break;
            case 11:
                _visits.ForEach(visit => visit.IsReading = _random.Chance(70));
                break;
            default:
                _ = AnyChild?.Work(_random.Chance(50) ? int.MaxValue : _random.Between(1, 3_000));
                break;
        }

        _listening.Where(child => child.IsHanging && _random.Chance(3)).ToList().ForEach(static child => child.Die());
        _listening.RemoveAll(static child => child.HasExited);
    }

    private ValueTask<ITransport> ConnectAsync(CancellationToken ct)
    {
        if (!_world.IsCalm && _random.Chance(5))
        {
            throw new ConnectorException(ConnectorFault.NoConnection, "The address cannot be connected to.");
        }

        SimulatedChild? free = _listening.Find(static child => child.IsFree);
        if (free is null)
        {
            _listening.Add(free = new SimulatedChild(_world, ++_lastChild));
        }

        return free.ConnectAsync(default, ct);
    }

    private ChildVisit Ask()
    {
        string id = string.Create(CultureInfo.InvariantCulture, $"id{++_lastId}");
        var visit = new ChildVisit(id, _world, _options, takesBodyFirst: _pool is not null || _random.Chance(50));
        _visits.Add(visit);
        visit.Begin(_connections, _pool);
        return visit;
    }

    // What has been waited for on another thread is there before anything else happens.
    private void Collect() => _visits.ForEach(static visit => visit.Collect());

    private void ComeToRest()
    {
        for (int turn = 0; turn < CalmTurnsMax; turn++)
        {
            _visits.ForEach(static visit => visit.IsReading = true);
            foreach (SimulatedChild child in Children.ToArray())        // more come while they work
            {
                child.IsStopped = false;
                while (child.Work(int.MaxValue))
                {
                }

                if (turn > SilenceTurns)
                {
                    Assert.True(_pool is not null || _visits.TrueForAll(static visit => visit.IsOver), "a child that says nothing has been waited for too long");
                    if (_pool is null && child.IsHanging)
                    {
                        child.Die();        // as php-fpm does behind request_terminate_timeout
                    }
                }
            }

            _listening.RemoveAll(static child => child.HasExited);
            Collect();
            if (_visits.TrueForAll(static visit => visit.IsOver) && (_pool?.IsIdle ?? true))
            {
                return;
            }

            _world.Time.Pass(CalmTurnMs);
        }

        Assert.Fail($"it does not come to rest: {string.Join("; ", _visits.Where(static visit => !visit.IsOver))}; {string.Join("; ", Children)}");
    }

    // ---- what must be so ----

    private void Check(ChildVisit visit)
    {
        RequestFacts facts = _world.Of(visit.Id);
        string all = $"{visit}, {facts}";
        Assert.True(facts.Begun <= (visit.IsSafe ? 2 : 1) && facts.Sent <= (visit.IsSafe ? 2 : 1), $"sent too often: {all}");
        Assert.True(facts.Given <= GivenMax, $"given too often: {all}");
        switch (visit.Failure)
        {
            case null:
                Assert.True(visit.IsRight, $"a wrong answer: {visit.Shown}; {all}");
                break;
            case OperationCanceledException:
                Assert.True(visit.HasLeft, $"nobody has left: {all}");
                break;
            case PoolAnswerException:
                break;
            case TimeoutException:
                Assert.True(visit.Took >= s_readTimeout, $"not silent for so long: {all}");
                break;
            case ConnectorException { Fault: ConnectorFault.Busy }:
                Assert.True(_connections is not null || facts.Deeds.Contains(Deed.IsOverloaded), $"not busy: {all}");
                break;
            case ConnectorException { Fault: ConnectorFault.NoConnection }:
                Assert.True(visit.HasLeft || _connections is not null || facts.Given == GivenMax, $"lost: {all}");
                break;
            case ConnectorException:
                Assert.True(facts.HasCause, $"without a reason: {all}");
                Assert.True(visit.HasLeft || visit.HasBegun || WasTriedAgain(visit, facts), $"lost: {all}");
                break;
            default:
                Assert.Fail($"an exception of another kind: {all}");
                break;
        }
    }

    // Of what may be sent twice nothing is lost that was sent once over a connection that was kept only, or to one child of a pool only, as long as there
    // were children that it could be given to; of what may not, nothing of which nothing was sent.
    private bool WasTriedAgain(ChildVisit visit, RequestFacts facts) =>
        !visit.IsSafe ? facts.Sent == 1
        : _pool is not null ? facts is { Sent: 2, Given: >= 2 } or { Given: GivenMax }
        : facts.Sent == 2 || !facts.WasKept;
}
