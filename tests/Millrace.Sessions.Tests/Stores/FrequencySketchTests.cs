// How often a session was used, about, and of late.

using Millrace.Sessions.Cookies;
using Millrace.Sessions.Stores;

namespace Millrace.Sessions.Tests.Stores;

public sealed class FrequencySketchTests
{
    [Fact]
    public void It_never_says_less_than_was_counted_up_to_fifteen_and_hardly_ever_more()
    {
        var sketch = new FrequencySketch(10_000);
        (SessionKey Key, int Uses)[] sessions = [.. Enumerable.Range(0, 3_000).Select(static i => (SessionToken.New().Key, 1 + (i % 20)))];
        foreach ((SessionKey key, int uses) in sessions)
        {
            for (int i = 0; i < uses; i++)
            {
                sketch.Count(key);
            }
        }

        Assert.All(sessions, session => Assert.InRange(sketch.Estimate(session.Key), Math.Min(session.Uses, FrequencySketch.Max), FrequencySketch.Max));
        Assert.InRange(sessions.Count(session => sketch.Estimate(session.Key) > Math.Min(session.Uses, FrequencySketch.Max)), 0, 150);
        Assert.Equal(0, sketch.Estimate(SessionToken.New().Key));
    }

    [Fact]
    public void What_was_busy_once_is_forgotten()
    {
        var sketch = new FrequencySketch(1_000);
        SessionKey busy = SessionToken.New().Key;
        for (int i = 0; i < FrequencySketch.Max; i++)
        {
            sketch.Count(busy);
        }
        var seen = new List<int>();
        for (int i = 0; i < 100_000; i++)
        {
            sketch.Count(SessionToken.New().Key);
            if (i % 10_000 == 0)
            {
                seen.Add(sketch.Estimate(busy));
            }
        }

        Assert.Equal(FrequencySketch.Max, seen[0]);
        Assert.InRange(seen[^1], 0, 7);
    }
}
