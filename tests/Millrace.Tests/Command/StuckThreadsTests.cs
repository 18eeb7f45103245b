// A daemon that cannot become another program, since one of its threads never comes back.

using Millrace.Command.Serving;

namespace Millrace.Tests.Command;

public sealed class StuckThreadsTests
{
    private static readonly TimeSpan s_short = TimeSpan.FromMilliseconds(300);

    [Theory]
    [InlineData("12 (foreign descrip) D 1 12 12", true)]
    [InlineData("12 (a) D) S 1 12 12", false)]
    [InlineData("12 (a) S) D 1 12 12", true)]
    [InlineData("12 (.NET TP Worker) R 1", false)]
    [InlineData("12 (", false)]
    [InlineData("12 (a)", false)]
    [InlineData("", false)]
    public void A_thread_that_nothing_ends_is_in_state_D_whatever_it_is_called(string stat, bool isStuck) => Assert.Equal(isStuck, StuckThreads.IsWaiting(stat));

    [Fact]
    public async Task One_that_waits_all_the_time_is_said()
    {
        string? why = await StuckThreads.WhyNotAsync(static () => ["17", "4"], s_short);
        Assert.StartsWith("2 of the daemon's threads wait for a file system or a device that does not answer, ", why, StringComparison.Ordinal);
        Assert.Contains("/task/17, 4/stat", why, StringComparison.Ordinal);
    }

    // A disk that is busy has another one wait each time.
    [Fact]
    public async Task Those_that_come_back_are_waited_for()
    {
        int looks = 0;
        Assert.Null(await StuckThreads.WhyNotAsync(() => ++looks < 3 ? ["4", "17"] : ["17" + looks], TimeSpan.FromSeconds(20)));
        Assert.Equal(3, looks);
    }

    [Fact]
    public async Task This_process_has_none() => Assert.Null(await StuckThreads.WhyNotAsync());
}
