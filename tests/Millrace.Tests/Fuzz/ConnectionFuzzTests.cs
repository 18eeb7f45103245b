// Spoiled connections of both protocols, each beside well-behaved ones (ConnectionRig). Every case comes from its number; a
// case that once did harm is kept in tests/vectors/connections.
//
// MILLRACE_FUZZ_CASES is the number of cases, MILLRACE_FUZZ_FIRST the first.

using System.Collections.Concurrent;
using System.Globalization;
using Millrace.Tests.Simulation;
using Millrace.Tests.Tidy;

namespace Millrace.Tests.Fuzz;

public sealed class ConnectionFuzzTests
{
    private const int CasesDefault = 20_000;
    private const int LongCasesDefault = 1_000_000;

    private const int HangMs = 10_000;

    // A rig serves so many cases, then a fresh one goes on: a failure is repeated from the first case of its rig.
    private const int CasesPerRig = 2_000;

    [Fact]
    public void Spoiled_connections_harm_nobody() => RunAll(1, CasesDefault);

    [Fact]
    [Trait("Category", "Fuzz")]
    public void Spoiled_connections_harm_nobody_in_the_long_run() => RunAll(Number("MILLRACE_FUZZ_FIRST", 1), Number("MILLRACE_FUZZ_CASES", LongCasesDefault));

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

    // Which case a thread is at: one that never ends is told of, not waited for.
    private sealed class Progress
    {
        public volatile int At;
    }

    private static void RunAll(int first, int count)
    {
        int next = -1;
        string? failure = null;
        var started = new ConcurrentBag<Progress>();
        var all = new Thread(() => SimulationThread.RunAll(() =>
        {
            var progress = new Progress();
            started.Add(progress);
            while (Volatile.Read(ref failure) is null && Interlocked.Increment(ref next) is int block && block * CasesPerRig < count)
            {
                int from = first + (block * CasesPerRig);
                if (RunBlock(from, Math.Min(from + CasesPerRig, first + count), progress) is { } what)
                {
                    Interlocked.CompareExchange(ref failure, what, null);
                }
            }

            progress.At = 0;
        }))
        { IsBackground = true };
        all.Start();
        int[] before = [];
        while (!all.Join(HangMs))
        {
            int[] now = [.. started.Select(static progress => progress.At)];
            int stuck = Array.Find(now, at => at > 0 && before.Contains(at));
            Assert.True(stuck == 0, $"Case {stuck} does not end: MILLRACE_FUZZ_FIRST={stuck} MILLRACE_FUZZ_CASES=1\n{Shown(stuck)}");
            before = now;
        }

        Assert.True(failure is null, failure);
    }

    private static string? RunBlock(int from, int to, Progress progress)
    {
        var rig = new ConnectionRig();
        for (int number = from; number < to; number++)
        {
            var made = new SpoiledCase((ulong)number);
            progress.At = number;
            if (rig.Run(made.IsHttp, made.Bytes, made.Cuts, made.End) is { } what)
            {
                return Explain(from, number, made, what);
            }
        }

        return null;
    }

    private static string Shown(int number)
    {
        var made = new SpoiledCase((ulong)number);
        return $"{(made.IsHttp ? "http" : "fastcgi")}, ends with {made.End}, cut at {string.Join(' ', made.Cuts.ToArray())}\n{Convert.ToHexString(made.Bytes)}\n{System.Text.Encoding.Latin1.GetString(made.Bytes)}";
    }

    private static string Explain(int from, int number, SpoiledCase made, string what)
    {
        var fresh = new ConnectionRig(traces: true);
        bool alone = fresh.Run(made.IsHttp, made.Bytes, made.Cuts, made.End) is not null;
        return string.Create(CultureInfo.InvariantCulture,
            $"Case {number}: {what}\n")
            + (alone ? "It fails alone." : $"It fails behind those from {from} on: MILLRACE_FUZZ_FIRST={from} MILLRACE_FUZZ_CASES={number - from + 1}.")
            + "\n" + Shown(number) + "\n" + fresh.Trace;
    }

    private static int Number(string variable, int otherwise) =>
        int.TryParse(Environment.GetEnvironmentVariable(variable), NumberStyles.None, CultureInfo.InvariantCulture, out int number) ? number : otherwise;
}
