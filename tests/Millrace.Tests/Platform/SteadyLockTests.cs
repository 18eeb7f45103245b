// Waits of the server's own code that Thread.Interrupt does not end, and that leave the interruption to whom it was meant for.

using Millrace.Loops;
using Millrace.Platform;

namespace Millrace.Tests.Platform;

public sealed class SteadyLockTests
{
    [Fact]
    public void An_interruption_does_not_end_the_wait_for_the_lock_and_stays_pending()
    {
        var steady = new SteadyLock();
        using var taken = new ManualResetEventSlim();
        using var mayLeave = new ManualResetEventSlim();
        bool isPending = false;
        int inside = 0;
        var holder = new Thread(() =>
        {
            using (steady.Hold())
            {
                Interlocked.Increment(ref inside);
                taken.Set();
                mayLeave.Wait();
                Interlocked.Decrement(ref inside);
            }
        });
        var waiter = new Thread(() =>
        {
            Thread.CurrentThread.Interrupt();
            using (steady.Hold())
            {
                Assert.Equal(1, Interlocked.Increment(ref inside));
            }

            try
            {
                Thread.Sleep(1);
            }
            catch (ThreadInterruptedException)
            {
                isPending = true;
            }
        });
        holder.Start();
        Assert.True(taken.Wait(10_000));
        waiter.Start();
        Assert.False(waiter.Join(100));
        mayLeave.Set();
        Assert.True(holder.Join(10_000) && waiter.Join(10_000));
        Assert.True(isPending);
        Assert.Equal(1, inside);
    }

    [Fact]
    public void Whoever_has_the_lock_may_take_it_again()
    {
        var steady = new SteadyLock();
        using (steady.Hold())
        {
            using (steady.Hold())
            {
                Assert.True(OthersWait(steady));
            }

            Assert.True(OthersWait(steady));
        }

        Assert.False(OthersWait(steady));
    }

    private static bool OthersWait(SteadyLock steady)
    {
        var other = new Thread(() => steady.Hold().Dispose()) { IsBackground = true };
        other.Start();
        return !other.Join(100);
    }

    [Fact]
    public void A_queue_under_interruption_loses_nothing_and_doubles_nothing()
    {
        const int Items = 200_000;
        var queue = new SteadyQueue<int>();
        Thread[] writers = [.. Enumerable.Range(0, 2).Select(half => new Thread(() =>
        {
            for (int i = half; i < Items; i += 2)
            {
                queue.Enqueue(i);
            }
        }))];
        int[] seen = new int[Items];
        int taken = 0;
        Thread[] readers = [.. Enumerable.Range(0, 2).Select(_ => new Thread(() =>
        {
            while (Volatile.Read(ref taken) < Items)
            {
                if (queue.TryDequeue(out int item))
                {
                    Interlocked.Increment(ref seen[item]);
                    Interlocked.Increment(ref taken);
                    Assert.InRange(queue.Count, 0, Items);
                }
            }
        }))];
        Thread[] all = [.. writers, .. readers];
        Array.ForEach(all, static thread => thread.Start());
        while (Array.Exists(all, static thread => thread.IsAlive))
        {
            Array.ForEach(all, static thread => thread.Interrupt());
            Thread.Yield();
        }

        Assert.All(seen, static times => Assert.Equal(1, times));
    }
}
