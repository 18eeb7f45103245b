// What real front ends send, as it was recorded once (tests/traces): each trace whole, cut in two at every place, and one byte
// after the other. What comes of it is written beside the trace, so that a change is seen.
//
//   MILLRACE_APPROVE_TRACES=1    writes the outcomes instead of comparing them

using Millrace.Tests.Simulation;
using Millrace.Tests.Tidy;

namespace Millrace.Tests.Traces;

public sealed class TraceTests
{
    // Longer traces are cut at every k-th place, so that each takes about the same time.
    private const int CutsMax = 1_500;

    private static readonly string s_folder = Path.Combine(Repository.Root, "tests", "traces");

    public static TheoryData<string> Traces =>
        [.. Directory.EnumerateFiles(s_folder, "*.bin").Select(static path => Path.GetFileNameWithoutExtension(path)).Order(StringComparer.Ordinal)];

    [Theory]
    [MemberData(nameof(Traces))]
    public void Recorded_bytes_of_a_front_end_have_the_same_outcome_however_they_are_cut(string trace) => SimulationThread.Run(() =>
    {
        byte[] bytes = File.ReadAllBytes(Path.Combine(s_folder, trace + ".bin"));
        bool isFastCgi = IsFastCgi(trace);
        string whole = Replay.Of(isFastCgi, bytes);
        int stride = Math.Max(1, bytes.Length / CutsMax);
        for (int cut = 1; cut < bytes.Length; cut += stride)
        {
            string inTwo = Replay.Of(isFastCgi, bytes[..cut], bytes[cut..]);
            Assert.True(whole == inTwo, $"Cut at {cut}:\n{inTwo}\nWhole:\n{whole}");
        }

        Assert.Equal(whole, Replay.Bytewise(isFastCgi, bytes));
    });

    [Theory]
    [MemberData(nameof(Traces))]
    public void Recorded_bytes_of_a_front_end_have_the_outcome_that_was_approved(string trace) => SimulationThread.Run(() =>
    {
        string outcome = Replay.Of(IsFastCgi(trace), File.ReadAllBytes(Path.Combine(s_folder, trace + ".bin")));
        string path = Path.Combine(s_folder, trace + ".txt");
        if (Environment.GetEnvironmentVariable("MILLRACE_APPROVE_TRACES") == "1")
        {
            File.WriteAllText(path, outcome);
            return;
        }

        Assert.True(File.Exists(path), $"{path} is missing: MILLRACE_APPROVE_TRACES=1 ./check unit --filter TraceTests");
        Assert.Equal(File.ReadAllText(path), outcome);
    });

    [Fact]
    public void Each_outcome_belongs_to_a_trace()
    {
        string[] strays = [.. Directory.EnumerateFiles(s_folder, "*.txt").Where(static path => !File.Exists(Path.ChangeExtension(path, ".bin")))];
        Assert.Empty(strays);
    }

    // NAME-fastcgi-WHAT or NAME-http-WHAT.
    private static bool IsFastCgi(string trace) =>
        trace.Contains("-fastcgi-", StringComparison.Ordinal)
        || (trace.Contains("-http-", StringComparison.Ordinal) ? false : throw new InvalidDataException($"{trace} does not say its protocol."));
}
