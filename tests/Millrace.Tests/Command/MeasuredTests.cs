// What a process says of its requests, as the daemon reads it: it may be anybody's program.

using Millrace.Command.Serving;

namespace Millrace.Tests.Command;

public sealed class MeasuredTests
{
    [Fact]
    public void Counts_and_durations_are_read()
    {
        Measured measured = Measured.Read("1200 3 0:1 255:2")!;

        Assert.Equal((new RequestCount(1200, 3), 1L, 2L, 3L), (measured.Count, measured.Durations[0], measured.Durations[255], measured.Durations.Sum()));
        Assert.All(Measured.Read("1 0")!.Durations, static count => Assert.Equal(0, count));
    }

    [Theory]
    [InlineData("")]
    [InlineData("1")]
    [InlineData("1 0 256:1")]
    [InlineData("1 0 -1:1")]
    [InlineData("1 0 1:-1")]
    [InlineData("1 0 1")]
    [InlineData("1 0 1:1:1")]
    [InlineData("1 0 1:99999999999999999999")]
    [InlineData("x 0 1:1")]
    public void What_makes_no_sense_is_no_answer(string text) => Assert.Null(Measured.Read(text));

    [Fact]
    public void A_percentile_is_the_duration_of_that_request()
    {
        long[] durations = new long[Measured.Buckets];
        Assert.Null(Measured.Percentile(durations, 0.5));

        durations[80] = 98;      // 2^10 microseconds and a little more
        durations[160] = 2;      // 2^20
        Assert.InRange(Measured.Percentile(durations, 0.5)!.Value, 1.024, 1.12);
        Assert.InRange(Measured.Percentile(durations, 0.98)!.Value, 1.024, 1.12);
        Assert.InRange(Measured.Percentile(durations, 0.99)!.Value, 1_048, 1_145);
        durations[255] = long.MaxValue;
        durations[254] = long.MaxValue;
        Assert.NotNull(Measured.Percentile(durations, 0.99));
    }
}
