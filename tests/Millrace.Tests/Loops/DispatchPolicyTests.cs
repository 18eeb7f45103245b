// When handlers leave the loop for worker threads, and when they come back.

using Millrace.Loops;

namespace Millrace.Tests.Loops;

public sealed class DispatchPolicyTests
{
    [Fact]
    public void Workers_mode_never_runs_a_handler_on_the_loop()
    {
        var policy = new DispatchPolicy(DispatchMode.Workers);
        Assert.True(policy.UsesWorkers(0));
        Assert.All(Enumerable.Range(0, 1_000), i => Assert.False(policy.RunsInline(i)));
    }

    [Fact]
    public void Inline_mode_stays_on_the_loop_however_often_it_is_handed_over()
    {
        var policy = new DispatchPolicy(DispatchMode.Inline);
        for (int i = 0; i < 1_000; i++)
        {
            policy.HandedOver();
            Assert.True(policy.RunsInline(i));
        }

        Assert.False(policy.UsesWorkers(0));
    }

    // Hand-overs evenly among the calls, so many of each sample: one fewer than the verdict takes, and as many.
    [Theory]
    [InlineData(DispatchPolicy.SampleHandOvers - 1, false)]
    [InlineData(DispatchPolicy.SampleHandOvers, true)]
    public void Eight_hand_overs_in_four_hundred_calls_bring_the_verdict(int handOvers, bool expected)
    {
        var policy = new DispatchPolicy(DispatchMode.Adaptive);
        for (int i = 0; i < 5 * DispatchPolicy.SampleCalls && policy.RunsInline(0); i++)
        {
            const int Every = DispatchPolicy.SampleCalls / DispatchPolicy.SampleHandOvers;
            int place = i % DispatchPolicy.SampleCalls;
            if (place % Every == Every - 2 && place / Every < handOvers)
            {
                policy.HandedOver();
            }
        }

        Assert.Equal(expected, policy.UsesWorkers(0));
    }

    // The call that is judged counts: the third hand-over among 28 calls is seen at the 29th, among 29 at the 30th.
    [Theory]
    [InlineData(28, true)]
    [InlineData(29, false)]
    public void Three_hand_overs_bring_the_verdict_where_they_are_more_than_one_in_ten(int calls, bool expected)
    {
        var policy = new DispatchPolicy(DispatchMode.Adaptive);
        HandOverAmong(policy, calls, now: 0);
        Assert.Equal(expected, !policy.RunsInline(0));
    }

    [Theory]
    [InlineData(73, true)]
    [InlineData(74, false)]
    public void Three_hand_overs_are_enough_again_where_they_are_more_than_one_in_twenty_five(int calls, bool expected)
    {
        var policy = new DispatchPolicy(DispatchMode.Adaptive);
        long now = BlockUntilWorkers(policy, 1) + DispatchPolicy.BackOffMsMin;
        Assert.True(policy.RunsInline(now));        // the first that comes back is not counted
        HandOverAmong(policy, calls, now);
        Assert.Equal(expected, !policy.RunsInline(now));
    }

    private static void HandOverAmong(DispatchPolicy policy, int calls, long now)
    {
        for (int i = 0; i < calls; i++)
        {
            Assert.True(policy.RunsInline(now), $"call {i}");
            if (i >= calls - DispatchPolicy.EarlyHandOvers)
            {
                policy.HandedOver();
            }
        }
    }

    [Fact]
    public void Three_hand_overs_in_a_row_bring_the_verdict_at_once()
    {
        var policy = new DispatchPolicy(DispatchMode.Adaptive);
        for (int i = 0; i < DispatchPolicy.EarlyHandOvers; i++)
        {
            Assert.True(policy.RunsInline(0));
            policy.HandedOver();
        }

        Assert.False(policy.RunsInline(0));
        Assert.True(policy.UsesWorkers(0));
    }

    [Fact]
    public void The_stay_with_the_workers_doubles_up_to_a_second_and_starts_anew_after_a_good_sample()
    {
        var policy = new DispatchPolicy(DispatchMode.Adaptive);
        long now = 1;
        foreach (int stayMs in (int[])[100, 200, 400, 800, 1_000, 1_000])
        {
            now = BlockUntilWorkers(policy, now);
            Assert.False(policy.RunsInline(now + stayMs - 1));
            Assert.True(policy.RunsInline(now + stayMs));
            now += stayMs;
        }

        for (int i = 0; i < 2 * DispatchPolicy.SampleCalls; i++)
        {
            Assert.True(policy.RunsInline(now));
        }

        now = BlockUntilWorkers(policy, now);
        Assert.False(policy.RunsInline(now + DispatchPolicy.BackOffMsMin - 1));
        Assert.True(policy.RunsInline(now + DispatchPolicy.BackOffMsMin));
    }

    private static long BlockUntilWorkers(DispatchPolicy policy, long now)
    {
        for (int i = 0; i < DispatchPolicy.SampleCalls && policy.RunsInline(now); i++)
        {
            policy.HandedOver();
        }

        Assert.True(policy.UsesWorkers(0));
        return now;
    }
}
