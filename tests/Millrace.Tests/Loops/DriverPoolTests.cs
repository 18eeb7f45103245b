// Threads of the pool and handlers that wait for one, also where the system refuses threads.

using System.Runtime.CompilerServices;
using Microsoft.Extensions.Logging.Abstractions;
using Millrace.Connections;
using Millrace.Exchanges;
using Millrace.Handlers;
using Millrace.Loops;
using Millrace.Observe;
using Millrace.Platform;
using Millrace.Tests.Stress;

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

    // A runtime that finds no thread for SIGTERM ends the process, and one without a thread for timers fails every delay.
    [Fact]
    public void Handlers_that_block_do_not_take_the_last_threads_that_the_system_allows()
    {
        const int Allowed = 40;
        var system = new FewThreads(Allowed);
        using var log = new Hosting.CollectedLog();
        using var ran = new SemaphoreSlim(0);
        var all = new CountdownEvent(100);
        var options = new MillraceOptions { Loops = 2 };
        using var services = new LoopServices(options, new EndlessHandler(ran, all), new Log(log.CreateLogger("Millrace"), static say => say()));
        using var pool = new DriverPool(services) { StartThread = system.Start, Spares = new SpareThreads { Start = system.Start } };
        var loop = new EventLoop<LinuxKernel>(0, services, default, ConnectionFactory.Create);
        long before = Environment.TickCount64;
        for (int i = 0; i < 100; i++)
        {
            pool.Run(Waiting(loop));
        }

        long giveUpAt = Environment.TickCount64 + 20_000;
        while (system.Refusals == 0)
        {
            Assert.True(Environment.TickCount64 < giveUpAt, "no thread was refused");
            Thread.Sleep(1);
        }

        Assert.Equal(Allowed - SpareThreads.Most, pool.Count);
        system.JoinSpares();
        _ = pool.ServeWaiting();
        Assert.Equal(1, system.Refusals);       // what they have left is not asked for again at once
        Assert.True(StartAgainOf(pool) - before >= 1_000);
        string said = Assert.Single(log.Lines, static line => line.Contains("refuses another thread", StringComparison.Ordinal));
        Assert.Contains($"beside {pool.Count} that", said, StringComparison.Ordinal);

        system.Allowed = 1_000;
        while (!all.Wait(10))
        {
            Assert.True(Environment.TickCount64 < giveUpAt, "handlers wait although there are threads again");
            _ = pool.ServeWaiting();
        }

        loop.Release();
    }

    // Its pool ends the process where it finds none.
    [Theory]
    [InlineData(1)]
    [InlineData(SpareThreads.Most)]
    public void Where_the_system_allows_few_threads_beyond_those_of_the_loops_they_are_the_runtimes(int beyond)
    {
        const int OfLoops = 3;
        var system = new FewThreads(OfLoops + beyond);
        using var ran = new SemaphoreSlim(0);
        using var services = new LoopServices(new MillraceOptions { Loops = 2 }, new EndlessHandler(ran), new Log(NullLogger.Instance));
        using var pool = new DriverPool(services) { StartThread = system.Start, Spares = new SpareThreads { Start = system.Start } };
        IStandbyDriver[] loops = [pool.TryReserve()!, pool.TryReserve()!];
        Assert.True(pool.KeepStandby());
        var loop = new EventLoop<LinuxKernel>(0, services, default, ConnectionFactory.Create);
        for (int i = 0; i < 20; i++)
        {
            pool.Run(Waiting(loop));
        }

        for (int i = 0; i < 20; i++)
        {
            Assert.True(ran.Wait(10_000), $"{20 - i} handlers were not run");
        }

        Assert.Equal(OfLoops, pool.Count);
        system.JoinSpares();
        Array.ForEach(loops, pool.Release);
        loop.Release();
    }

    [Fact]
    public void A_server_whose_handlers_do_not_block_has_no_spare_threads_and_one_whose_handlers_block_no_more_gives_them_up()
    {
        var system = new FewThreads(1_000);
        using var services = new LoopServices(new MillraceOptions { Loops = 2, StandbyDriversMin = 0 }, new EndlessHandler(new SemaphoreSlim(0)), new Log(NullLogger.Instance));
        using var pool = new DriverPool(services) { StartThread = static _ => { }, Spares = new SpareThreads { Start = system.Start } };
        var drivers = new List<DriverThread>();
        drivers.Add((DriverThread)pool.TryReserve()!);
        drivers.Add((DriverThread)pool.TryReserve()!);
        Assert.Equal(0, pool.Spares.Count);
        drivers.Add((DriverThread)pool.TryReserve()!);
        Assert.Equal(SpareThreads.Most, pool.Spares.Count);
        drivers.ForEach(pool.Release);
        Assert.All(drivers, driver => Assert.True(pool.MayRetire(driver)));
        Assert.Equal(0, pool.Spares.Count);
        system.JoinSpares();
    }

    [Fact]
    public void Spare_threads_end_with_their_pool()
    {
        var system = new FewThreads(1_000);
        using var services = new LoopServices(new MillraceOptions { Loops = 2 }, new EndlessHandler(new SemaphoreSlim(0)), new Log(NullLogger.Instance));
        var pool = new DriverPool(services) { StartThread = static _ => { }, Spares = new SpareThreads { Start = system.Start } };
        for (int i = 0; i < 30; i++)
        {
            Assert.NotNull(pool.TryReserve());
        }

        pool.Dispose();
        system.JoinSpares();
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

    [Fact]
    public void Beyond_the_maximum_there_is_a_thread_for_each_loop_and_for_no_handler()
    {
        using var ran = new SemaphoreSlim(0);
        using var services = new LoopServices(new MillraceOptions { Loops = 2, DriversMax = 3 }, new EndlessHandler(ran), new Log(NullLogger.Instance));
        var loop = new EventLoop<LinuxKernel>(0, services, default, ConnectionFactory.Create);
        IStandbyDriver[] drivers = [.. Enumerable.Range(0, 3).Select(_ => services.Standby.TryReserve()!)];
        Assert.False(services.IsShortOfThreads);        // a loop may be in a handler, and so may the other
        IStandbyDriver[] beyond = [services.Standby.TryReserve()!];
        Assert.True(services.IsShortOfThreads);
        beyond = [.. beyond, services.Standby.TryReserve()!];
        Assert.Null(services.Standby.TryReserve());
        _ = services.Standby.ServeWaiting();            // the monitor's look at those who wait, behind its look at loops
        _ = services.Standby.ServeWaiting();            // no loop has asked since
        services.Standby.Run(Waiting(loop));
        Assert.Equal((5, 1), (services.Standby.Count, services.Standby.Waiting));

        services.Standby.Release(beyond[0]);            // for the other loop
        _ = services.Standby.ServeWaiting();
        Assert.Equal(1, services.Standby.Waiting);
        Assert.True(services.IsShortOfThreads);

        services.Standby.Release(beyond[1]);
        Assert.True(ran.Wait(10_000), "the handler was not run");
        Assert.True(ProcessState.Becomes(() => !services.IsShortOfThreads), "it has gone on asynchronously: its thread is free");
        Array.ForEach(drivers, services.Standby.Release);
        loop.Release();
    }

    // The handler that waits might wait for the loop.
    [Fact]
    public void A_loop_that_found_no_thread_has_the_next_before_handlers_that_wait()
    {
        using var ran = new SemaphoreSlim(0);
        using var services = new LoopServices(new MillraceOptions { Loops = 1 }, new EndlessHandler(ran), new Log(NullLogger.Instance));
        var system = new FewThreads(1);
        using var pool = new DriverPool(services) { StartThread = system.Start };
        var loop = new EventLoop<LinuxKernel>(0, services, default, ConnectionFactory.Create);
        IStandbyDriver driver = pool.TryReserve()!;
        Assert.Null(pool.TryReserve());
        Assert.True(services.IsShortOfThreads);
        pool.Run(Waiting(loop));
        _ = pool.ServeWaiting();

        pool.Release(driver);
        Assert.False(services.IsShortOfThreads);
        pool.Run(Waiting(loop));
        Assert.Equal(2, pool.Waiting);
        Assert.Same(driver, pool.TryReserve());

        _ = pool.ServeWaiting();
        pool.Release(driver);
        Assert.True(ran.Wait(10_000) && ran.Wait(10_000), "a handler was not run");
        loop.Release();
    }

    [Fact]
    public void The_last_thread_where_the_system_refuses_another_is_for_a_loop_while_others_run_handlers()
    {
        using var ran = new SemaphoreSlim(0);
        using var services = new LoopServices(new MillraceOptions { Loops = 1 }, new EndlessHandler(ran), new Log(NullLogger.Instance));
        var system = new FewThreads(3);
        using var pool = new DriverPool(services) { StartThread = system.Start };
        var loop = new EventLoop<LinuxKernel>(0, services, default, ConnectionFactory.Create);
        IStandbyDriver ofLoop = pool.TryReserve()!;
        IStandbyDriver ofHandler = pool.TryReserve()!;
        IStandbyDriver last = pool.TryReserve()!;
        Assert.Null(pool.TryReserve());
        pool.Release(last);
        Assert.Same(last, pool.TryReserve());       // who found none has had one
        pool.Release(last);

        pool.Run(Waiting(loop));
        Assert.Equal(1, pool.Waiting);
        Assert.Same(last, pool.TryReserve());
        pool.Release(ofHandler);
        Assert.True(ran.Wait(10_000), "the handler was not run");
        pool.Release(last);
        pool.Release(ofLoop);
        loop.Release();
    }

    // A loop that stays in a handler that waits for its body would never receive that body, nor see that its time is over.
    [Fact]
    public void A_loop_whose_handler_blocks_has_a_thread_before_the_system_refuses_one()
    {
        using var ran = new SemaphoreSlim(0);
        using var services = new LoopServices(new MillraceOptions { Loops = 1 }, new EndlessHandler(ran), new Log(NullLogger.Instance));
        var system = new FewThreads(2);
        using var pool = new DriverPool(services) { StartThread = system.Start };
        var loop = new EventLoop<LinuxKernel>(0, services, default, ConnectionFactory.Create);
        IStandbyDriver first = pool.TryReserve()!;
        Assert.True(pool.KeepStandby());

        IStandbyDriver? second = pool.TryReserve();
        Assert.NotNull(second);
        Assert.False(pool.KeepStandby());
        Assert.True(services.IsShortOfThreads);     // the next handler runs on no loop

        pool.Release(first);
        Assert.False(services.IsShortOfThreads);
        pool.Run(Waiting(loop));
        Assert.True(ran.Wait(10_000), "no other thread will come for it");
        loop.Release();
    }

    [Fact]
    public void A_thread_that_stands_by_goes_only_where_others_stay_and_nothing_was_given_to_it()
    {
        using var services = new LoopServices(new MillraceOptions { Loops = 2, StandbyDriversMin = 2 }, new EndlessHandler(new SemaphoreSlim(0)), new Log(NullLogger.Instance));
        using var pool = new DriverPool(services) { StartThread = static _ => { } };
        DriverThread[] drivers = [.. Enumerable.Range(0, 4).Select(_ => (DriverThread)pool.TryReserve()!)];
        Array.ForEach(drivers, pool.Release);
        var given = (DriverThread)pool.TryReserve()!;
        DriverThread[] standing = [.. drivers.Where(driver => driver != given)];
        Assert.False(pool.MayRetire(given));
        Assert.True(pool.MayRetire(standing[0]));
        Assert.False(pool.MayRetire(standing[1]));
        Assert.Equal(3, pool.Count);
    }

    [Fact]
    public void Threads_that_stand_by_end_with_their_pool()
    {
        using var services = new LoopServices(new MillraceOptions { Loops = 2 }, new EndlessHandler(new SemaphoreSlim(0)), new Log(NullLogger.Instance));
        var pool = new DriverPool(services) { StartThread = static _ => { } };
        DriverThread[] drivers = [.. Enumerable.Range(0, 3).Select(_ => (DriverThread)pool.TryReserve()!)];
        Array.ForEach(drivers, pool.Release);
        pool.Dispose();
        Assert.All(drivers, static driver => Assert.Same(DriverThread.Retire, WorkOf(driver)));
    }

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_startAgainAtMs")]
    private static extern ref long StartAgainOf(DriverPool pool);

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_work")]
    private static extern ref object? WorkOf(DriverThread driver);

    private static FastCgiConnection<LinuxKernel> Waiting(EventLoop<LinuxKernel> loop) =>
        new(loop, descriptor: -1, isTcp: false) { Exchange = new Exchange(loop.Services) };

    // pids.max, as seen by whoever starts threads.
    private sealed class FewThreads(int allowed)
    {
        public int Allowed { get; set; } = allowed;

        private readonly List<Thread> _spares = [];
        private int _drivers;
        private int _refusals;

        public int Refusals => Volatile.Read(ref _refusals);

        public void Start(DriverThread driver)
        {
            Require();
            _drivers++;
            driver.Start();
        }

        public void Start(Thread spare)
        {
            Require();
            _spares.Add(spare);
            spare.UnsafeStart();
        }

        public void JoinSpares() => Assert.All(_spares, static spare => Assert.True(spare.Join(10_000), "a spare thread is still there"));

        private void Require()
        {
            if (_drivers + _spares.Count(static spare => spare.IsAlive) >= Allowed)
            {
                Interlocked.Increment(ref _refusals);
                throw new InsufficientMemoryException();
            }
        }
    }

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
