// What is spent is remembered as long as it may be shown, in memory of fixed size.

using Millrace.Sessions.Cookies;
using Millrace.Sessions.Stores;
using Millrace.Sessions.Tests.Site;

namespace Millrace.Sessions.Tests.Stores;

public sealed class SpentSealsTests
{
    private static readonly TimeSpan s_validity = TimeSpan.FromMinutes(20);

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(19)]
    [InlineData(20)]
    public void A_spent_session_is_remembered_for_the_whole_validity_whenever_it_came(int minutesBefore)
    {
        var time = new ManualTime();
        var spent = new SpentSeals(1 << 20, s_validity, time);
        spent.Add(SessionToken.New().Key);
        time.Advance(TimeSpan.FromMinutes(minutesBefore));
        SessionKey key = SessionToken.New().Key;
        spent.Add(key);

        for (int minute = 0; minute <= 20; minute++)
        {
            Assert.True(spent.Contains(key));
            time.Advance(TimeSpan.FromMinutes(1));
        }
        time.Advance(TimeSpan.FromMinutes(20));
        Assert.False(spent.Contains(key));
    }

    [Fact]
    public void Few_that_are_not_spent_are_taken_for_it()
    {
        var spent = new SpentSeals(64 << 20, s_validity, new ManualTime());
        for (int i = 0; i < 500_000; i++)
        {
            spent.Add(new SessionKey((ulong)Random.Shared.NextInt64() << 1, (ulong)Random.Shared.NextInt64() << 1));
        }

        int wrong = Enumerable.Range(0, 100_000).Count(_ => spent.Contains(new SessionKey((ulong)Random.Shared.NextInt64() << 1, (ulong)Random.Shared.NextInt64() << 1)));

        Assert.InRange(wrong, 0, 1_000);
    }
}
