// Spoiled connections of both protocols, each beside well-behaved ones (ConnectionRig). Every case comes from its number; a
// case that once did harm is kept in tests/vectors/connections.
//
// MILLRACE_FUZZ_CASES is the number of cases, MILLRACE_FUZZ_FIRST the first.

using System.Globalization;
using Millrace.Tests.Simulation;
using Millrace.Tests.Tidy;

namespace Millrace.Tests.Fuzz;

public sealed class ConnectionFuzzTests
{
    private const int CasesDefault = 20_000;

    // A rig serves so many cases, then a fresh one goes on: a failure is repeated from the first case of its rig.
    private const int CasesPerRig = 2_000;

    [Fact]
    [Trait("Category", "Fuzz")]
    public void Spoiled_connections_harm_nobody() => RunAll(Number("MILLRACE_FUZZ_FIRST", 1), Number("MILLRACE_FUZZ_CASES", CasesDefault));

    public static TheoryData<string> Kept => [.. Directory.GetFiles(Folder, "*.hex").Select(static path => Path.GetFileName(path)!).Order(StringComparer.Ordinal)];

    private static string Folder => Path.Combine(Repository.Root, "tests", "vectors", "connections");

    [Theory]
    [MemberData(nameof(Kept))]
    public void What_did_harm_once_does_none(string name) => SimulationThread.Run(() =>
    {
        string[] lines = File.ReadAllLines(Path.Combine(Folder, name));
        byte[] bytes = Convert.FromHexString(string.Concat(lines.Where(static line => !line.StartsWith('#'))));
        foreach (CaseEnd end in Enum.GetValues<CaseEnd>())
        {
            var rig = new ConnectionRig();
            Assert.Null(rig.Run(name.StartsWith("http", StringComparison.Ordinal), bytes, [], end));
            Assert.Null(rig.Run(name.StartsWith("http", StringComparison.Ordinal), bytes, [.. Enumerable.Range(1, bytes.Length - 1)], end));
        }
    });

    private static void RunAll(int first, int count)
    {
        int next = -1;
        string? failure = null;
        SimulationThread.RunAll(() =>
        {
            while (Volatile.Read(ref failure) is null && Interlocked.Increment(ref next) is int block && block * CasesPerRig < count)
            {
                int from = first + (block * CasesPerRig);
                if (RunBlock(from, Math.Min(from + CasesPerRig, first + count)) is { } what)
                {
                    Interlocked.CompareExchange(ref failure, what, null);
                }
            }
        });
        Assert.True(failure is null, failure);
    }

    private static string? RunBlock(int from, int to)
    {
        var rig = new ConnectionRig();
        for (int number = from; number < to; number++)
        {
            var made = new SpoiledCase((ulong)number);
            if (rig.Run(made.IsHttp, made.Bytes, made.Cuts, made.End) is { } what)
            {
                var fresh = new ConnectionRig(traces: true);
                bool alone = fresh.Run(made.IsHttp, made.Bytes, made.Cuts, made.End) is not null;
                return string.Create(CultureInfo.InvariantCulture,
                    $"Case {number} ({(made.IsHttp ? "http" : "fastcgi")}, ends with {made.End}, cut at {string.Join(' ', made.Cuts.ToArray())}): {what}\n")
                    + (alone ? "It fails alone." : $"It fails behind those from {from} on: MILLRACE_FUZZ_FIRST={from} MILLRACE_FUZZ_CASES={number - from + 1}.")
                    + "\n" + Convert.ToHexString(made.Bytes) + "\n" + System.Text.Encoding.Latin1.GetString(made.Bytes) + "\n" + fresh.Trace;
            }
        }

        return null;
    }

    private static int Number(string variable, int otherwise) =>
        int.TryParse(Environment.GetEnvironmentVariable(variable), NumberStyles.None, CultureInfo.InvariantCulture, out int number) ? number : otherwise;
}
