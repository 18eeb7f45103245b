// Descriptors that are promised to what is being opened.

using Millrace.Command.Running;

namespace Millrace.Tests.Command;

public sealed class HeadroomTests
{
    private static readonly TimeSpan s_long = TimeSpan.FromSeconds(30);

    [Fact]
    public async Task What_is_given_up_keeps_no_descriptors_from_others()
    {
        if (!OperatingSystem.IsLinux())
        {
            return;
        }

        int most = (int)Math.Min(Posix.DescriptorsMost(), 65_536) * 6 / 10;
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
        Assert.Throws<MillraceStartException>(static () => Headroom.Open(70_000, static () => 4));
    }
}
