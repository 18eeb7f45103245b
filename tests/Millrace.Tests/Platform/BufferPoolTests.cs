// Spare buffers: whose they are, how large, and how many.

using System.Buffers;
using Millrace.Platform;

namespace Millrace.Tests.Platform;

public sealed class BufferPoolTests
{
    [Theory]
    [InlineData(0, 64)]
    [InlineData(1, 64)]
    [InlineData(64, 64)]
    [InlineData(65, 128)]
    [InlineData(4096, 4096)]
    [InlineData(16_385, BufferPool.InputSize)]
    [InlineData(BufferPool.InputSize, BufferPool.InputSize)]
    [InlineData(BufferPool.InputSize + 1, BufferPool.OutputSize)]
    [InlineData(BufferPool.OutputSize, BufferPool.OutputSize)]
    [InlineData(BufferPool.OutputSize + 1, 65_536)]
    [InlineData(1_048_576, 1_048_576)]
    [InlineData(1_048_577, 1_048_577)]
    public void A_buffer_is_as_large_as_was_asked_for_or_a_little_larger(int asked, int size) => Assert.Equal(size, BufferPool.Rent(asked).Length);

    [Fact]
    public void What_goes_back_is_kept_up_to_a_bound_and_given_out_again()
    {
        const int Size = 1 << 19;
        for (int round = 0; round < 3; round++)
        {
            byte[][] rented = [.. Enumerable.Range(0, 40).Select(static _ => BufferPool.Rent(Size))];
            Assert.Equal(40, rented.Distinct().Count());
            Array.ForEach(rented, BufferPool.Return);
            byte[][] again = [.. Enumerable.Range(0, 40).Select(static _ => BufferPool.Rent(Size))];
            Assert.InRange(again.Intersect(rented).Count(), 1, 8);
            Array.ForEach(again, BufferPool.Return);
        }
    }

    [Fact]
    public void Buffers_of_other_sizes_are_not_kept()
    {
        byte[] odd = new byte[1000];
        BufferPool.Return(odd);
        BufferPool.Return([]);
        Assert.DoesNotContain(odd, Enumerable.Range(0, 300).Select(static _ => BufferPool.Rent(1000)));
    }

    // An application may write into what it has given back there, and read what it takes from there.
    [Theory]
    [InlineData(64)]
    [InlineData(1024)]
    [InlineData(4096)]
    [InlineData(16 * 1024)]
    [InlineData(128 * 1024)]
    [InlineData(1024 * 1024)]
    public void No_buffer_is_one_of_those_that_the_whole_process_shares(int size)
    {
        byte[] shared = ArrayPool<byte>.Shared.Rent(size);
        ArrayPool<byte>.Shared.Return(shared);
        byte[] own = BufferPool.Rent(size);
        Assert.NotSame(shared, own);
        BufferPool.Return(own);
        Assert.NotSame(own, ArrayPool<byte>.Shared.Rent(size));
    }

    [Fact]
    public void An_interrupted_thread_rents_and_gives_back_and_stays_interrupted()
    {
        bool isPending = false;
        Exception? thrown = null;
        var thread = new Thread(() =>
        {
            Thread.CurrentThread.Interrupt();
            thrown = Record.Exception(static () => BufferPool.Return(BufferPool.Rent(4096)));
            isPending = Record.Exception(static () => Thread.Sleep(1)) is ThreadInterruptedException;
        });
        thread.Start();
        Assert.True(thread.Join(10_000));
        Assert.Null(thrown);
        Assert.True(isPending);
    }
}
