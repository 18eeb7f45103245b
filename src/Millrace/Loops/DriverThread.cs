// A thread of the pool (DriverPool.cs), as long as it lives: it drives a loop, runs a handler, looks for another one, or stands by.

using Millrace.Platform;

namespace Millrace.Loops;

/// <summary>One thread of the pool.</summary>
internal sealed class DriverThread(DriverPool pool, LoopServices services) : IStandbyDriver
{
    public static readonly object Retire = new();
    public static readonly object Seek = new();

    private readonly object _signal = new();
    private readonly LoopDriver _driver = new(services);
    private object? _work;

    public void Start()
    {
        var thread = new Thread(Run) { IsBackground = true, Name = "Millrace driver" };
        thread.UnsafeStart();
    }

    /// <summary>A loop to drive, a connection whose handler is to run, or a word: to look for such a connection, or to go.</summary>
    public void Give(object work)
    {
        Steady.Do(
            static given =>
            {
                lock (given.thread._signal)
                {
                    given.thread._work = given.work;
                    Monitor.Pulse(given.thread._signal);
                }
            },
            (thread: this, work));
    }

    private void Run()
    {
        BatchScheduling.BeginThread();
        LoopDriver driver = _driver;
        driver.BeginThread();
        object? next = null;
        while (true)
        {
            object work = next ?? Wait();
            switch (work)
            {
                case EventLoop loop:
                    services.Drive(loop, driver);
                    break;
                case Connection connection:
                    connection.RunOnWorker(driver);
                    break;
                case var word when word == Seek:
                    next = pool.NextFor(this, isSeeker: true);
                    continue;
                default:
                    return;
            }

            driver.RestoreContext();
            next = pool.NextFor(this);
        }
    }

    private object Wait()
    {
        while (true)
        {
            try
            {
                return WaitForWork();
            }
            catch (ThreadInterruptedException)
            {
                // Meant for a handler that has ended: the thread stands by as before.
            }
        }
    }

    private object WaitForWork()
    {
        lock (_signal)
        {
            while (_work is null)
            {
                if (!Monitor.Wait(_signal, pool.RetireAfter) && _work is null && pool.MayRetire(this))
                {
                    return Retire;
                }
            }

            object work = _work;
            _work = null;
            return work;
        }
    }
}
