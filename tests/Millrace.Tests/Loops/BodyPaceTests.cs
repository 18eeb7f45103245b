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
        pace.NoteBytes(now, awaitedSinceMs: -1);
        pace.Look(now, awaitedSinceMs: -1);

        pace.Look(now + 60_000, awaitedSinceMs: 0);
        Assert.False(pace.IsTooSlow(now + 60_000, 1, s_silence, rate: null, inBlocks: false));
        Assert.True(pace.IsTooSlow(now + 60_001, 1, s_silence, rate: null, inBlocks: false));
    }

    [Fact]
    public void Time_in_which_the_handler_waits_for_nothing_is_no_silence()
    {
        var pace = default(BodyPace);
        pace.Begin(1_000, isPaused: false);
        pace.NoteBytes(2_000, awaitedSinceMs: 0);
        pace.Look(4_000, awaitedSinceMs: 0);
        pace.Look(4_000 + Day, awaitedSinceMs: -1);

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
        pace.Look(Day, awaitedSinceMs: -1);
        for (long second = 1; second <= 10; second++)
        {
            pace.Look(Day + (second * 1_000), awaitedSinceMs: 0);
        }

        pace.NoteBytes(Day + 10_000, awaitedSinceMs: 0);

        Assert.False(pace.IsTooSlow(Day + 10_000, 10_000, s_silence, rate, inBlocks));
        Assert.True(pace.IsTooSlow(Day + 10_000, 9_999, s_silence, rate, inBlocks));
    }

    // A byte just before each look, on which the handler works for a moment: the silence before it was waited for.
    [Fact]
    public void Who_sends_a_byte_before_each_look_is_too_slow_although_nobody_waits_at_the_look()
    {
        var rate = new MinRate(240, TimeSpan.FromSeconds(5));
        var pace = default(BodyPace);
        pace.Begin(0, isPaused: false);
        int bytes = 0;
        for (long look = 1_000; look <= 6_000; look += 1_000)
        {
            Assert.False(pace.IsTooSlow(look - 1_000, bytes, s_silence, rate, inBlocks: false));
            pace.NoteBytes(look - 10, awaitedSinceMs: look - 990);
            bytes++;
            pace.Look(look, awaitedSinceMs: -1);
        }

        Assert.True(pace.IsTooSlow(6_000, bytes, s_silence, rate, inBlocks: false));
    }

    // The process was stopped: the peer has sent what the socket held, and no more was possible. That it has been silent since its last byte counts all the same.
    [Fact]
    public void Time_in_which_nobody_looked_is_not_that_of_a_rate()
    {
        var rate = new MinRate(240, TimeSpan.FromSeconds(5));
        var pace = default(BodyPace);
        pace.Begin(0, isPaused: false);
        for (long second = 1; second <= 30; second++)
        {
            pace.NoteBytes(second * 1_000, awaitedSinceMs: 0);
        }

        pace.NoteBytes(30_000 + (20 * 60_000), awaitedSinceMs: 0);

        Assert.False(pace.IsTooSlow(30_000 + (20 * 60_000), 600 * 30, s_silence, rate, inBlocks: false));
        Assert.True(pace.IsTooSlow(30_000 + (20 * 60_000) + 60_001, 600 * 30, s_silence, rate, inBlocks: false));
    }

    [Fact]
    public void A_look_of_a_turn_that_began_before_the_bytes_changes_nothing()
    {
        var pace = default(BodyPace);
        pace.Begin(1_000, isPaused: false);
        pace.NoteBytes(91_000, awaitedSinceMs: 0);
        pace.Look(1_500, awaitedSinceMs: -1);
        pace.Look(91_500, awaitedSinceMs: 0);

        Assert.False(pace.IsTooSlow(95_000, 1_500, s_silence, new MinRate(240, TimeSpan.FromSeconds(5)), inBlocks: false));
        Assert.False(pace.IsTooSlow(151_000, 1, s_silence, rate: null, inBlocks: false));
        Assert.True(pace.IsTooSlow(151_001, 1, s_silence, rate: null, inBlocks: false));
    }

    // A conversation: the peer answers at once, and the handler takes its time for each answer.
    [Fact]
    public void Only_what_the_handler_has_waited_counts_and_not_what_it_has_worked()
    {
        var rate = new MinRate(240, TimeSpan.FromSeconds(5));
        var pace = default(BodyPace);
        pace.Begin(0, isPaused: false);
        for (long cycle = 1; cycle <= 100; cycle++)
        {
            long now = cycle * 950;
            pace.NoteBytes(now, awaitedSinceMs: now - 50);
            pace.Look(now + 475, awaitedSinceMs: -1);
            Assert.False(pace.IsTooSlow(now + 475, cycle * 100, s_silence, rate, inBlocks: false));
        }

        long end = 100 * 950;
        Assert.False(pace.IsTooSlow(end + 475, 100 * 50 * 240 / 1000 + 500, s_silence, rate, inBlocks: false));
    }
}
