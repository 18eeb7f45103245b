// A call that has been given to a worker and not begun: once its caller has been answered it never begins, and its worker is free.

using System.Diagnostics.CodeAnalysis;

namespace Millrace.Workers.Tests;

[Collection(AloneCollection.Name)]
public sealed class BeginTests
{
    private readonly ManualTime _time = new();

    private WorkerPool<Probe> Pool(bool isThreadBound) => new(static () => new Probe(), new()
    {
        Min = 1, Max = 1, CallLimit = TimeSpan.FromSeconds(10), CancelGrace = TimeSpan.FromSeconds(1), WaitLimit = TimeSpan.FromHours(1), TimeProvider = _time, ThreadBound = isThreadBound,
    });

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_call_that_its_worker_has_not_begun_at_its_limit_never_begins_and_costs_no_worker(bool isThreadBound)
    {
        await using var pool = Pool(isThreadBound);
        bool hasBegun = false;
        int number;
        Task call;
        using (var holdUp = await HoldUp.AtAsync(pool, isThreadBound))
        {
            number = holdUp.Number;
            call = pool.RunAsync((_, _) => { hasBegun = true; });
            Assert.Equal(WorkerState.Busy, Assert.Single(pool.GetStatus().Workers).State);
            pool.Pass(_time, TimeSpan.FromSeconds(10));
            Assert.IsType<WorkerTimeLimitException>(call.Exception?.InnerException);
            if (!isThreadBound)
            {
                pool.Pass(_time, TimeSpan.FromHours(1));        // it is not to blame
            }
        }
        Assert.Equal(number, await pool.RunAsync(static (worker, _) => worker.Number));
        Assert.False(hasBegun);
        WorkerPoolStatus status = pool.GetStatus();
        Assert.Equal((0, 0, 1), (status.Stuck.Count, status.Ends.Count, status.OverTime));
        Assert.Equal(2, status.Calls);
    }

    [Fact]
    public async Task A_worker_whose_thread_does_not_come_to_its_call_is_given_up_behind_the_grace()
    {
        await using var pool = Pool(isThreadBound: true);
        bool hasBegun = false;
        using (await HoldUp.AtAsync(pool, isThreadBound: true))
        {
            Task call = pool.RunAsync((_, _) => { hasBegun = true; });
            pool.PassGrace(_time);
            await Assert.ThrowsAsync<WorkerTimeLimitException>(() => call);
            Assert.Equal(3, await pool.RunAsync(static (_, _) => 3));
            Assert.Single(pool.GetStatus().Stuck);
        }
        await Eventually.TrueAsync(() => pool.GetStatus().Stuck.Count == 0, "it comes back and ends");
        Assert.False(hasBegun);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_call_whose_worker_is_killed_before_it_begins_never_begins(bool isThreadBound)
    {
        await using var pool = Pool(isThreadBound);
        bool hasBegun = false;
        using (await HoldUp.AtAsync(pool, isThreadBound))
        {
            Task call = pool.RunAsync((_, _) => { hasBegun = true; });
            Assert.True(pool.Kill(1));
            Assert.IsType<WorkerKilledException>(call.Exception?.InnerException);
        }
        Assert.Equal(3, await pool.RunAsync(static (_, _) => 3));
        await Eventually.TrueAsync(() => pool.GetStatus().Stuck.Count == 0, "it comes back and ends");
        Assert.False(hasBegun);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_caller_that_leaves_before_its_call_begins_is_answered_at_once_and_it_never_begins(bool isThreadBound)
    {
        await using var pool = Pool(isThreadBound);
        bool hasBegun = false;
        int number;
        using (var holdUp = await HoldUp.AtAsync(pool, isThreadBound))
        {
            number = holdUp.Number;
            using var leaving = new CancellationTokenSource();
            Task call = pool.RunAsync((_, _) => { hasBegun = true; }, leaving.Token);
            leaving.Cancel();
            Assert.True(call.IsCanceled);
            pool.Pass(_time, TimeSpan.FromSeconds(10));
        }
        Assert.Equal(number, await pool.RunAsync(static (worker, _) => worker.Number));
        Assert.False(hasBegun);
        Assert.Equal(0, pool.GetStatus().OverTime);
    }

    /// <summary>Until it is disposed of, an idle worker does not come to what it is given: its thread is busy with what a call has left behind, or the thread pool with something else. What runs
    /// meanwhile must not wait for the thread pool.</summary>
    private sealed class HoldUp : IDisposable
    {
        private readonly ManualResetEventSlim _over = new();
        private readonly CountdownEvent _held = new(1);

        public int Number { get; private init; }

        [SuppressMessage("Usage", "xUnit1051", Justification = "It is short.")]
        public static async Task<HoldUp> AtAsync(WorkerPool<Probe> pool, bool isThreadBound)
        {
            (int number, SynchronizationContext? context) = await pool.RunAsync(static (worker, _) => (worker.Number, SynchronizationContext.Current));
            var holdUp = new HoldUp { Number = number };
            if (isThreadBound)
            {
                using var entered = new ManualResetEventSlim();
                context!.Post(_ => holdUp.Wait(entered), null);
                entered.Wait();
                return holdUp;
            }
            ThreadPool.GetMinThreads(out int threads, out _);
            for (int i = 0; i < threads + 200; i++)     // it makes one more each half second
            {
                holdUp._held.AddCount();
                _ = ThreadPool.UnsafeQueueUserWorkItem(_ => holdUp.Wait(null), null);
            }
            return holdUp;
        }

        public void Dispose()
        {
            _over.Set();
            _ = _held.Signal();
            _held.Wait();
        }

        private void Wait(ManualResetEventSlim? entered)
        {
            entered?.Set();
            _over.Wait();
            if (entered is null)
            {
                _ = _held.Signal();
            }
        }
    }
}

/// <summary>Tests that keep the thread pool busy run by themselves, after all others.</summary>
[CollectionDefinition(Name, DisableParallelization = true)]
[SuppressMessage("Naming", "CA1711", Justification = "It is a collection of tests.")]
public sealed class AloneCollection
{
    public const string Name = "alone";
}
