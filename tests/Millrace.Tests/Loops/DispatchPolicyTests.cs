// When handlers leave the loop for worker threads, and when they come back.

using Millrace.Loops;

namespace Millrace.Tests.Loops;

public sealed class DispatchPolicyTests
{
    [Fact]
    public void Workers_mode_never_runs_a_handler_on_the_loop()
    {
        var policy = new DispatchPolicy(DispatchMode.Workers);
        Assert.True(policy.UsesWorkers);
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

        Assert.False(policy.UsesWorkers);
    }

    [Fact]
    public void One_hand_over_in_ten_calls_is_borne()
    {
        var policy = new DispatchPolicy(DispatchMode.Adaptive);
        for (int i = 1; i <= 2_000; i++)
        {
            Assert.True(policy.RunsInline(0), $"call {i}");
            if (i % DispatchPolicy.SampleCalls is 5 or 15)
            {
                policy.HandedOver();
            }
        }
    }

    [Fact]
    public void Three_hand_overs_in_a_row_bring_the_verdict_before_twenty_calls_have_been_seen()
    {
        var policy = new DispatchPolicy(DispatchMode.Adaptive);
        for (int i = 0; i < DispatchPolicy.SampleHandOvers; i++)
        {
            Assert.True(policy.RunsInline(0));
            policy.HandedOver();
        }

        Assert.False(policy.RunsInline(0));
        Assert.True(policy.UsesWorkers);
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

        Assert.True(policy.UsesWorkers);
        return now;
    }
}
