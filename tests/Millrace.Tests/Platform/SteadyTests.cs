// Calls of the runtime's library that an interruption of the thread does not break.

using System.Buffers;
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

    [Theory]
    [InlineData(1)]
    [InlineData(513)]
    [InlineData(4096)]
    [InlineData(40_000)]
    [InlineData(1_048_577)]
    public void What_an_interrupted_thread_has_rented_goes_back_to_the_pool(int size)
    {
        byte[] rented = [];
        bool isPending = false;
        Exception? thrown = null;
        var thread = new Thread(() =>
        {
            rented = Steady.Rent(size, new Interrupted());
            try
            {
                Thread.Sleep(1);
            }
            catch (ThreadInterruptedException)
            {
                isPending = true;
            }

            thrown = Record.Exception(() => Steady.Return(rented));
        });
        thread.Start();
        Assert.True(thread.Join(10_000));
        Assert.True(rented.Length >= size);
        Assert.True(isPending);
        Assert.Null(thrown);
    }

    // Has to wait for a lock of its own, whenever it is asked.
    private sealed class Interrupted : ArrayPool<byte>
    {
        public override byte[] Rent(int minimumLength) => throw new ThreadInterruptedException();

        public override void Return(byte[] array, bool clearArray = false) => throw new ThreadInterruptedException();
    }
}
