// Calls of the runtime's library that an interruption of the thread does not break.

using Millrace.Platform;

namespace Millrace.Tests.Platform;

public sealed class SteadyTests
{
    // SpinWait sleeps in every few of its rounds.
    [Fact]
    public void An_interrupted_thread_that_spins_goes_on_and_stays_interrupted()
    {
        bool isPending = false;
        Exception? thrown = null;
        var thread = new Thread(() =>
        {
            Thread.CurrentThread.Interrupt();
            var spin = default(SpinWait);
            thrown = Record.Exception(() =>
            {
                for (int i = 0; i < 100; i++)
                {
                    Steady.Spin(ref spin);
                }
            });
            isPending = Record.Exception(static () => Thread.Sleep(1)) is ThreadInterruptedException;
        });
        thread.Start();
        Assert.True(thread.Join(10_000));
        Assert.Null(thrown);
        Assert.True(isPending);
    }
}
