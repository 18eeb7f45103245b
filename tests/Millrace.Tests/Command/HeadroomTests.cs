// Descriptors that are promised to what is being opened.

using System.Runtime.Versioning;
using Millrace.Command.Running;
using Millrace.Platform;

namespace Millrace.Tests.Command;

[SupportedOSPlatform("linux")]
[Collection(Millrace.Tests.Stress.AloneCollection.Name)]
public sealed class HeadroomTests
{
    private const int RoomMost = 1_000_000;      // the kernel makes room for all numbers up to the one that is asked for

    private static readonly TimeSpan s_long = TimeSpan.FromSeconds(30);

    [Fact]
    public async Task What_is_given_up_keeps_no_descriptors_from_others()
    {
        if (!OperatingSystem.IsLinux() || Posix.DescriptorsMost() > RoomMost)
        {
            return;
        }

        int limit = (int)Posix.DescriptorsMost();
        int most = limit * 6 / 10;
        using var isOpening = new ManualResetEventSlim();
        using var answers = new ManualResetEventSlim();
        using var givenUp = new CancellationTokenSource();
        int Wait()
        {
            isOpening.Set();
            answers.Wait();
            return 1;
        }
        var first = Task.Factory.StartNew(() => Headroom.Open(most, Wait, givenUp.Token), TaskCreationOptions.LongRunning);
        Assert.True(isOpening.Wait(s_long));
        var second = Task.Factory.StartNew(() => Headroom.Open(most, static () => 2), TaskCreationOptions.LongRunning);
        await givenUp.CancelAsync();
        Assert.Equal(2, await second.WaitAsync(s_long));
        answers.Set();
        Assert.Equal(1, await first.WaitAsync(s_long));

        Assert.Equal(3, Headroom.Open(most, static () => 3));       // nothing is given back twice, and nothing kept
        Assert.Throws<MillraceStartException>(() => Headroom.Open(limit, static () => 4));
    }

    // Whoever has so many open may go on: hundreds of thousands may be left.
    [Theory]
    [InlineData(1)]
    [InlineData(3_000)]
    public void A_number_that_is_taken_says_nothing_where_the_limit_is_far_above(int count)
    {
        const int asked = 2_000;
        int limit = (int)Math.Min(Posix.DescriptorsMost(), RoomMost);
        if (!OperatingSystem.IsLinux() || limit < 4 * asked)
        {
            return;
        }

        int[] taken = [.. Enumerable.Range(asked - 64, 64).Where(static number => SystemCalls.Fcntl(1, SystemCalls.F_DUPFD_CLOEXEC, number) == number)];
        try
        {
            Assert.Equal(64, taken.Length);
            Assert.True(Headroom.Has(count, asked));
            Assert.False(Headroom.Has(limit, asked));
        }
        finally
        {
            Array.ForEach(taken, static number => _ = SystemCalls.Close(number));
        }
    }
}
