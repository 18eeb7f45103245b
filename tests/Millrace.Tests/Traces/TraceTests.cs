// What real front ends send, as it was recorded once (tests/traces): each trace whole, cut in two at every place, and one byte
// after the other. What comes of it is written beside the trace, so that a change is seen.
//
//   MILLRACE_APPROVE_TRACES=1    writes the outcomes instead of comparing them

using System.Buffers.Binary;
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
        string whole = Replay.Of(isFastCgi, Requests(isFastCgi, bytes));
        int stride = Math.Max(1, bytes.Length / CutsMax);
        for (int cut = 1; cut < bytes.Length; cut += stride)
        {
            string inTwo = Replay.Of(isFastCgi, CutAt(cut, Requests(isFastCgi, bytes)));
            Assert.True(whole == inTwo, $"Cut at {cut}:\n{inTwo}\nWhole:\n{whole}");
        }

        Assert.Equal(whole, Replay.Bytewise(isFastCgi, bytes));
    });

    [Theory]
    [MemberData(nameof(Traces))]
    public void Recorded_bytes_of_a_front_end_have_the_outcome_that_was_approved(string trace) => SimulationThread.Run(() =>
    {
        bool isFastCgi = IsFastCgi(trace);
        string outcome = Replay.Of(isFastCgi, Requests(isFastCgi, File.ReadAllBytes(Path.Combine(s_folder, trace + ".bin"))));
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

    // A front end begins its next request when it has the answer to the one before: FastCGI is cut in front of each
    // BEGIN_REQUEST but the first. (What comes too early, under another id, would be refused.)
    private static byte[][] Requests(bool isFastCgi, byte[] bytes)
    {
        if (!isFastCgi)
        {
            return [bytes];
        }

        var requests = new List<byte[]>();
        int start = 0;
        bool hasBegun = false;
        for (int at = 0; at + 8 <= bytes.Length; at += 8 + BinaryPrimitives.ReadUInt16BigEndian(bytes.AsSpan(at + 4)) + bytes[at + 6])
        {
            if (bytes[at + 1] != Wire.Begin)
            {
                continue;
            }

            if (hasBegun)
            {
                requests.Add(bytes[start..at]);
                start = at;
            }

            hasBegun = true;
        }

        requests.Add(bytes[start..]);
        return [.. requests];
    }

    private static byte[][] CutAt(int cut, byte[][] requests)
    {
        var parts = new List<byte[]>();
        foreach (byte[] request in requests)
        {
            if (cut > 0 && cut < request.Length)
            {
                parts.Add(request[..cut]);
                parts.Add(request[cut..]);
            }
            else
            {
                parts.Add(request);
            }

            cut -= request.Length;
        }

        return [.. parts];
    }

    // NAME-fastcgi-WHAT or NAME-http-WHAT.
    private static bool IsFastCgi(string trace) =>
        trace.Contains("-fastcgi-", StringComparison.Ordinal)
        || (trace.Contains("-http-", StringComparison.Ordinal) ? false : throw new InvalidDataException($"{trace} does not say its protocol."));
}
