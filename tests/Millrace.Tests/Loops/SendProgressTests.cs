// What is known of a peer that does not take what is sent to it: how much is left in the socket, and when that was looked at.

using Millrace.Connections;
using Millrace.Exchanges;

namespace Millrace.Tests.Loops;

public sealed class SendProgressTests
{
    private const long Silence = 60_000;
    private static readonly MinRate s_rate = new(1_000, TimeSpan.FromSeconds(5));

    [Fact]
    public void A_peer_that_takes_nothing_is_silent_when_its_time_is_over()
    {
        var progress = default(SendProgress);
        progress.Begin(1_000, 50_000);

        Assert.Equal(PeerPace.Fair, progress.Look(1_000 + Silence - 1, 1_000 + Silence - 1, 50_000, Silence, null));
        Assert.Equal(PeerPace.Silent, progress.Look(1_000 + Silence, 1_000 + Silence, 50_000, Silence, null));
    }

    [Fact]
    public void A_byte_that_it_takes_begins_its_time_anew()
    {
        var progress = default(SendProgress);
        progress.Begin(0, 50_000);
        Assert.Equal(PeerPace.Fair, progress.Look(Silence - 1, Silence - 1, 49_999, Silence, null));

        Assert.Equal(PeerPace.Fair, progress.Look((2 * Silence) - 2, (2 * Silence) - 2, 49_999, Silence, null));
        Assert.Equal(PeerPace.Silent, progress.Look((2 * Silence) - 1, (2 * Silence) - 1, 49_999, Silence, null));
    }

    [Fact]
    public void One_that_is_too_slow_for_longer_than_the_grace_is_told_so()
    {
        var progress = default(SendProgress);
        progress.Begin(0, 50_000);

        Assert.Equal(PeerPace.Fair, progress.Look(10_000, 10_000, 49_000, Silence, s_rate));
        Assert.Equal(PeerPace.Fair, progress.Look(14_999, 14_999, 48_000, Silence, s_rate));
        Assert.Equal(PeerPace.TooSlow, progress.Look(15_000, 15_000, 47_000, Silence, s_rate));
    }

    [Fact]
    public void One_that_has_caught_up_has_its_whole_grace_again()
    {
        var progress = default(SendProgress);
        progress.Begin(0, 50_000);
        Assert.Equal(PeerPace.Fair, progress.Look(10_000, 10_000, 49_000, Silence, s_rate));
        Assert.Equal(PeerPace.Fair, progress.Look(11_000, 11_000, 30_000, Silence, s_rate));      // 20,000 bytes in 11 s

        Assert.Equal(PeerPace.Fair, progress.Look(21_000, 21_000, 29_500, Silence, s_rate));      // 20,500 in 21 s: too few again, since now
        Assert.Equal(PeerPace.Fair, progress.Look(25_999, 25_999, 29_400, Silence, s_rate));
        Assert.Equal(PeerPace.TooSlow, progress.Look(26_000, 26_000, 29_300, Silence, s_rate));
    }

    [Fact]
    public void Looks_come_once_a_second_and_when_its_time_is_over()
    {
        var progress = default(SendProgress);
        progress.Begin(0, 50_000);

        Assert.Equal(1_000, progress.NextLookMs(0, Silence));
        Assert.Equal(Silence, progress.NextLookMs(Silence - 300, Silence));
        Assert.Equal(Silence + 1, progress.NextLookMs(Silence, Silence));
    }

    [Theory]
    [InlineData(2_000)]
    [InlineData(600_000)]
    public void Silence_counts_from_the_look_that_found_that_the_peer_had_taken_something_however_old_the_time_of_the_turn_SendTimeout(long late)
    {
        var progress = default(SendProgress);
        progress.Begin(0, 50_000);
        Assert.Equal(PeerPace.Fair, progress.Look(1_000, 1_000 + late, 49_999, Silence, rate: null));
        Assert.Equal(1_000 + late, progress.TakenAtMs);
        long nowMs = late + Silence;
        Assert.Equal(PeerPace.Fair, progress.Look(nowMs, nowMs, 49_999, Silence, rate: null));
        nowMs += 1_000;
        Assert.Equal(PeerPace.Silent, progress.Look(nowMs, nowMs, 49_999, Silence, rate: null));
    }

    // It may have taken something since: everybody is heard before anybody is judged.
    [Fact]
    public void A_peer_is_not_silent_before_the_time_is_over_by_which_it_is_judged_SendTimeout()
    {
        var progress = default(SendProgress);
        progress.Begin(0, 50_000);
        Assert.Equal(PeerPace.Fair, progress.Look(Silence - 1, 10 * Silence, 50_000, Silence, rate: null));
        Assert.Equal(PeerPace.Silent, progress.Look(Silence, 10 * Silence, 50_000, Silence, rate: null));
    }
}
