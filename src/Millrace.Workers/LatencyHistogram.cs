// How long calls took: counts by size, eight steps for each power of two, so that a percentile is at most an eighth too large. One thread writes, any reads.

using System.Numerics;

namespace Millrace.Workers;

internal sealed class LatencyHistogram
{
    private const int StepBits = 3;
    private const int Steps = 1 << StepBits;

    private readonly int[] _counts = new int[(64 - StepBits + 1) * Steps];
    private long _count;
    private long _sum;

    public long Count => Volatile.Read(ref _count);

    /// <summary>Units per value, rounded down; 0 where there is none.</summary>
    public long Mean => Count == 0 ? 0 : Volatile.Read(ref _sum) / Count;

    /// <param name="value">Not negative.</param>
    public void Add(long value)
    {
        _counts[IndexOf(value)]++;
        _sum += value;
        Volatile.Write(ref _count, _count + 1);
    }

    /// <summary>The upper end of the step that holds the value which this part of all are not above; 0 where there is none.</summary>
    public long Percentile(double part)
    {
        long rank = (long)Math.Ceiling(Count * part);
        for (int i = 0; i < _counts.Length && rank > 0; i++)
        {
            rank -= Volatile.Read(ref _counts[i]);
            if (rank <= 0)
            {
                return UpperEnd(i);
            }
        }
        return 0;
    }

    // Values below 8 have a step each; above, the three bits behind the highest one choose the step.
    private static int IndexOf(long value)
    {
        int log = 63 - BitOperations.LeadingZeroCount((ulong)value | 1);
        return log < StepBits ? (int)value : ((log - StepBits + 1) << StepBits) + (int)((value >> (log - StepBits)) & (Steps - 1));
    }

    private static long UpperEnd(int index)
    {
        int shift = (index >> StepBits) - 1;
        return shift < 0 ? index : ((Steps + (long)(index & (Steps - 1)) + 1) << shift) - 1;
    }
}
