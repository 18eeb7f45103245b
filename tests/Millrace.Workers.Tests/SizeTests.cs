// How many workers there are, and when a fresh one takes the place of another. The clock stands still until the test sets it.

namespace Millrace.Workers.Tests;

public sealed class SizeTests
{
    private readonly ManualTime _time = new();

    private static int Ready(WorkerPool<Probe> pool) => pool.GetStatus().Workers.Count(static worker => worker.State is WorkerState.Idle or WorkerState.Busy);

    private static Task ReadyAsync(WorkerPool<Probe> pool, int count) => Eventually.TrueAsync(() => Ready(pool) == count && pool.GetStatus().Workers.Count == count, $"{count} workers");

    [Fact]
    public async Task A_pool_begins_with_as_many_workers_as_there_are_at_least()
    {
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Min = 3, Max = 8 });
        await pool.WaitUntilReadyAsync();
        Assert.Equal(3, Ready(pool));
    }

    [Fact]
    public async Task A_worker_is_warmed_up_before_its_first_call()
    {
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { WarmUp = static worker => worker.IsWarm = worker.ThreadId == Environment.CurrentManagedThreadId });
        Assert.True(await pool.RunAsync(static (worker, _) => worker.IsWarm));
    }

    [Fact]
    public async Task A_call_that_waits_is_a_reason_for_another_worker_behind_GrowAfter_and_not_before()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Min = 1, Max = 2, GrowAfter = TimeSpan.FromMinutes(1), WaitLimit = TimeSpan.FromHours(1), CallLimit = Timeout.InfiniteTimeSpan, TimeProvider = _time });
        Task first = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        Task second = pool.RunAsync((_, _) => gate.Pass());
        Task third = pool.RunAsync((_, _) => gate.Pass());
        pool.Pass(_time, TimeSpan.FromSeconds(59.9));
        Assert.Single(pool.GetStatus().Workers);
        pool.Pass(_time, TimeSpan.FromSeconds(0.1));
        await gate.EnteredAsync();
        pool.Pass(_time, TimeSpan.FromMinutes(5));
        Assert.Equal(2, pool.GetStatus().Workers.Count);     // Max
        gate.Open();
        await Task.WhenAll(first, second, third);
    }

    [Fact]
    public async Task Where_growth_waits_for_nothing_each_call_that_waits_starts_one()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Min = 0, Max = 4, GrowAfter = TimeSpan.Zero, TimeProvider = _time });
        Task[] all = [.. Enumerable.Range(0, 6).Select(_ => pool.RunAsync((_, _) => gate.Pass()))];
        for (int i = 0; i < 4; i++)
        {
            await gate.EnteredAsync();
        }
        Assert.Equal(4, pool.GetStatus().Workers.Count);
        gate.Open();
        await Task.WhenAll(all);
    }

    [Fact]
    public async Task A_worker_beyond_the_least_number_ends_when_it_has_been_idle_for_long_and_not_before()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Min = 1, Max = 3, GrowAfter = TimeSpan.Zero, IdleLimit = TimeSpan.FromMinutes(1), TimeProvider = _time });
        Task[] all = [.. Enumerable.Range(0, 3).Select(_ => pool.RunAsync((_, _) => gate.Pass()))];
        for (int i = 0; i < 3; i++)
        {
            await gate.EnteredAsync();
        }
        gate.Open();
        await Task.WhenAll(all);
        pool.Pass(_time, TimeSpan.FromSeconds(59.9));
        Assert.Equal(3, Ready(pool));
        pool.Pass(_time, TimeSpan.FromSeconds(0.1));
        await ReadyAsync(pool, 1);
        Assert.Equal(1, Assert.Single(pool.GetStatus().Workers).Id);
        Assert.Equal(2, pool.GetStatus().Ends[WorkerEnd.Idle]);
    }

    [Fact]
    public async Task A_pool_is_resized_while_it_works()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Min = 1, Max = 1, GrowAfter = TimeSpan.Zero });
        Task[] all = [.. Enumerable.Range(0, 3).Select(_ => pool.RunAsync((_, _) => gate.Pass()))];
        await gate.EnteredAsync();
        pool.Resize(3, 3);
        await gate.EnteredAsync();
        await gate.EnteredAsync();
        pool.Resize(0, 1);
        Assert.Equal(3, pool.GetStatus().Running);     // nobody is interrupted
        gate.Open();
        await Task.WhenAll(all);
        await ReadyAsync(pool, 1);
        Assert.Throws<ArgumentOutOfRangeException>(() => pool.Resize(2, 1));
        Assert.Throws<ArgumentOutOfRangeException>(() => pool.Resize(0, 0));
        Assert.Throws<ArgumentOutOfRangeException>(() => pool.Resize(0, 1_001));
    }

    // ---- a fresh one ----

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_worker_has_as_many_calls_as_it_may_and_is_replaced(bool isThreadBound)
    {
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Max = 1, RecycleAfterCalls = 3, RecycleJitter = 0, ThreadBound = isThreadBound });
        var numbers = new List<int>();
        for (int i = 0; i < 7; i++)
        {
            numbers.Add(await pool.RunAsync(static (worker, _) => worker.Number));
        }
        Assert.Equal([3, 3, 1], numbers.GroupBy(static number => number).Select(static group => group.Count()));
        WorkerStatus worker = Assert.Single(pool.GetStatus().Workers);
        Assert.Equal(2, worker.Restarts);
        Assert.All(worker.RecentRestarts, static end => Assert.Equal(WorkerEnd.Calls, end.Reason));
    }

    [Fact]
    public async Task Jitter_shortens_a_life_and_never_lengthens_it()
    {
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Max = 1, RecycleAfterCalls = 10, RecycleJitter = 0.5 });
        var numbers = new List<int>();
        for (int i = 0; i < 200; i++)
        {
            numbers.Add(await pool.RunAsync(static (worker, _) => worker.Number));
        }
        int[] lives = [.. numbers.GroupBy(static number => number).Select(static group => group.Count()).SkipLast(1)];
        Assert.All(lives, static life => Assert.InRange(life, 5, 10));
        Assert.True(lives.Distinct().Count() > 1, "all alike: " + string.Join(' ', lives));
    }

    [Fact]
    public async Task An_idle_worker_is_replaced_when_it_is_old_and_not_before()
    {
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Max = 1, RecycleAfter = TimeSpan.FromMinutes(10), RecycleJitter = 0, TimeProvider = _time });
        int number = await pool.RunAsync(static (worker, _) => worker.Number);
        pool.Pass(_time, TimeSpan.FromMinutes(9.99));
        Assert.Equal(number, await pool.RunAsync(static (worker, _) => worker.Number));
        pool.Pass(_time, TimeSpan.FromMinutes(0.01));
        Assert.NotEqual(number, await pool.RunAsync(static (worker, _) => worker.Number));
        Assert.Equal(1, pool.GetStatus().Ends[WorkerEnd.Age]);
    }

    // Nothing is due while it has a call without a limit: when that ends somebody has to think of its age again.
    [Fact]
    public async Task A_worker_is_replaced_when_it_is_old_also_where_the_pool_has_been_looked_at_while_it_had_a_call()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new()
        {
            Max = 1, RecycleAfter = TimeSpan.FromSeconds(2), RecycleJitter = 0, CallLimit = Timeout.InfiniteTimeSpan, WaitLimit = TimeSpan.FromMilliseconds(10),
        });
        await pool.WaitUntilReadyAsync(TestContext.Current.CancellationToken);
        Task call = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        await Assert.ThrowsAsync<WorkerWaitException>(() => pool.RunAsync(static (_, _) => 0));
        gate.Open();
        await call;
        await Eventually.TrueAsync(() => pool.GetStatus().Ends.GetValueOrDefault(WorkerEnd.Age) == 1, "the fresh one");
    }

    [Fact]
    public async Task A_worker_is_replaced_when_its_predicate_says_so_or_throws()
    {
        bool wants = false;
        bool throws = false;
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Max = 1, RecycleWhen = _ => throws ? throw new FormatException() : wants });
        int first = await pool.RunAsync(static (worker, _) => worker.Number);
        wants = true;
        Assert.Equal(first, await pool.RunAsync(static (worker, _) => worker.Number));
        wants = false;
        int second = await pool.RunAsync(static (worker, _) => worker.Number);
        Assert.NotEqual(first, second);
        throws = true;
        Assert.Equal(second, await pool.RunAsync(static (worker, _) => worker.Number));
        throws = false;
        Assert.NotEqual(second, await pool.RunAsync(static (worker, _) => worker.Number));
        Assert.Equal(2, pool.GetStatus().Ends[WorkerEnd.Predicate]);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_worker_that_throws_is_replaced_if_that_is_wanted(bool isWanted)
    {
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Max = 1, RecycleOnError = isWanted });
        int number = await pool.RunAsync(static (worker, _) => worker.Number);
        await Assert.ThrowsAsync<FormatException>(() => pool.RunAsync(static (_, _) => throw new FormatException()));
        Assert.Equal(isWanted, number != await pool.RunAsync(static (worker, _) => worker.Number));
        number = await pool.RunAsync(static (worker, _) => worker.Number);
        await Assert.ThrowsAsync<TaskCanceledException>(() => pool.RunAsync(static (_, _) => throw new OperationCanceledException()));
        Assert.Equal(number, await pool.RunAsync(static (worker, _) => worker.Number));
    }

    [Fact]
    public async Task A_worker_is_replaced_when_somebody_asks_for_it_and_its_call_ends_first()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Max = 1 });
        Task call = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        Assert.False(pool.Recycle(0));
        Assert.False(pool.Recycle(2));
        Assert.True(pool.Recycle(1));
        Assert.Equal(WorkerState.Busy, Assert.Single(pool.GetStatus().Workers).State);
        gate.Open();
        await call;
        await Eventually.TrueAsync(() => pool.GetStatus().Ends.GetValueOrDefault(WorkerEnd.Recycled) == 1 && Ready(pool) == 1, "the fresh one");
        Assert.True(pool.Recycle(1));
        await Eventually.TrueAsync(() => pool.GetStatus().Ends.GetValueOrDefault(WorkerEnd.Recycled) == 2 && Ready(pool) == 1, "the next one");
    }

    // ---- one that cannot be made ----

    [Fact]
    public async Task A_worker_that_cannot_be_made_is_tried_again_behind_a_pause_that_doubles()
    {
        using var said = new Said();
        int tries = 0;
        bool works = false;
        await using var pool = new WorkerPool<Probe>(
            () => Interlocked.Increment(ref tries) > 0 && Volatile.Read(ref works) ? new Probe() : throw new FormatException("no licence"),
            new() { Max = 1, StartPause = TimeSpan.FromSeconds(10), StartPauseMax = TimeSpan.FromSeconds(25), WaitLimit = TimeSpan.FromMinutes(1), TimeProvider = _time }, said);
        var error = await Assert.ThrowsAsync<WorkerStartException>(() => pool.WaitUntilReadyAsync());
        Assert.IsType<FormatException>(error.InnerException);
        Assert.Equal("no licence", pool.GetStatus().StartFailure);
        foreach (double seconds in (double[])[10, 20, 25, 25])
        {
            int before = tries;
            pool.Pass(_time, TimeSpan.FromSeconds((seconds * 0.8) - 0.1));
            Assert.Equal(before, tries);
            pool.Pass(_time, TimeSpan.FromSeconds((seconds * 0.2) + 0.2));
            await Eventually.TrueAsync(() => said.Count(3) == before + 1, "the next try");
        }
        Task<int> call = pool.RunAsync(static (worker, _) => worker.Number);
        pool.Pass(_time, TimeSpan.FromMinutes(2));
        var late = await Assert.ThrowsAsync<WorkerWaitException>(() => call);
        Assert.IsType<FormatException>(late.InnerException);
        await Eventually.TrueAsync(() => said.Count(3) == 6, "the sixth failure");
        Volatile.Write(ref works, true);
        call = pool.RunAsync(static (worker, _) => worker.Number);
        pool.Pass(_time, TimeSpan.FromSeconds(30));
        Assert.True(await call > 0);
        Assert.Null(pool.GetStatus().StartFailure);
    }

    [Fact]
    public async Task A_warm_up_that_throws_is_a_failed_start_and_the_worker_is_disposed_of()
    {
        Probe? made = null;
        await using var pool = new WorkerPool<Probe>(() => made = new Probe(), new() { Max = 1, WarmUp = static _ => throw new FormatException("cold") });
        var error = await Assert.ThrowsAsync<WorkerStartException>(() => pool.WaitUntilReadyAsync());
        Assert.Equal("cold", error.InnerException!.Message);
        Assert.NotEqual(0, made!.DisposedOn);
    }

    [Fact]
    public async Task A_factory_that_hangs_is_given_up_and_another_is_tried()
    {
        using var gate = new Gate();
        int tries = 0;
        await using var pool = new WorkerPool<Probe>(() =>
        {
            if (Interlocked.Increment(ref tries) == 1)
            {
                gate.Pass();
            }
            return new Probe();
        }, new() { Max = 1, StartLimit = TimeSpan.FromSeconds(60), TimeProvider = _time });
        await gate.EnteredAsync();
        pool.Pass(_time, TimeSpan.FromSeconds(59));
        Assert.Equal(1, tries);
        pool.Pass(_time, TimeSpan.FromSeconds(1));
        pool.Pass(_time, TimeSpan.FromSeconds(0.1));        // StartPause
        Assert.Equal(1, await pool.RunAsync(static (_, _) => 1));
        Assert.Equal(WorkerState.Stuck, Assert.Single(pool.GetStatus().Stuck).State);
        gate.Open();
        await Eventually.TrueAsync(() => pool.GetStatus().Stuck.Count == 0, "the late one ends");
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_factory_that_hangs_is_one_that_cannot_make_a_worker_and_is_asked_again_behind_the_pause_only(bool isThreadBound)
    {
        using var gate = new Gate();
        using var said = new Said();
        int tries = 0;
        await using var pool = new WorkerPool<Probe>(() =>
        {
            Interlocked.Increment(ref tries);
            gate.Pass();
            throw new FormatException("no licence, after all");
        }, new() { Max = 1, ThreadBound = isThreadBound, StartLimit = TimeSpan.FromSeconds(60), StartPause = TimeSpan.FromSeconds(10), DrainLimit = TimeSpan.Zero, TimeProvider = _time }, said);
        Task ready = pool.WaitUntilReadyAsync(TestContext.Current.CancellationToken);
        await gate.EnteredAsync();
        pool.Pass(_time, TimeSpan.FromSeconds(59.9));
        Assert.False(ready.IsCompleted);
        Assert.Null(pool.GetStatus().StartFailure);

        pool.Pass(_time, TimeSpan.FromSeconds(0.1));
        var error = await Assert.ThrowsAsync<WorkerStartException>(() => ready.WaitAsync(TimeSpan.FromSeconds(20)));
        Assert.IsType<TimeoutException>(error.InnerException);
        Assert.StartsWith("It was still being made after 60 s (StartLimit)", pool.GetStatus().StartFailure, StringComparison.Ordinal);
        pool.Pass(_time, TimeSpan.FromSeconds(7.9));
        Assert.Equal(1, tries);
        pool.Pass(_time, TimeSpan.FromSeconds(2.1));
        await gate.EnteredAsync();
        Assert.Equal(2, tries);
        await Eventually.TrueAsync(() => said.Count(3) == 1 && said.Count(4) == 1, "both messages");

        gate.Open();        // the first throws behind its end, the second within its time
        await Eventually.TrueAsync(() => said.Count(21) == 1 && said.Count(3) == 2, "why");
        Assert.Equal(2, said.All.Count(static message => message is { Id: 3 or 21, Error: FormatException }));
        Assert.Equal("no licence, after all", pool.GetStatus().StartFailure);
    }
}
