// Whether a peer takes what is sent to it, where the loop looks late: what it has taken is asked for now, whatever time it is judged by.

using Millrace.Connections;

namespace Millrace.Tests.Loops;

public sealed class SendProgressTests
{
    private const long SilenceMs = 60_000;
    private const int Unsent = 100_000;

    [Theory]
    [InlineData(2_000)]
    [InlineData(600_000)]
    public void Silence_counts_from_the_look_that_found_that_the_peer_had_taken_something_however_old_the_time_of_the_turn_SendTimeout(long late)
    {
        var progress = default(SendProgress);
        progress.Begin(0, Unsent);
        Assert.Equal(PeerPace.Fair, progress.Look(1_000, 1_000 + late, Unsent - 1, SilenceMs, rate: null));
        Assert.Equal(1_000 + late, progress.TakenAtMs);
        long nowMs = late + SilenceMs;
        Assert.Equal(PeerPace.Fair, progress.Look(nowMs, nowMs, Unsent - 1, SilenceMs, rate: null));
        nowMs += 1_000;
        Assert.Equal(PeerPace.Silent, progress.Look(nowMs, nowMs, Unsent - 1, SilenceMs, rate: null));
    }

    // It may have taken something since: everybody is heard before anybody is judged.
    [Fact]
    public void A_peer_is_not_silent_before_the_time_is_over_by_which_it_is_judged_SendTimeout()
    {
        var progress = default(SendProgress);
        progress.Begin(0, Unsent);
        Assert.Equal(PeerPace.Fair, progress.Look(SilenceMs - 1, 10 * SilenceMs, Unsent, SilenceMs, rate: null));
        Assert.Equal(PeerPace.Silent, progress.Look(SilenceMs, 10 * SilenceMs, Unsent, SilenceMs, rate: null));
    }
}
