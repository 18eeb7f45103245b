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
        time.Advance(TimeSpan.FromMinutes(22));
        Assert.False(spent.Contains(key));
    }

    [Theory]
    [InlineData(false, 60)]
    [InlineData(true, 20)]
    public void A_longer_validity_is_known_before_anything_is_spent_or_not_at_all(bool isLate, int minutes)
    {
        var time = new ManualTime();
        var spent = new SpentSeals(1 << 20, s_validity, time);
        SessionKey key = SessionToken.New().Key;
        if (isLate)
        {
            spent.Add(key);
        }
        spent.ExpectValidity(TimeSpan.FromMinutes(60));
        Assert.Equal(minutes, spent.Validity.TotalMinutes);
        spent.Add(key);
        spent.ExpectValidity(s_validity);

        time.Advance(TimeSpan.FromMinutes(minutes));
        Assert.True(spent.Contains(key));
        Assert.Equal(minutes, spent.Validity.TotalMinutes);
    }

    [Fact]
    public void Few_that_are_not_spent_are_taken_for_it()
    {
        var spent = new SpentSeals(64 << 20, s_validity, new ManualTime());
        for (int i = 0; i < 2_400_000; i++)
        {
            spent.Add(AnyKey(), (uint)i + 1);
        }
        for (int i = 0; i < 100_000; i++)
        {
            spent.Add(AnyKey());
        }

        Assert.InRange(Enumerable.Range(0, 100_000).Count(_ => spent.Contains(AnyKey(), 1)), 0, 2_000);
        Assert.InRange(Enumerable.Range(0, 100_000).Count(_ => spent.Contains(AnyKey())), 0, 1_500);
    }

    [Fact]
    public void A_seal_is_spent_for_itself_and_with_its_session()
    {
        var spent = new SpentSeals(1 << 20, s_validity, new ManualTime());
        SessionKey key = AnyKey();
        SessionKey ended = AnyKey();
        spent.Add(key, 5);
        spent.Add(ended);

        Assert.True(spent.Contains(key, 5));
        Assert.False(spent.Contains(key, 6));
        Assert.False(spent.Contains(key));
        Assert.False(spent.Contains(AnyKey(), 5));
        Assert.True(spent.Contains(ended));
        Assert.True(spent.Contains(ended, 5));
    }

    [Theory]
    [InlineData(1L << 20, 1L << 18)]
    [InlineData(8L << 20, 2L << 20)]
    [InlineData(64L << 20, 4L << 20)]
    [InlineData(1L << 40, 16L << 20)]
    public void Its_memory_is_a_part_of_the_budget(long budget, long ofOne)
    {
        Assert.Equal(2 * (ofOne + (ofOne / 16)), SpentSeals.BytesOf(budget));
    }

    private static SessionKey AnyKey()
    {
        Span<byte> bytes = stackalloc byte[16];
        Random.Shared.NextBytes(bytes);
        return new SessionKey(BitConverter.ToUInt64(bytes), BitConverter.ToUInt64(bytes[8..]));
    }
}
