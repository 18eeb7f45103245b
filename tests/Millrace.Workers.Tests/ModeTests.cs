// Held, used exclusively, made otherwise, ended.

namespace Millrace.Workers.Tests;

public sealed class ModeTests
{
    // ---- hold ----

    [Fact]
    public async Task A_pool_that_is_held_lets_calls_end_and_has_others_wait_until_it_is_released()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Min = 2, Max = 2, QueueMax = 2 });
        Task running = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        Task held = pool.HoldAsync();
        Task<int> second = pool.RunAsync(static (_, _) => 2);
        Task<int> third = pool.RunAsync(static (_, _) => 3);
        await Assert.ThrowsAsync<WorkerQueueFullException>(() => pool.RunAsync(static (_, _) => 4));
        Assert.False(held.IsCompleted);
        gate.Open();
        await held;
        Assert.Equal((0, 2, true), (pool.GetStatus().Running, pool.GetStatus().Waiting, pool.GetStatus().IsHeld));
        pool.Release();
        await Task.WhenAll(running, second, third);
        pool.Release();
        Assert.False(pool.GetStatus().IsHeld);
    }

    [Fact]
    public async Task A_hold_is_bounded_by_the_time_that_calls_may_wait()
    {
        var time = new ManualTime();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Max = 1, WaitLimit = TimeSpan.FromSeconds(5), TimeProvider = time });
        await pool.HoldAsync();
        Task<int> call = pool.RunAsync(static (_, _) => 2);
        pool.Pass(time, TimeSpan.FromSeconds(5));
        var error = await Assert.ThrowsAsync<WorkerWaitException>(() => call);
        Assert.Contains("held", error.Message, StringComparison.Ordinal);
    }

    // ---- exclusive ----

    [Fact]
    public async Task In_exclusive_use_one_worker_lives_and_the_others_come_back_behind_it()
    {
        int alive = 0;
        using var gate = new Gate();
        await using var pool = new WorkerPool<Counted>(() => new Counted(() => Interlocked.Increment(ref alive), () => Interlocked.Decrement(ref alive)), new() { Min = 4, Max = 4 });
        await pool.WaitUntilReadyAsync();
        Task running = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        Task<int> exclusive = pool.RunExclusiveAsync(async (_, ct) =>
        {
            int before = Volatile.Read(ref alive);
            await Task.Delay(20, ct);
            return before + Volatile.Read(ref alive);
        });
        Task<int> other = pool.RunAsync(static (_, _) => 9);
        Assert.False(exclusive.IsCompleted);
        gate.Open();
        Assert.Equal(2, await exclusive);
        Assert.Equal(9, await other);
        await running;
        await Eventually.TrueAsync(() => Volatile.Read(ref alive) == 4, "the others");
    }

    // Its caller is answered at the limit, and it goes on for a while.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Nobody_is_beside_an_exclusive_use_whose_time_is_over_before_it_has_ended_or_is_given_up(bool ends)
    {
        var time = new ManualTime();
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Min = 2, Max = 2, CallLimit = TimeSpan.FromSeconds(10), CancelGrace = TimeSpan.FromSeconds(5), WaitLimit = TimeSpan.FromHours(1), TimeProvider = time });
        await pool.WaitUntilReadyAsync();
        Task<int> exclusive = pool.RunExclusiveAsync((_, _) => Task.FromResult(gate.Pass()));
        await gate.EnteredAsync();
        Task<int> other = pool.RunAsync(static (_, _) => 9);
        pool.Pass(time, TimeSpan.FromSeconds(10));
        _ = await Assert.ThrowsAsync<WorkerTimeLimitException>(() => exclusive);
        await Task.Delay(100);
        Assert.False(other.IsCompleted);
        if (ends)
        {
            gate.Open();
        }
        else
        {
            pool.Pass(time, TimeSpan.FromSeconds(5));
        }

        Assert.Equal(9, await other.WaitAsync(TimeSpan.FromSeconds(20)));
        gate.Open();
    }

    [Fact]
    public async Task A_swap_waits_for_the_end_of_an_exclusive_use()
    {
        using var gate = new Gate();
        int made = 0;
        await using var pool = new WorkerPool<string>(static () => "old", new() { Min = 2, Max = 2 });
        await pool.WaitUntilReadyAsync();
        Task<int> exclusive = pool.RunExclusiveAsync((_, _) => Task.FromResult(gate.Pass()));
        await gate.EnteredAsync();
        Task swap = pool.SwapAsync(() =>
        {
            Interlocked.Increment(ref made);
            return "new";
        });
        await Task.Delay(100);
        Assert.Equal(0, Volatile.Read(ref made));
        gate.Open();
        await exclusive;
        await swap.WaitAsync(TimeSpan.FromSeconds(20));
        Assert.Equal("new", await pool.RunAsync(static (worker, _) => worker));
    }

    [Fact]
    public async Task Two_exclusive_uses_come_one_after_the_other()
    {
        int inside = 0;
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Min = 3, Max = 3 });
        async Task<int> Enter(Probe probe, CancellationToken ct)
        {
            int now = Interlocked.Increment(ref inside);
            await Task.Delay(10, ct);
            Interlocked.Decrement(ref inside);
            return now;
        }
        int[] found = await Task.WhenAll(Enumerable.Range(0, 3).Select(_ => pool.RunExclusiveAsync<int>(Enter)));
        Assert.Equal([1, 1, 1], found);
    }

    [Fact]
    public async Task Who_gives_up_waiting_for_exclusive_use_lets_the_others_go_on()
    {
        using var gate = new Gate();
        using var leaving = new CancellationTokenSource();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Min = 2, Max = 2 });
        Task running = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        Task exclusive = pool.RunExclusiveAsync(static (_, _) => Task.CompletedTask, leaving.Token);
        Task<int> other = pool.RunAsync(static (_, _) => 9);
        await leaving.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => exclusive);
        Assert.Equal(9, await other);
        gate.Open();
        await running;
    }

    private sealed class Counted : IDisposable
    {
        private readonly Action _gone;

        public Counted(Action came, Action gone)
        {
            came();
            _gone = gone;
        }

        public void Dispose() => _gone();
    }

    // ---- swap ----

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Behind_a_swap_all_workers_are_of_the_new_generation_and_no_call_is_lost(bool isThreadBound)
    {
        await using var pool = new WorkerPool<string>(static () => "old", new() { Min = 3, Max = 3, ThreadBound = isThreadBound });
        using var stop = new CancellationTokenSource();
        Task<int>[] callers = [.. Enumerable.Range(0, 8).Select(_ => Task.Run(async () =>
        {
            int count = 0;
            while (!stop.IsCancellationRequested)
            {
                string made = await pool.RunAsync(static (worker, _) => worker);
                Assert.True(made is "old" or "new");
                count++;
            }
            return count;
        }))];
        await pool.SwapAsync(static () => "new");
        for (int i = 0; i < 20; i++)
        {
            Assert.Equal("new", await pool.RunAsync(static (worker, _) => worker));
        }
        await stop.CancelAsync();
        await Task.WhenAll(callers);
        WorkerPoolStatus status = pool.GetStatus();
        Assert.Equal(2, status.Generation);
        Assert.All(status.Workers, static worker => Assert.Equal(2, worker.Generation));
        Assert.Equal(3, status.Ends[WorkerEnd.Swapped] + status.Ends.GetValueOrDefault(WorkerEnd.Surplus));
        Assert.Equal(0, status.Failures);
    }

    [Fact]
    public async Task A_swap_whose_factory_fails_changes_nothing()
    {
        await using var pool = new WorkerPool<string>(static () => "old", new() { Min = 2, Max = 2 });
        await pool.WaitUntilReadyAsync();
        var error = await Assert.ThrowsAsync<WorkerStartException>(() => pool.SwapAsync(static () => throw new FormatException("new one broken")));
        Assert.Equal("new one broken", error.InnerException!.Message);
        Assert.Equal("old", await pool.RunAsync(static (worker, _) => worker));
        WorkerPoolStatus status = pool.GetStatus();
        Assert.Equal((1, 2, null), (status.Generation, status.Workers.Count, status.StartFailure));
        await pool.SwapAsync(static _ => Task.FromResult("better"));
        Assert.Equal("better", await pool.RunAsync(static (worker, _) => worker));
    }

    // Each further one would leave another thread behind, and what has been left so is no reason to leave a place empty.
    [Fact]
    public async Task Where_the_worker_that_a_swap_has_tried_is_stuck_no_other_swap_begins_and_workers_that_end_are_replaced()
    {
        var time = new ManualTime();
        using var gate = new Gate();
        int tries = 0;
        await using var pool = new WorkerPool<string>(static () => "old", new() { Max = 1, StuckMax = 0, StartLimit = TimeSpan.FromSeconds(60), TimeProvider = time });
        await pool.WaitUntilReadyAsync();
        string Hang()
        {
            Interlocked.Increment(ref tries);
            gate.Pass();
            return "new";
        }
        Task swap = pool.SwapAsync(Hang);
        await gate.EnteredAsync();
        pool.Pass(time, TimeSpan.FromSeconds(60));
        await Assert.ThrowsAsync<WorkerStartException>(() => swap);

        var refused = await Assert.ThrowsAsync<WorkerStartException>(() => pool.SwapAsync(Hang).WaitAsync(TimeSpan.FromSeconds(20)));
        Assert.Contains("the one that an earlier swap has tried is stuck, and is still being made", refused.Message, StringComparison.Ordinal);
        await Assert.ThrowsAsync<WorkerStartException>(() => pool.SwapAsync());
        Assert.Equal((1, 1), (tries, pool.GetStatus().Stuck.Count));
        Assert.True(pool.Recycle(1));
        Assert.Equal("old", await pool.RunAsync(static (worker, _) => worker).WaitAsync(TimeSpan.FromSeconds(20)));

        gate.Open();
        await Eventually.TrueAsync(() => pool.GetStatus().Stuck.Count == 0, "it comes back and ends");
        await pool.SwapAsync(Hang);
        Assert.Equal("new", await pool.RunAsync(static (worker, _) => worker));
    }

    // One that is tried is one more than there may be otherwise; were it always allowed, each swap would replace one that is stuck.
    [Fact]
    public async Task A_swap_is_refused_where_as_many_are_stuck_as_may_be_and_one_more()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<string>(static () => "old", new() { Max = 1, StuckMax = 0 });
        for (int i = 0; i < 2; i++)
        {
            Task call = pool.RunAsync((_, _) => gate.Pass());
            await gate.EnteredAsync();
            Assert.True(pool.Kill(1));
            await Assert.ThrowsAsync<WorkerKilledException>(() => call);
            if (i == 0)
            {
                await pool.SwapAsync(static () => "new");
            }
        }

        var refused = await Assert.ThrowsAsync<WorkerStartException>(() => pool.SwapAsync(static () => "third"));
        Assert.Contains("2 workers are stuck, and StuckMax is 0", refused.Message, StringComparison.Ordinal);
        gate.Open();
        Assert.Equal("new", await pool.RunAsync(static (worker, _) => worker).WaitAsync(TimeSpan.FromSeconds(20)));
    }

    [Fact]
    public async Task A_swap_waits_while_a_worker_of_an_earlier_one_is_there_beside_as_many_as_may_be()
    {
        using var gate = new Gate();
        using var leaving = new CancellationTokenSource();
        await using var pool = new WorkerPool<string>(static () => "old", new() { Max = 1, StuckMax = 0 });
        Task<int> running = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        Task left = pool.SwapAsync(static () => "second", leaving.Token);
        await Eventually.TrueAsync(() => pool.GetStatus().Generation == 2, "the second is there");
        await leaving.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => left);

        int made = 0;
        Task swap = pool.SwapAsync(() =>
        {
            Interlocked.Increment(ref made);
            return "third";
        });
        await Task.Delay(100);
        Assert.Equal(0, Volatile.Read(ref made));
        gate.Open();
        await running;
        await swap.WaitAsync(TimeSpan.FromSeconds(20));
        Assert.Equal("third", await pool.RunAsync(static (worker, _) => worker));
    }

    // More are stuck than may be replaced, so the pool is not whole, and will not be.
    [Theory]
    [InlineData(2)]
    [InlineData(3)]
    public async Task A_swap_ends_where_workers_that_are_stuck_keep_a_pool_from_being_whole(int stuck)
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<string>(static () => "old", new() { Min = 4, Max = 4, StuckMax = 0 });
        await pool.WaitUntilReadyAsync();
        for (int id = 1; id <= stuck; id++)
        {
            Task call = pool.RunAsync((_, _) => gate.Pass());
            await gate.EnteredAsync();
            Assert.True(pool.Kill(id));
            await Assert.ThrowsAsync<WorkerKilledException>(() => call);
        }

        await pool.SwapAsync(static () => "new").WaitAsync(TimeSpan.FromSeconds(20));
        Assert.Equal("new", await pool.RunAsync(static (worker, _) => worker));
        await Eventually.TrueAsync(() => pool.GetStatus().Workers.Count(static worker => worker is { Generation: 2, State: WorkerState.Idle }) == 4 - stuck, "as many as before");
        gate.Open();
    }

    [Fact]
    public async Task A_swap_waits_for_calls_of_the_old_generation()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<string>(static () => "old", new() { Max = 1 });
        Task<string> running = pool.RunAsync((worker, _) =>
        {
            gate.Pass();
            return worker;
        });
        await gate.EnteredAsync();
        Task swap = pool.SwapAsync(static () => "new");
        Assert.Equal("new", await pool.RunAsync(static (worker, _) => worker));
        Assert.False(swap.IsCompleted);
        gate.Open();
        Assert.Equal("old", await running);
        await swap;
        Assert.Single(pool.GetStatus().Workers);
    }

    [Fact]
    public async Task Exclusive_use_comes_about_also_where_it_is_asked_for_in_the_middle_of_a_swap()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<string>(static () => "old", new() { Min = 3, Max = 3 });
        await pool.WaitUntilReadyAsync();
        Task running = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        Task swap = pool.SwapAsync(static () => "new");
        await Eventually.TrueAsync(
            () => pool.GetStatus().Workers is { Count: 3 } workers && workers.Count(static worker => worker is { Generation: 2, State: WorkerState.Idle }) == 2, "the others are new");
        Task<int> exclusive = pool.RunExclusiveAsync(static (_, _) => Task.FromResult(5));
        gate.Open();
        Assert.Equal(5, await exclusive.WaitAsync(TimeSpan.FromSeconds(20)));
        await running;
        await swap;
    }

    // ---- the end ----

    [Fact]
    public async Task The_end_of_a_pool_lets_calls_end_that_wait_or_run_and_refuses_others()
    {
        using var gate = new Gate();
        var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Max = 1 });
        Task<int> running = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        Task<Probe> waiting = pool.RunAsync(static (worker, _) => worker);
        Task end = pool.DisposeAsync().AsTask();
        await Assert.ThrowsAsync<WorkerPoolClosedException>(() => pool.RunAsync(static (_, _) => 0));
        Assert.False(end.IsCompleted);
        gate.Open();
        await running;
        Probe probe = await waiting;
        await end;
        Assert.NotEqual(0, probe.DisposedOn);
        await pool.DisposeAsync();
        Assert.True(pool.GetStatus().IsClosed);
    }

    [Fact]
    public async Task Behind_the_drain_time_what_waits_is_refused_and_what_runs_is_cancelled_then_given_up()
    {
        using var gate = new Gate();
        using var said = new Said();
        var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Min = 2, Max = 2, DrainLimit = TimeSpan.FromMilliseconds(20), CancelGrace = TimeSpan.FromMilliseconds(50) }, said);
        await pool.WaitUntilReadyAsync();
        var began = new TaskCompletionSource();
        Task heeds = pool.RunAsync(async (_, ct) =>
        {
            began.SetResult();
            await Task.Delay(Timeout.Infinite, ct);
        });
        Task deaf = pool.RunAsync((_, _) => gate.Pass());
        await began.Task;
        await gate.EnteredAsync();
        Task waits = pool.RunAsync(static (_, _) => 0);
        await pool.DisposeAsync();
        await Assert.ThrowsAsync<WorkerPoolClosedException>(() => waits);
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => heeds);
        await Assert.ThrowsAsync<WorkerPoolClosedException>(() => deaf);
        Assert.Equal(1, said.Count(14));
        Assert.Single(pool.GetStatus().Stuck);
        gate.Open();
    }

    [Fact]
    public async Task The_end_of_a_pool_that_is_held_refuses_what_waits_at_once()
    {
        var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Max = 1 });
        await pool.HoldAsync();
        Task waits = pool.RunAsync(static (_, _) => 0);
        await pool.DisposeAsync();
        await Assert.ThrowsAsync<WorkerPoolClosedException>(() => waits);
    }

    [Fact]
    public async Task A_factory_is_told_that_the_pool_ends()
    {
        var pool = new WorkerPool<Probe>(static async ct =>
        {
            await Task.Delay(Timeout.Infinite, ct);
            return new Probe();
        }, new() { DrainLimit = TimeSpan.Zero });
        await pool.DisposeAsync();
        await Assert.ThrowsAsync<WorkerPoolClosedException>(() => pool.WaitUntilReadyAsync());
    }
}
