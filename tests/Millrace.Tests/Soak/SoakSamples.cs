// What the process holds in the course of a soak, and whether it grows from the first quarter of it to the last.

using System.Globalization;

namespace Millrace.Tests.Soak;

internal readonly record struct SoakSample(double HeapMb, double ResidentMb, int Descriptors, int Threads)
{
    /// <summary>Managed bytes in use after a full collection, resident pages, descriptors of any kind, threads of any kind.</summary>
    public static SoakSample Take()
    {
        long heap = GC.GetTotalMemory(forceFullCollection: true);
        long pages = long.Parse(File.ReadAllText("/proc/self/statm").Split(' ')[1], CultureInfo.InvariantCulture);
        return new SoakSample(
            heap / 1048576.0,
            pages * (double)Environment.SystemPageSize / 1048576.0,
            Directory.GetFiles("/proc/self/fd").Length,
            Directory.GetDirectories("/proc/self/task").Length);
    }
}

internal sealed class SoakSamples
{
    private readonly List<SoakSample> _all = [];

    public int Count => _all.Count;

    public void Add(SoakSample sample) => _all.Add(sample);

    /// <summary>The quarters' medians as text, first and last.</summary>
    public string Summary => string.Create(CultureInfo.InvariantCulture, $"first quarter {Text(First)}; last quarter {Text(Last)}");

    /// <summary>What has grown by more than its noise; null when nothing has. Threads come and go with the handlers that block.</summary>
    public string? Growth
    {
        get
        {
            (SoakSample first, SoakSample last) = (First, Last);
            return last.HeapMb > (first.HeapMb * 1.1) + 3 ? "the live heap"
                : last.ResidentMb > (first.ResidentMb * 1.15) + 24 ? "resident memory"
                : last.Descriptors > first.Descriptors + 40 ? "descriptors"
                : last.Threads > (first.Threads * 1.1) + 16 ? "threads"
                : null;
        }
    }

    private SoakSample First => Median(_all[..Math.Max(1, _all.Count / 4)]);

    private SoakSample Last => Median(_all[^Math.Max(1, _all.Count / 4)..]);

    private static SoakSample Median(List<SoakSample> samples) => new(
        samples.Select(static s => s.HeapMb).Order().ElementAt(samples.Count / 2),
        samples.Select(static s => s.ResidentMb).Order().ElementAt(samples.Count / 2),
        samples.Select(static s => s.Descriptors).Order().ElementAt(samples.Count / 2),
        samples.Select(static s => s.Threads).Order().ElementAt(samples.Count / 2));

    private static string Text(SoakSample sample) => string.Create(CultureInfo.InvariantCulture,
        $"heap {sample.HeapMb:F1} MB, resident {sample.ResidentMb:F0} MB, {sample.Descriptors} descriptors, {sample.Threads} threads");
}
