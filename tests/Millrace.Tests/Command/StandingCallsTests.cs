// A daemon that cannot become another program, since one of its threads may never come back.

using Millrace.Command.Serving;
using Millrace.Platform;

namespace Millrace.Tests.Command;

public sealed class StandingCallsTests
{
    private static readonly TimeSpan s_short = TimeSpan.FromMilliseconds(300);

    [Fact]
    public async Task Those_that_wait_all_the_time_are_said_each_place_once()
    {
        var standing = new Dictionary<long, string> { [17] = "/srv/shop", [4] = "what blog has sent", [18] = "/srv/shop" };
        string? why = await StandingCalls.WhyNotAsync(s_short, () => standing);
        Assert.StartsWith("3 of the daemon's threads wait for a file system or a device that has not answered yet: /srv/shop, what blog has sent. ", why, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Those_that_come_back_are_waited_for()
    {
        int looks = 0;
        Assert.Null(await StandingCalls.WhyNotAsync(TimeSpan.FromSeconds(20), () => ++looks < 3 ? new Dictionary<long, string> { [4] = "/srv/shop" } : []));
        Assert.Equal(3, looks);
    }

    // The next may be the one that does not come back.
    [Fact]
    public async Task Others_behind_them_are_as_good()
    {
        int looks = 0;
        Assert.NotNull(await StandingCalls.WhyNotAsync(s_short, () => new Dictionary<long, string> { [++looks] = "/srv/shop" }));
        Assert.True(looks > 3);
    }

    [Fact]
    public async Task A_look_is_one_until_it_has_ended()
    {
        string place = "/srv/" + nameof(A_look_is_one_until_it_has_ended);
        using var answers = new ManualResetEventSlim();
        var look = new PatientLook(s_short);
        await Assert.ThrowsAsync<StandstillException>(() => look.AtAsync(place, () => answers.Wait(TimeSpan.FromMinutes(1)), CancellationToken.None));
        Assert.Contains(place, ForeignCalls.UnderWay.Values);
        answers.Set();
        Assert.True(SpinWait.SpinUntil(() => !ForeignCalls.UnderWay.Values.Contains(place), TimeSpan.FromSeconds(20)));
    }
}
