// Thousands of short lives of a server over the simulated kernel, with clients of both protocols, good ones and bad ones. In
// each of them, whatever the seed does:
//
//  - a loop has one driver, a connection one owner, and only the owner makes its system calls;
//  - every request of an undisturbed client is run once and answered once, in full, with its own bytes, before its connection ends;
//  - no byte goes to a connection it was not meant for, and no descriptor is used after it was closed;
//  - no event and no wake-up is lost: when nothing moves any more, nobody waits;
//  - a body whose handler does not read is held only up to its limit;
//  - nothing is thrown inside the server, and nothing is refused where nobody misbehaves;
//  - where peers have speeds and pauses (slow peers), no time limit strikes before it is reached, and none is forgotten;
//  - when the server has drained, no connection, descriptor, exchange or driver is missing.
//
// And of an application whose generations follow one another, each a process that may crash at any system call (RandomDeployments):
//
//  - bytes of a request are taken by one process, which alone runs it, once; what is taken and what lies in the socket is what the client has sent;
//  - answers are whole, in order and on the connection of the request, or that has ended, and it ends only where a process crashes while it has it;
//  - whoever has given a connection away does nothing with it any more, and no descriptor is lost on the way;
//  - when nothing moves any more nobody waits, and who comes then is served; when all has ended nothing is open.
//
// And of the client and its children, which are killed, crash, hang, close early, answer garbage, late or twice (Children/RandomChildren):
//
//  - no answer goes to another request, and none that is not whole passes for whole;
//  - a request that may not be sent twice is not, not even in part, and one that may is sent twice at most: the children count;
//  - none that may be sent twice, and none of which nothing has been sent, is lost to the end of one connection that was kept, or of one child of a pool;
//  - whoever has no answer has a reason that has happened; everything ends; no place of the pool is lost, no connection stays open, and who comes then is served.
//
// MILLRACE_SIM_SEEDS is the number of lives (otherwise 10,000, or fewer, in the long run a tenth of MILLRACE_FUZZ_CASES), MILLRACE_SIM_FIRST the first seed, MILLRACE_SIM_LINES
// how many steps of a failed life are shown.

using System.Globalization;
using Millrace.Tests.Simulation.Children;

namespace Millrace.Tests.Simulation;

/// <summary>A life from a seed.</summary>
internal interface IRandomLife
{
    /// <summary>Null, or what went wrong.</summary>
    string? Run();

    /// <summary>What it was, and its last steps.</summary>
    string Report(int lines);
}

public sealed class RandomLivesTests
{
    private const int SeedsDefault = 10_000;

    private const int LongCasesDefault = 1_000_000;

    // A life takes as long as some spoiled requests.
    private const int CasesPerLife = 10;

    private const int SlowSeedsDefault = 2_000;

    // Of the lives of the long run so many are not of slow peers for each that is.
    private const int SlowShare = 5;

    private const int DeploymentShare = 2;

    private const int DeploymentSeedsDefault = 4_000;

    private const int ChildrenSeedsDefault = 1_000;

    private const int ChildrenShare = 1;

    private const int FailuresMax = 12;
    private const int TraceLinesDefault = 150;

    [Fact]
    public void Random_lives() => Run(RandomLife, Number("MILLRACE_SIM_SEEDS", SeedsDefault));

    [Fact]
    [Trait("Category", "Fuzz")]
    public void Random_lives_in_the_long_run() => Run(RandomLife, LongRun(share: 1));

    [Fact]
    public void Random_lives_of_slow_peers() => Run(SlowLife, Number("MILLRACE_SIM_SEEDS", SlowSeedsDefault));

    [Fact]
    [Trait("Category", "Fuzz")]
    public void Random_lives_of_slow_peers_in_the_long_run() => Run(SlowLife, LongRun(SlowShare));

    [Fact]
    public void Random_lives_of_generations_that_crash() => Run(Deployments, Number("MILLRACE_SIM_SEEDS", DeploymentSeedsDefault));

    [Fact]
    [Trait("Category", "Fuzz")]
    public void Random_lives_of_generations_that_crash_in_the_long_run() => Run(Deployments, LongRun(DeploymentShare));

    [Fact]
    public void Random_lives_of_a_client_and_its_children() => Run(ClientLife, Number("MILLRACE_SIM_SEEDS", ChildrenSeedsDefault));

    [Fact]
    [Trait("Category", "Fuzz")]
    public void Random_lives_of_a_client_and_its_children_in_the_long_run() => Run(ClientLife, LongRun(ChildrenShare));

    private static IRandomLife ClientLife(ulong seed, bool traces) => new RandomChildren(seed, traces);

    private static IRandomLife RandomLife(ulong seed, bool traces) => new RandomLife(seed, traces);

    private static IRandomLife SlowLife(ulong seed, bool traces) => new RandomLife(seed, traces, isSlow: true);

    private static IRandomLife Deployments(ulong seed, bool traces) => new RandomDeployments(seed, traces);

    private static int LongRun(int share) => Number("MILLRACE_SIM_SEEDS", Number("MILLRACE_FUZZ_CASES", LongCasesDefault) / CasesPerLife / share);

    private static void Run(Func<ulong, bool, IRandomLife> make, int seeds)
    {
        int first = Number("MILLRACE_SIM_FIRST", 1);
        int next = first - 1;
        var failures = new SortedDictionary<int, string>();
        SimulationThread.RunAll(() =>
        {
            while (Interlocked.Increment(ref next) is int seed && seed < first + seeds && failures.Count < FailuresMax)
            {
                if (make((ulong)seed, false).Run() is { } failure)
                {
                    lock (failures)
                    {
                        failures[seed] = failure;
                    }
                }
            }
        });
        Assert.True(failures.Count == 0, failures.Count == 0 ? "" : Explain(failures, make));
    }

    [Theory]
    [InlineData(3)]
    [InlineData(12)]
    [InlineData(77)]
    [InlineData(1_234)]
    public void The_same_seed_is_the_same_run(int seed)
    {
        ulong[] fingerprints = new ulong[3];
        int steps = 0;
        SimulationThread.Run(() =>
        {
            for (int i = 0; i < fingerprints.Length; i++)
            {
                var life = new RandomLife((ulong)seed, traces: i == 2);
                life.Run();
                fingerprints[i] = life.Simulation.Fingerprint;
                steps = life.Simulation.Steps;
            }
        });
        Assert.True(steps >= 100);
        Assert.Equal(fingerprints[0], fingerprints[1]);
        Assert.Equal(fingerprints[0], fingerprints[2]);
    }

    [Theory]
    [InlineData(5)]
    [InlineData(41)]
    [InlineData(805)]
    public void The_same_seed_is_the_same_run_of_generations(int seed)
    {
        ulong[] fingerprints = new ulong[3];
        SimulationThread.Run(() =>
        {
            for (int i = 0; i < fingerprints.Length; i++)
            {
                var life = new RandomDeployments((ulong)seed, traces: i == 2);
                Assert.Null(life.Run());
                Assert.True(life.Steps > 400);
                fingerprints[i] = life.Daemon.Fingerprint;
            }
        });
        Assert.Equal(fingerprints[0], fingerprints[1]);
        Assert.Equal(fingerprints[0], fingerprints[2]);
    }

    [Theory]
    [InlineData(7)]
    [InlineData(52)]
    [InlineData(1_301)]
    public void The_same_seed_is_the_same_run_of_children(int seed)
    {
        ulong[] fingerprints = new ulong[3];
        SimulationThread.Run(() =>
        {
            for (int i = 0; i < fingerprints.Length; i++)
            {
                var life = new RandomChildren((ulong)seed, traces: i == 2);
                Assert.Null(life.Run());
                Assert.True(life.Notes > 50);
                fingerprints[i] = life.Fingerprint;
            }
        });
        Assert.Equal(fingerprints[0], fingerprints[1]);
        Assert.Equal(fingerprints[0], fingerprints[2]);
    }

    // Most of what these peers send is padding, and records for nobody: their bodies are slower than their bytes.
    [Theory]
    [InlineData(62002441)]
    [InlineData(62033083)]
    public void A_body_that_a_front_server_leaves_for_its_next_request_comes_to_an_end(int seed) => LivesWell(seed);

    [Theory]
    [InlineData(62013433)]
    public void A_chunk_that_is_none_ends_the_connection_also_where_its_handler_ends_at_that_moment(int seed) => LivesWell(seed);

    [Theory]
    [InlineData(64_044_948)]
    public void A_connection_is_idle_from_the_end_of_the_body_on_that_its_answer_overtook(int seed) => LivesWell(seed, isSlow: false);

    [Theory]
    [InlineData(25_002_070)]
    public void A_body_is_as_slow_as_its_own_bytes(int seed) => LivesWell(seed);

    [Theory]
    [InlineData(23_190_567)]
    public void A_body_is_on_its_way_from_the_end_of_its_head_on(int seed) => LivesWell(seed);

    [Theory]
    [InlineData(23_194_075)]
    public void A_client_on_a_Unix_socket_is_not_too_slow_while_it_reads_one_piece(int seed) => LivesWell(seed);

    private static void LivesWell(int seed, bool isSlow = true)
    {
        string? failure = null;
        SimulationThread.Run(() => failure = new RandomLife((ulong)seed, traces: false, isSlow).Run());
        Assert.Null(failure);
    }

    private static string Explain(SortedDictionary<int, string> failures, Func<ulong, bool, IRandomLife> make)
    {
        string text = string.Concat(failures.Select(static pair => $"Seed {pair.Key}: {pair.Value.Split('\n')[0]}\n"));
        ulong seed = (ulong)failures.First().Key;
        SimulationThread.Run(() =>
        {
            IRandomLife life = make(seed, true);
            string? failure = life.Run();
            text += $"\nSeed {seed} (MILLRACE_SIM_FIRST={seed} MILLRACE_SIM_SEEDS=1): {failure ?? "did not fail again"}\n{life.Report(Number("MILLRACE_SIM_LINES", TraceLinesDefault))}";
        });
        return text;
    }

    private static int Number(string variable, int otherwise) =>
        int.TryParse(Environment.GetEnvironmentVariable(variable), NumberStyles.None, CultureInfo.InvariantCulture, out int number) ? number : otherwise;
}
