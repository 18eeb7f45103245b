// Runs random cases in numbers: every case comes from a seed and its place behind it, so that a failure is repeated by these two.
// In the long run MILLRACE_FUZZ_CASES is the number of cases, MILLRACE_FUZZ_FIRST the first seed.

using System.Globalization;
using Millrace.Tests.Protocols.Http1;

namespace Millrace.Tests.Protocols.Fuzz;

/// <summary>The cases of one seed, made and judged one after the other.</summary>
internal abstract class FuzzTarget
{
    /// <summary>Makes the next case and answers its bytes, which a failure shows.</summary>
    public abstract byte[] Next(int index);

    /// <summary>Throws when anything disagrees. True when the bytes were read to the end and not refused.</summary>
    public abstract bool Judge(byte[] bytes);
}

internal static class FuzzRun
{
    public const string Category = "Fuzz";

    private const int ShortRun = 50_000;
    private const int LongRun = 1_000_000;
    private const int CasesPerSeed = 250;

    /// <summary>The same cases every time.</summary>
    public static void Short(Func<int, FuzzTarget> begin) => Run(begin, 0, ShortRun);

    /// <summary>As many as asked for, other ones by default.</summary>
    public static void Long(Func<int, FuzzTarget> begin) => Run(begin, Number("MILLRACE_FUZZ_FIRST", ShortRun / CasesPerSeed), Number("MILLRACE_FUZZ_CASES", LongRun));

    private static void Run(Func<int, FuzzTarget> begin, int first, int cases)
    {
        int read = 0;
        string? failure = null;
        int seeds = (cases + CasesPerSeed - 1) / CasesPerSeed;
        _ = Parallel.For(first, first + seeds, (seed, loop) =>
        {
            string? found = RunSeed(begin(seed), seed, ref read);
            if (found is not null && Interlocked.CompareExchange(ref failure, found, null) is null)
            {
                loop.Stop();
            }
        });

        Assert.True(failure is null, failure);

        // A run in which everything is refused would prove little.
        Assert.True(read > seeds * CasesPerSeed / 20, $"{cases} cases, {read} of them read to the end");
    }

    private static string? RunSeed(FuzzTarget target, int seed, ref int read)
    {
        byte[] bytes = [];
        int good = 0;
        for (int i = 0; i < CasesPerSeed; i++)
        {
            try
            {
                bytes = target.Next(i);
                good += target.Judge(bytes) ? 1 : 0;
            }
            catch (Exception error)
            {
                return $"seed {seed}, case {i}: {EscapedBytes.Format(bytes)}\n{error}\nAgain: MILLRACE_FUZZ_FIRST={seed} MILLRACE_FUZZ_CASES={CasesPerSeed} ./check fuzz";
            }
        }

        Interlocked.Add(ref read, good);
        return null;
    }

    private static int Number(string variable, int otherwise) =>
        Environment.GetEnvironmentVariable(variable) is { Length: > 0 } text ? int.Parse(text, CultureInfo.InvariantCulture) : otherwise;
}
