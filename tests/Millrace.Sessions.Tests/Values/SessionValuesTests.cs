// Values become bytes and values again, and bytes that are none are refused.

using System.Text;
using Millrace.Sessions.Values;

namespace Millrace.Sessions.Tests.Values;

public sealed class SessionValuesTests
{
    [Theory]
    [InlineData(0)]
    [InlineData(127)]
    [InlineData(128)]
    [InlineData(16_383)]
    [InlineData(16_384)]
    [InlineData(2_097_152)]
    public void What_is_written_is_read(int length)
    {
        var values = new SessionValues();
        values.Set("", [1]);
        values.Set("ключ", new byte[length]);
        values.Set(new string('k', Math.Min(length, SessionValues.KeyBytesMax)), [2, 3]);

        var read = new SessionValues();
        Assert.True(read.TryRead(values.ToBytes()));

        Assert.Equal(values.Keys.Order(StringComparer.Ordinal), read.Keys.Order(StringComparer.Ordinal));
        Assert.All(values.Keys, key => Assert.True(values.TryGet(key, out byte[]? one) && read.TryGet(key, out byte[]? other) && one!.AsSpan().SequenceEqual(other)));
        Assert.False(read.IsChanged);
    }

    [Fact]
    public void Cut_anywhere_they_are_fewer_or_none_and_no_error()
    {
        var values = new SessionValues();
        values.Set("first", Encoding.UTF8.GetBytes("value"));
        values.Set("second", new byte[300]);
        byte[] bytes = values.ToBytes();

        int whole = Enumerable.Range(0, bytes.Length).Count(length => new SessionValues().TryRead(bytes.AsMemory(0, length)));

        Assert.Equal(2, whole);         // before the first, and between the two
    }

    [Theory]
    [InlineData(new byte[] { })]
    [InlineData(new byte[] { 2 })]
    [InlineData(new byte[] { 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff })]
    [InlineData(new byte[] { 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0 })]
    [InlineData(new byte[] { 1, 1, 0xff, 0 })]
    [InlineData(new byte[] { 1, 2, 65, 66, 5, 1 })]
    public void What_is_none_is_refused(byte[] bytes) => Assert.False(new SessionValues().TryRead(bytes));

    [Theory]
    [InlineData(SessionValues.KeyBytesMax, true)]
    [InlineData(SessionValues.KeyBytesMax + 1, false)]
    public void A_key_has_at_most_65535_bytes(int length, bool isTaken)
    {
        var values = new SessionValues();
        Exception? fault = Record.Exception(() => values.Set(new string('k', length), [1]));
        Assert.Equal(isTaken, fault is null);
        Assert.True(isTaken || fault is ArgumentOutOfRangeException);
    }

    [Fact]
    public void The_array_that_was_set_may_be_used_for_something_else()
    {
        var values = new SessionValues();
        byte[] array = [1];
        values.Set("a", array);
        array[0] = 2;
        Assert.True(values.TryGet("a", out byte[]? value));
        Assert.Equal([1], value!);
    }

    [Fact]
    public void An_array_that_was_got_and_written_into_is_a_change_when_it_is_set_and_only_then()
    {
        var values = new SessionValues();
        values.Set("a", [1, 2]);
        byte[] stored = values.ToBytes();
        byte[] before = [.. stored];
        var loaded = new SessionValues();
        Assert.True(loaded.TryRead(stored));

        Assert.True(loaded.TryGet("a", out byte[]? value));
        value[0] = 7;
        Assert.False(loaded.IsChanged);
        Assert.Equal(before, loaded.ToBytes());
        Assert.Equal(before, stored);       // it is the store's, and other requests have it

        loaded.Set("a", value);
        Assert.True(loaded.IsChanged);
        value[0] = 8;
        Assert.True(loaded.TryGet("a", out byte[]? now));
        Assert.Equal([7, 2], now);
        Assert.Equal(before, stored);
    }

    // What a request has left behind sets a value while its end writes all of them down.
    [Fact]
    public void What_is_written_while_a_value_is_set_can_be_read()
    {
        var values = new SessionValues();
        values.Set("user", new byte[10]);
        values.Set("progress", new byte[100]);
        using var end = new CancellationTokenSource();
        var setting = new Thread(() =>
        {
            for (int i = 0; !end.IsCancellationRequested; i++)
            {
                values.Set("progress", new byte[i % 2 == 0 ? 99 : 100]);
            }
        });
        setting.Start();
        int unreadable = 0;
        for (int i = 0; i < 200_000; i++)
        {
            try
            {
                unreadable += new SessionValues().TryRead(values.ToBytes()) ? 0 : 1;
            }
            catch (ArgumentException)
            {
                // Half of one value and half of another: nothing is stored.
            }
        }
        end.Cancel();
        setting.Join();
        Assert.Equal(0, unreadable);
    }
}
