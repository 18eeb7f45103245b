// A table of many fields: found and removed by name as in a short one, at a cost for each that does not grow with their number.

using System.Diagnostics;
using System.Globalization;
using Microsoft.Extensions.Primitives;
using Millrace.Exchanges;

namespace Millrace.Tests.Exchanges;

public sealed class HeaderTableTests
{
    [Theory]
    [InlineData(HeaderTable.ShortMax)]
    [InlineData(HeaderTable.ShortMax + 1)]
    [InlineData(500)]
    public void Fields_are_found_replaced_and_removed_in_any_case(int count)
    {
        HeaderTable table = Filled(count);
        Assert.Equal(count, table.Count);
        for (int i = 0; i < count; i++)
        {
            Assert.Equal($"v{i}", table[Name(i).ToLowerInvariant()]);
        }

        Assert.False(table.ContainsKey(Name(count)));
        table[Name(0)] = "other";
        Assert.True(table.Remove(Name(count / 2).ToUpperInvariant()));
        Assert.False(table.Remove(Name(count / 2)));
        Assert.Equal("other", table[Name(0)]);
        Assert.Equal($"v{count - 1}", table[Name(count - 1)]);
        Assert.Equal(count - 1, table.Count);
        table[Name(count / 2)] = "again";
        Assert.Equal(Name(count / 2), table.Keys.Last());
        table.Clear();
        Assert.Empty(table);
        Assert.Equal(StringValues.Empty, table[Name(0)]);
    }

    [Fact]
    public void Names_of_one_length_and_beginning_cost_no_more_each_than_a_quarter_of_them()
    {
        Assert.InRange(Measure(4_000) / Measure(1_000), 0, 9);     // 4 where each costs the same, 16 where each is compared with all others
    }

    private static double Measure(int count)
    {
        double best = double.MaxValue;
        for (int i = 0; i < 15; i++)
        {
            long begun = Stopwatch.GetTimestamp();
            _ = Filled(count);
            best = Math.Min(best, Stopwatch.GetElapsedTime(begun).TotalMicroseconds);
        }

        return best;
    }

    private static HeaderTable Filled(int count)
    {
        var table = new HeaderTable();
        for (int i = 0; i < count; i++)
        {
            table[Name(i)] = $"v{i}";
        }

        return table;
    }

    private static string Name(int i) => string.Create(CultureInfo.InvariantCulture, $"X-The-Same-Beginning-Of-All-{i:D6}");
}
