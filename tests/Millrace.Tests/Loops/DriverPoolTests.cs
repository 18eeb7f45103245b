// Threads of the pool and handlers that wait for one, also where the system refuses threads.

using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Connections;
using Millrace.Exchanges;
using Millrace.Handlers;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Platform;

namespace Millrace.Tests.Loops;

public sealed class DriverPoolTests
{
    [Fact]
    public void A_handler_that_came_to_wait_gets_the_thread_that_was_reserved_and_is_not_needed()
    {
        using var ran = new SemaphoreSlim(0);
        using var services = new LoopServices(new MillraceOptions { DriversMax = 1 }, new EndlessHandler(ran), new Log(NullLogger.Instance));
        var loop = new EventLoop<LinuxKernel>(0, services, default, ConnectionFactory.Create);
        IStandbyDriver reserved = services.Standby.TryReserve()!;
        Assert.Null(services.Standby.TryReserve());
        services.Standby.Run(Waiting(loop));
        Assert.Equal((1, 1), (services.Standby.Count, services.Standby.Waiting));

        services.Standby.Release(reserved);

        Assert.Equal(0, services.Standby.Waiting);
        Assert.True(ran.Wait(10_000), "the handler was not run");
        loop.Release();
    }

    [Fact]
    public void Handlers_that_block_until_all_have_begun_all_begin()
    {
        const int Handlers = 40;
        using var ran = new SemaphoreSlim(0);
        var all = new CountdownEvent(Handlers);     // not disposed: the last threads are still leaving it
        using var services = new LoopServices(new MillraceOptions { DriversMax = Handlers }, new EndlessHandler(ran, all), new Log(NullLogger.Instance));
        var loop = new EventLoop<LinuxKernel>(0, services, default, ConnectionFactory.Create);
        for (int i = 0; i < Handlers; i++)
        {
            services.Standby.Run(Waiting(loop));
        }

        Assert.True(all.Wait(20_000), $"{all.CurrentCount} handlers have not begun");
        Assert.Equal((Handlers, 0), (services.Standby.Count, services.Standby.Waiting));
        loop.Release();
    }

    [Theory]
    [InlineData(1)]
    [InlineData(3)]
    public void Handlers_that_wait_for_one_of_few_threads_are_all_run(int threads)
    {
        const int Handlers = 5_000;
        using var ran = new SemaphoreSlim(0);
        using var services = new LoopServices(new MillraceOptions { DriversMax = threads }, new EndlessHandler(ran), new Log(NullLogger.Instance));
        var loop = new EventLoop<LinuxKernel>(0, services, default, ConnectionFactory.Create);
        Parallel.For(0, Handlers, _ => services.Standby.Run(Waiting(loop)));
        for (int i = 0; i < Handlers; i++)
        {
            Assert.True(ran.Wait(10_000), $"{Handlers - i} handlers were not run");
        }

        Assert.InRange(services.Standby.Count, 1, threads);
        loop.Release();
    }

    [Fact]
    public void Handlers_that_wait_because_the_system_refused_a_thread_get_the_one_it_gives_later()
    {
        using var ran = new SemaphoreSlim(0);
        using var services = new LoopServices(new MillraceOptions(), new EndlessHandler(ran), new Log(NullLogger.Instance));
        int refusals = 3;
        using var pool = new DriverPool(services)
        {
            StartThread = thread =>
            {
                if (refusals-- > 0)
                {
                    throw new InsufficientMemoryException();
                }

                thread.Start();
            },
        };
        var loop = new EventLoop<LinuxKernel>(0, services, default, ConnectionFactory.Create);
        Assert.Null(pool.TryReserve());
        pool.Run(Waiting(loop));
        Assert.Equal((0, 1), (pool.Count, pool.Waiting));

        long giveUpAt = Environment.TickCount64 + 10_000;
        while (!ran.Wait(1))
        {
            Assert.True(Environment.TickCount64 < giveUpAt, "the handler was not run");
            _ = pool.ServeWaiting();
        }

        Assert.Equal((1, 0), (pool.Count, pool.Waiting));
        Assert.False(pool.ServeWaiting());
        loop.Release();
    }

    [Fact]
    public void Handlers_that_wait_because_the_maximum_is_reached_are_left_to_the_threads_there_are()
    {
        using var ran = new SemaphoreSlim(0);
        using var services = new LoopServices(new MillraceOptions { DriversMax = 1 }, new EndlessHandler(ran), new Log(NullLogger.Instance));
        var loop = new EventLoop<LinuxKernel>(0, services, default, ConnectionFactory.Create);
        IStandbyDriver reserved = services.Standby.TryReserve()!;
        services.Standby.Run(Waiting(loop));
        Assert.False(services.Standby.ServeWaiting());
        services.Standby.Release(reserved);
        Assert.True(ran.Wait(10_000), "the handler was not run");
        loop.Release();
    }

    [Fact]
    public void One_thread_at_a_time_is_on_its_way_to_handlers_that_wait()
    {
        using var ran = new SemaphoreSlim(0);
        using var services = new LoopServices(new MillraceOptions(), new EndlessHandler(ran), new Log(NullLogger.Instance));
        var held = new List<DriverThread>();
        using var pool = new DriverPool(services) { StartThread = held.Add };       // on their way, and not there yet
        var loop = new EventLoop<LinuxKernel>(0, services, default, ConnectionFactory.Create);
        for (int i = 0; i < 10; i++)
        {
            pool.Run(Waiting(loop));
        }

        Assert.True(pool.ServeWaiting());
        Assert.Single(held);
        held[0].Start();
        for (int i = 0; i < 10; i++)
        {
            // Its handlers go on asynchronously: the thread takes one after the other, and sends for another before each.
            Assert.True(ran.Wait(10_000), $"{10 - i} handlers were not run");
        }

        Assert.Equal(2, held.Count);
        held[1].Start();
        loop.Release();
    }

    private static FastCgiConnection<LinuxKernel> Waiting(EventLoop<LinuxKernel> loop) =>
        new(loop, descriptor: -1, isTcp: false) { Exchange = new Exchange(loop.Services) };

    // Goes on for ever, so that nothing is to be sent.
    private sealed class EndlessHandler(SemaphoreSlim ran, CountdownEvent? all = null) : RequestHandler
    {
        public override Task? Run(Exchange exchange)
        {
            ran.Release();
            all?.Signal();
            all?.Wait();
            return new TaskCompletionSource().Task;
        }

        public override void Reset(Exchange exchange)
        {
        }
    }
}
