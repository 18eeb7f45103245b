namespace Millrace.Workers.Tests;

public sealed class LatencyHistogramTests
{
    [Fact]
    public void Nothing_is_zero()
    {
        var empty = new LatencyHistogram();
        Assert.Equal((0, 0, 0), (empty.Count, empty.Mean, empty.Percentile(0.99)));
    }

    [Fact]
    public void A_percentile_is_at_most_an_eighth_too_large_and_never_too_small()
    {
        foreach (long value in (long[])[0, 1, 7, 8, 9, 15, 16, 17, 100, 1_000, 12_345, 1L << 40, (1L << 40) + 12_345, long.MaxValue / 2])
        {
            var one = new LatencyHistogram();
            one.Add(value);
            Assert.InRange(one.Percentile(0.99), value, value + (value / 8));
            Assert.Equal(value, one.Mean);
        }
    }

    [Fact]
    public void It_is_the_value_that_so_many_are_not_above()
    {
        var all = new LatencyHistogram();
        for (int i = 1; i <= 1_000; i++)
        {
            all.Add(i);
        }
        Assert.InRange(all.Percentile(0.5), 500, 562);
        Assert.InRange(all.Percentile(0.99), 990, 1_113);
        Assert.InRange(all.Percentile(1), 1_000, 1_125);
        Assert.Equal(500, all.Mean);
    }
}
