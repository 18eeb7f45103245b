// How fast a body arrives, where the loop looks late: a process that was stopped, or a machine that slept, may find bytes that are younger than its last look by a day.

using Millrace.Connections;
using Millrace.Exchanges;

namespace Millrace.Tests.Loops;

public sealed class BodyPaceTests
{
    private const long Day = 24 * 3_600_000;
    private static readonly TimeSpan s_silence = TimeSpan.FromSeconds(60);

    [Theory]
    [InlineData(1_000)]
    [InlineData(Day)]
    public void Silence_counts_from_the_look_behind_the_last_bytes_however_long_nobody_had_looked(long sinceLook)
    {
        var pace = default(BodyPace);
        pace.Begin(1_000, isPaused: false);
        long now = 1_000 + sinceLook;
        pace.NoteBytes(now);
        pace.Look(now, isAwaited: false);

        pace.Look(now + 60_000, isAwaited: true);
        Assert.False(pace.IsTooSlow(now + 60_000, 1, s_silence, rate: null, inBlocks: false));
        Assert.True(pace.IsTooSlow(now + 60_001, 1, s_silence, rate: null, inBlocks: false));
    }

    [Fact]
    public void Time_in_which_the_handler_waits_for_nothing_is_no_silence()
    {
        var pace = default(BodyPace);
        pace.Begin(1_000, isPaused: false);
        pace.NoteBytes(2_000);
        pace.Look(4_000, isAwaited: true);
        pace.Look(4_000 + Day, isAwaited: false);

        Assert.False(pace.IsTooSlow(4_000 + Day + 58_000, 1, s_silence, rate: null, inBlocks: false));
        Assert.True(pace.IsTooSlow(4_000 + Day + 58_001, 1, s_silence, rate: null, inBlocks: false));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void The_rate_is_that_of_the_time_in_which_the_handler_waited(bool inBlocks)
    {
        var rate = new MinRate(1_000, TimeSpan.FromSeconds(5));
        var pace = default(BodyPace);
        pace.Begin(0, isPaused: false);
        pace.Look(Day, isAwaited: false);
        pace.NoteBytes(Day + 10_000);
        pace.Look(Day + 10_000, isAwaited: true);

        Assert.False(pace.IsTooSlow(Day + 10_000, 10_000, s_silence, rate, inBlocks));
        Assert.True(pace.IsTooSlow(Day + 10_000, 9_999, s_silence, rate, inBlocks));
    }
}
