// The fast readers against the plain ones, and against themselves cut elsewhere, on spoiled requests. MILLRACE_FUZZ_CASES sets the number of cases.

using System.Globalization;
using Millrace.Protocols.Http1;

namespace Millrace.Tests.Protocols.Http1;

public sealed class Http1DifferentialTests
{
    private const int CasesByDefault = 50_000;
    private const int CasesPerSeed = 250;

    [Fact]
    public void Fast_and_plain_readers_agree_on_spoiled_requests_wherever_they_are_cut()
    {
        string? asked = Environment.GetEnvironmentVariable("MILLRACE_FUZZ_CASES");
        int cases = asked is null ? CasesByDefault : int.Parse(asked, CultureInfo.InvariantCulture);
        int done = 0;
        int read = 0;
        Parallel.For(0, (cases + CasesPerSeed - 1) / CasesPerSeed, seed =>
        {
            (int all, int good) = RunSeed(seed);
            Interlocked.Add(ref done, all);
            Interlocked.Add(ref read, good);
        });

        // A run in which everything is refused would prove little.
        Assert.True(done >= cases && read > done / 20, $"{done} cases, {read} of them read to the end");
    }

    private static (int All, int Good) RunSeed(int seed)
    {
        var mutator = new Http1Mutator(seed);
        var reader = new MessageReading();
        int good = 0;
        for (int i = 0; i < CasesPerSeed; i++)
        {
            byte[] bytes = mutator.Next();
            var limits = new Http1Limits();
            if (i % 8 == 0)
            {
                limits = new Http1Limits { RequestLineMax = 40, HeaderBytesMax = 120, HeaderCountMax = 4 };
            }

            List<int> cuts = mutator.Cuts(bytes.Length);
            Reading whole = reader.Read(bytes, limits, []);
            Reading plain = MessageReading.ReadPlainly(bytes, limits);
            if (whole.Status != plain.Status || !whole.Facts.SequenceEqual(plain.Facts))
            {
                Assert.Fail($"seed {seed} case {i}: {EscapedBytes.Format(bytes)}\nfast: {whole}\nplain: {plain}");
            }

            Reading cut = reader.Read(bytes, limits, cuts);
            if (whole.ToString() != cut.ToString())
            {
                Assert.Fail($"seed {seed} case {i}, cut at {string.Join(',', cuts)}: {EscapedBytes.Format(bytes)}\nwhole: {whole}\ncut: {cut}");
            }

            good += whole.Status == 200 ? 1 : 0;
        }

        return (CasesPerSeed, good);
    }
}
