// Thousands of short lives of a server over the simulated kernel. In each of them, whatever the seed does:
//
//  - a loop has one driver, a connection one owner, and only the owner makes its system calls;
//  - every request of an undisturbed client is run once and answered once, in full, with its own bytes, before its connection ends;
//  - no byte goes to a connection it was not meant for, and no descriptor is used after it was closed;
//  - no event and no wake-up is lost: when nothing moves any more, nobody waits;
//  - a body whose handler does not read is held only up to its limit;
//  - when the server has drained, no connection, descriptor, exchange or driver is missing.
//
// MILLRACE_SIM_SEEDS is the number of lives, MILLRACE_SIM_FIRST the first seed.

using System.Globalization;

namespace Millrace.Tests.Simulation;

public sealed class RandomLivesTests
{
    private const int SeedsDefault = 2_000;

    [Fact]
    public void Random_lives()
    {
        int seeds = Number("MILLRACE_SIM_SEEDS", SeedsDefault);
        int first = Number("MILLRACE_SIM_FIRST", 1);
        int next = first - 1;
        int failed = int.MaxValue;
        SimulationThread.RunAll(() =>
        {
            while (Interlocked.Increment(ref next) is int seed && seed < first + seeds && seed < Volatile.Read(ref failed))
            {
                if (new RandomLife((ulong)seed, traces: false).Run() is not null)
                {
                    Note(ref failed, seed);
                }
            }
        });
        Assert.True(failed == int.MaxValue, failed == int.MaxValue ? "" : Explain((ulong)failed));
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

    private static void Note(ref int failed, int seed)
    {
        int now = Volatile.Read(ref failed);
        while (seed < now && Interlocked.CompareExchange(ref failed, seed, now) is int was && was != now)
        {
            now = was;
        }
    }

    private static string Explain(ulong seed)
    {
        string text = "";
        SimulationThread.Run(() =>
        {
            var life = new RandomLife(seed, traces: true);
            string? failure = life.Run();
            text = $"Seed {seed} (MILLRACE_SIM_FIRST={seed} MILLRACE_SIM_SEEDS=1): {failure ?? "did not fail again"}\n{life.Describe()}\n{life.Simulation.TraceText(150)}";
        });
        return text;
    }

    private static int Number(string variable, int otherwise) =>
        int.TryParse(Environment.GetEnvironmentVariable(variable), NumberStyles.None, CultureInfo.InvariantCulture, out int number) ? number : otherwise;
}
