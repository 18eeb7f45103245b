// Calls that wait: in order, bounded in number and time, and free to leave.

using System.Collections.Concurrent;
using System.Diagnostics;

namespace Millrace.Workers.Tests;

public sealed class QueueTests
{
    public static TheoryData<bool> Kinds => [true, false];

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task Who_comes_first_is_served_first(bool isThreadBound)
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Max = 1, ThreadBound = isThreadBound });
        Task first = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        var order = new ConcurrentQueue<int>();
        Task[] all = [.. Enumerable.Range(0, 100).Select(i => pool.RunAsync((_, _) => order.Enqueue(i)))];
        gate.Open();
        await Task.WhenAll([first, .. all]);
        Assert.Equal(Enumerable.Range(0, 100), order);
    }

    [Fact]
    public async Task One_more_call_than_may_wait_is_refused()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Name = "small", Max = 1, QueueMax = 2 });
        Task first = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        Task second = pool.RunAsync(static (_, _) => 0);
        Task third = pool.RunAsync(static (_, _) => 0);
        var error = await Assert.ThrowsAsync<WorkerQueueFullException>(() => pool.RunAsync(static (_, _) => 0));
        Assert.Equal("small", error.Pool);
        Assert.Contains("1 of 1 workers are busy", error.Message, StringComparison.Ordinal);
        gate.Open();
        await Task.WhenAll(first, second, third);
        Assert.Equal(1, pool.GetStatus().RefusedFull);
    }

    [Theory]
    [InlineData(0, true)]
    [InlineData(0, false)]
    [InlineData(1, true)]
    [InlineData(1, false)]
    public async Task Where_no_call_may_wait_a_pool_serves_as_many_as_it_may_have_workers_and_refuses_the_next(int min, bool isThreadBound)
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Min = min, Max = 3, QueueMax = 0, ThreadBound = isThreadBound, GrowAfter = TimeSpan.FromHours(1) });
        Task[] all = [.. Enumerable.Range(0, 3).Select(_ => pool.RunAsync((_, _) => gate.Pass()))];
        Assert.DoesNotContain(all, static call => call.IsFaulted);
        await Assert.ThrowsAsync<WorkerQueueFullException>(() => pool.RunAsync(static (_, _) => 0));
        for (int i = 0; i < 3; i++)
        {
            await gate.EnteredAsync();
        }
        var error = await Assert.ThrowsAsync<WorkerQueueFullException>(() => pool.RunAsync(static (_, _) => 0));
        Assert.Contains("3 of 3 workers are busy, 0 are starting", error.Message, StringComparison.Ordinal);
        gate.Open();
        await Task.WhenAll(all);
        Assert.Equal(0, await pool.RunAsync(static (_, _) => 0));
        Assert.Equal(2, pool.GetStatus().RefusedFull);
    }

    [Fact]
    public async Task Where_no_call_may_wait_none_waits_for_a_pool_that_is_held_or_a_worker_that_cannot_be_made()
    {
        var time = new ManualTime();
        await using var pool = new WorkerPool<Probe>(static () => throw new FormatException("no licence"), new() { Min = 0, Max = 3, QueueMax = 0, StartPause = TimeSpan.FromSeconds(10), WaitLimit = TimeSpan.FromSeconds(30), TimeProvider = time });
        await pool.HoldAsync();
        await Assert.ThrowsAsync<WorkerQueueFullException>(() => pool.RunAsync(static (_, _) => 0));
        pool.Release();
        Task first = pool.RunAsync(static (_, _) => 0);
        Assert.False(first.IsFaulted);
        await Eventually.TrueAsync(() => pool.GetStatus() is { StartFailure: not null, Workers.Count: 0 }, "the failure");
        await Assert.ThrowsAsync<WorkerQueueFullException>(() => pool.RunAsync(static (_, _) => 0));
        pool.Pass(time, TimeSpan.FromSeconds(30));
        Assert.IsType<FormatException>((await Assert.ThrowsAsync<WorkerWaitException>(() => first)).InnerException);
    }

    [Fact]
    public async Task A_call_that_has_waited_for_as_long_as_it_may_is_refused_and_not_a_moment_before()
    {
        using var gate = new Gate();
        var time = new ManualTime();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Max = 1, WaitLimit = TimeSpan.FromSeconds(30), TimeProvider = time });
        Task first = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        Task second = pool.RunAsync(static (_, _) => 0);
        pool.Pass(time, TimeSpan.FromSeconds(15));
        Task third = pool.RunAsync(static (_, _) => 0);
        pool.Pass(time, TimeSpan.FromSeconds(14.999));
        Assert.Equal(2, pool.GetStatus().Waiting);
        pool.Pass(time, TimeSpan.FromSeconds(0.001));
        await Assert.ThrowsAsync<WorkerWaitException>(() => second);
        Assert.Equal(1, pool.GetStatus().Waiting);
        gate.Open();
        await Task.WhenAll(first, third);
        Assert.Equal(1, pool.GetStatus().RefusedLate);
    }

    [Fact]
    public async Task The_limit_holds_by_itself()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Max = 1, WaitLimit = TimeSpan.FromMilliseconds(30) });
        Task first = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        var watch = Stopwatch.StartNew();
        await Assert.ThrowsAsync<WorkerWaitException>(() => pool.RunAsync(static (_, _) => 0));
        Assert.True(watch.ElapsedMilliseconds >= 29, $"after {watch.ElapsedMilliseconds} ms");
        gate.Open();
        await first;
    }

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task A_call_whose_caller_leaves_leaves_the_queue_and_the_others_keep_their_order(bool isThreadBound)
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Max = 1, ThreadBound = isThreadBound });
        Task first = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        var order = new ConcurrentQueue<int>();
        using var leaving = new CancellationTokenSource();
        Task[] all = [.. Enumerable.Range(0, 9).Select(i => pool.RunAsync((_, _) => order.Enqueue(i), i is 0 or 4 or 8 ? leaving.Token : default))];
        Assert.Equal(9, pool.GetStatus().Waiting);
        await leaving.CancelAsync();
        Assert.Equal(6, pool.GetStatus().Waiting);
        foreach (int i in (int[])[0, 4, 8])
        {
            var error = await Assert.ThrowsAnyAsync<OperationCanceledException>(() => all[i]);
            Assert.Equal(leaving.Token, error.CancellationToken);
        }
        gate.Open();
        await Task.WhenAll(all.Where(static task => !task.IsCanceled).Append(first));
        Assert.Equal([1, 2, 3, 5, 6, 7], order);
        Assert.Equal(3, pool.GetStatus().LeftQueue);
    }

    // ---- routing ----

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task The_first_free_worker_has_all_calls_that_come_one_after_another(bool isThreadBound)
    {
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Min = 4, Max = 4, ThreadBound = isThreadBound });
        await pool.WaitUntilReadyAsync();
        for (int i = 0; i < 100; i++)
        {
            await pool.RunAsync(static (_, _) => 0);
        }
        Assert.Equal([100, 0, 0, 0], pool.GetStatus().Hits);
    }

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task Round_robin_gives_each_the_same_number(bool isThreadBound)
    {
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Min = 4, Max = 4, ThreadBound = isThreadBound, Routing = WorkerRouting.RoundRobin });
        await pool.WaitUntilReadyAsync();
        for (int i = 0; i < 100; i++)
        {
            await pool.RunAsync(static (_, _) => 0);
        }
        Assert.Equal([25, 25, 25, 25], pool.GetStatus().Hits);
    }

    [Fact]
    public async Task The_hits_of_the_places_show_how_many_workers_a_load_needs()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Min = 5, Max = 5 });
        await pool.WaitUntilReadyAsync();
        Task[] three = [.. Enumerable.Range(0, 3).Select(_ => pool.RunAsync((_, _) => gate.Pass()))];
        await gate.EnteredAsync();
        gate.Open();
        await Task.WhenAll(three);
        Assert.Equal([1, 1, 1, 0, 0], pool.GetStatus().Hits);
    }
}
