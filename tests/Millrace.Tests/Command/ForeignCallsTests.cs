// What waits while the daemon is about to become another program.

using Millrace.Command.Serving;
using Millrace.Platform;
using Millrace.Tests.Stress;

namespace Millrace.Tests.Command;

[Collection(AloneCollection.Name)]
public sealed class ForeignCallsTests
{
    private static readonly TimeSpan s_soon = TimeSpan.FromSeconds(20);

    [Fact]
    public async Task A_look_is_put_off_as_long_as_none_is_to_begin_however_long_that_is()
    {
        var look = new PatientLook(TimeSpan.FromMilliseconds(200));
        bool hasBegun = false;
        int Look()
        {
            hasBegun = true;
            return 17;
        }
        Task<int> first, second;
        ForeignCalls.Pause();
        try
        {
            first = look.AtAsync("/srv/shop", Look, CancellationToken.None);
            second = look.AtAsync("/srv/shop", Look, CancellationToken.None);
            await Task.Delay(600);
            Assert.False(hasBegun);
            Assert.False(first.IsCompleted || second.IsCompleted);
        }
        finally
        {
            ForeignCalls.GoOn();
        }
        int[] seen = await Task.WhenAll(first, second).WaitAsync(s_soon);
        Assert.Equal([17, 17], seen);
    }

    [Fact]
    public async Task Who_gives_up_a_look_that_is_put_off_keeps_nobody_from_the_next()
    {
        var look = new PatientLook(s_soon);
        ForeignCalls.Pause();
        try
        {
            using var over = new CancellationTokenSource(TimeSpan.FromMilliseconds(100));
            await Assert.ThrowsAnyAsync<OperationCanceledException>(() => look.AtAsync("/srv/shop", static () => 17, over.Token));
        }
        finally
        {
            ForeignCalls.GoOn();
        }
        Assert.Equal(17, await look.AtAsync("/srv/shop", static () => 17, CancellationToken.None).WaitAsync(s_soon));
    }

    [Fact]
    public void What_is_closed_is_put_off_by_nothing()
    {
        ForeignCalls.Pause();
        try
        {
            Assert.Null(ForeignCalls.TryBegin("/srv/shop"));
            long call = ForeignCalls.Begin("what shop has sent");
            Assert.Equal("what shop has sent", ForeignCalls.UnderWay[call]);
            ForeignCalls.End(call);
            Assert.False(ForeignCalls.UnderWay.ContainsKey(call));
        }
        finally
        {
            ForeignCalls.GoOn();
        }
    }
}
