// The table of policies: who is lost in a flood.

using System.Globalization;
using Millrace.Sessions.Stores;

namespace Millrace.Bench.Sessions;

internal static class PolicyTable
{
    private const double NoShare = 1;
    private const double Share = 1.0 / 32;

    private static readonly (string Name, Func<SimulatedTime, IContestant> Make)[] s_contestants =
    [
        ("LRU", static time => new RealStore(time, Simulation.Places, PolicyShape.Lru, isSealed: false, NoShare)),
        ("MemoryCache's rules", static time => new MemoryCacheRules(time, Simulation.Places)),
        ("segmented LRU, 20 % probation", static time => new RealStore(time, Simulation.Places, PolicyShape.SegmentedLru, isSealed: false, NoShare)),
        ("W-TinyLFU", static time => new RealStore(time, Simulation.Places, PolicyShape.WTinyLfu, isSealed: false, NoShare)),
        ("sealed first write + segmented LRU", static time => new RealStore(time, Simulation.Places, PolicyShape.SegmentedLru, isSealed: true, NoShare)),
        ("sealed first write + W-TinyLFU", static time => new RealStore(time, Simulation.Places, PolicyShape.WTinyLfu, isSealed: true, NoShare)),
        ("the same, with a share per network", static time => new RealStore(time, Simulation.Places, PolicyShape.WTinyLfu, isSealed: true, Share)),
    ];

    private static readonly (string Name, Attack Attack, int Networks)[] s_attacks =
    [
        ("no cookie", Attack.Cookieless, 10_000),
        ("each once", Attack.ReturnsOnce, 10_000),
        ("each once, one network", Attack.ReturnsOnce, 1),
        ("each five times", Attack.ReturnsOften, 10_000),
        ("each five times, one network", Attack.ReturnsOften, 1),
    ];

    /// <param name="chart">A file that gets a picture of it (SVG); null for none.</param>
    public static void Print(string? chart)
    {
        var rows = new List<(string Policy, Losses[] Losses)>();
        Console.WriteLine($"{Simulation.Places:N0} places, {Simulation.Visitors:N0} visitors, {Simulation.FloodPerSecond:N0} requests a second for {Simulation.FloodSeconds} s; lost of those established / of new ones");
        Console.WriteLine($"| policy | {string.Join(" | ", s_attacks.Select(static attack => attack.Name))} |");
        Console.WriteLine($"|---|{string.Concat(s_attacks.Select(static _ => "---|"))}");
        foreach ((string name, Func<SimulatedTime, IContestant> make) in s_contestants)
        {
            Losses[] losses = [.. s_attacks.AsParallel().AsOrdered().WithDegreeOfParallelism(2).Select(attack => Run(make, attack.Attack, attack.Networks))];
            Console.WriteLine($"| {name} | {string.Join(" | ", losses.Select(static cell => string.Create(CultureInfo.InvariantCulture, $"{100 * cell.Established:0.#} % / {100 * cell.New:0.#} %")))} |");
            rows.Add((name, losses));
        }
        if (chart is not null)
        {
            File.WriteAllText(chart, PolicyChart.Svg([.. s_attacks.Select(static attack => attack.Name)], rows));
        }
    }

    private static Losses Run(Func<SimulatedTime, IContestant> make, Attack attack, int networks)
    {
        var time = new SimulatedTime();
        return new Simulation(make(time), time, attack, networks).Run();
    }
}
