// A call that does not end: its caller is answered, its worker given up, another one takes its place, and all of that is bounded and said.

using System.Diagnostics;

namespace Millrace.Workers.Tests;

public sealed class TimeLimitTests
{
    private readonly ManualTime _time = new();

    private WorkerPoolOptions<Probe> Options(int max = 1) => new()
    {
        Min = max, Max = max, CallLimit = TimeSpan.FromSeconds(10), CancelGrace = TimeSpan.FromSeconds(1), WaitLimit = TimeSpan.FromHours(1), TimeProvider = _time,
    };

    [Fact]
    public async Task The_caller_of_a_call_that_hangs_is_answered_at_its_limit_and_not_before()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), Options());
        Task<int> call = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        pool.Pass(_time, TimeSpan.FromSeconds(9.999));
        Assert.False(call.IsCompleted);
        pool.Pass(_time, TimeSpan.FromSeconds(0.001));
        var error = await Assert.ThrowsAsync<WorkerTimeLimitException>(() => call);
        Assert.Equal(1, error.Worker);
        Assert.Equal(1, pool.GetStatus().OverTime);
        gate.Open();
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Its_worker_is_given_up_behind_the_grace_another_serves_and_it_is_said_with_what_the_kernel_knows(bool isThreadBound)
    {
        using var gate = new Gate();
        using var said = new Said();
        WorkerPoolOptions<Probe> options = Options();
        options.ThreadBound = isThreadBound;
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), options, said);
        Task<int> call = pool.RunAsync((_, _) => gate.Pass(), name: "the one that hangs");
        await gate.EnteredAsync();
        pool.Pass(_time, TimeSpan.FromSeconds(10));
        pool.Pass(_time, TimeSpan.FromSeconds(0.9));
        Assert.Equal(WorkerState.Busy, Assert.Single(pool.GetStatus().Workers).State);
        pool.Pass(_time, TimeSpan.FromSeconds(0.1));
        Assert.Equal(7, await pool.RunAsync(static (_, _) => 7));

        WorkerStatus stuck = Assert.Single(pool.GetStatus().Stuck);
        Assert.Equal((WorkerState.Stuck, "the one that hangs", TimeSpan.FromSeconds(11)), (stuck.State, stuck.BusyWith, stuck.BusyFor));
        await Eventually.TrueAsync(() => said.Count(4) == 1, "the message");
        string text = Assert.Single(said.All, static message => message.Id == 4).Text;
        Assert.Contains("the one that hangs", text, StringComparison.Ordinal);
        if (isThreadBound)
        {
            Assert.Contains($"Its thread is {stuck.ThreadId}, state ", text, StringComparison.Ordinal);
        }

        gate.Open();
        await Eventually.TrueAsync(() => pool.GetStatus().Stuck.Count == 0 && said.Count(5) == 1, "it comes back and ends");
        await Assert.ThrowsAsync<WorkerTimeLimitException>(() => call);
        Assert.Equal(1, pool.GetStatus().Ends[WorkerEnd.CallLimit]);
    }

    // A process that was stopped, or a machine that was busy: the call hears of its limit when nobody would have waited for it any more.
    [Theory]
    [InlineData(10.3)]
    [InlineData(11)]
    [InlineData(100)]
    public async Task Its_grace_begins_when_it_is_told_however_late_that_is(double seconds)
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), Options());
        Task<int> call = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        pool.Pass(_time, TimeSpan.FromSeconds(seconds));
        await Assert.ThrowsAsync<WorkerTimeLimitException>(() => call);
        pool.Pass(_time, TimeSpan.FromSeconds(0.999));
        Assert.Equal(WorkerState.Busy, Assert.Single(pool.GetStatus().Workers).State);
        Assert.Empty(pool.GetStatus().Stuck);

        pool.Pass(_time, TimeSpan.FromSeconds(0.001));
        Assert.Single(pool.GetStatus().Stuck);
        gate.Open();
    }

    [Fact]
    public async Task A_call_that_heeds_its_token_costs_no_worker()
    {
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), Options());
        int number = await pool.RunAsync(static (worker, _) => worker.Number);
        var began = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        Task call = pool.RunAsync(async (_, ct) =>
        {
            began.SetResult();
            await Task.Delay(Timeout.Infinite, ct);
        });
        await began.Task;
        pool.Pass(_time, TimeSpan.FromSeconds(10));
        await Assert.ThrowsAsync<WorkerTimeLimitException>(() => call);
        Assert.Equal(number, await pool.RunAsync(static (worker, _) => worker.Number));
        Assert.Empty(pool.GetStatus().Ends);
    }

    [Fact]
    public async Task A_call_that_ends_in_time_is_none_of_it()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), Options());
        Task<int> call = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        pool.Pass(_time, TimeSpan.FromSeconds(9));
        gate.Open();
        _ = await call;
        pool.Pass(_time, TimeSpan.FromHours(1));
        Assert.Equal(0, pool.GetStatus().OverTime);
    }

    [Fact]
    public async Task As_many_stuck_workers_as_may_be_are_replaced_and_no_more_until_one_comes_back()
    {
        using var said = new Said();
        WorkerPoolOptions<Probe> options = Options();
        options.StuckMax = 2;
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), options, said);
        Gate[] gates = [new(), new(), new()];
        foreach (Gate gate in gates)
        {
            Task<int> call = pool.RunAsync((_, _) => gate.Pass());
            await gate.EnteredAsync();
            pool.PassGrace(_time);
            await Assert.ThrowsAsync<WorkerTimeLimitException>(() => call);
        }
        Assert.Equal(3, pool.GetStatus().Stuck.Count);
        Assert.Empty(pool.GetStatus().Workers);
        await Eventually.TrueAsync(() => said.Count(6) == 1, "the message");

        Task<int> waits = pool.RunAsync(static (_, _) => 5);
        pool.Pass(_time, TimeSpan.FromMinutes(1));
        Assert.Equal(1, pool.GetStatus().Waiting);
        gates[1].Open();
        Assert.Equal(5, await waits);
        Assert.Equal(1, said.Count(6));
        foreach (Gate gate in gates)
        {
            gate.Open();
        }
        await Eventually.TrueAsync(() => pool.GetStatus().Stuck.Count == 0, "all come back");
        foreach (Gate gate in gates)
        {
            gate.Dispose();
        }
    }

    [Fact]
    public async Task A_stuck_worker_that_waits_is_interrupted_if_that_is_wanted_and_its_stack_is_said()
    {
        using var gate = new Gate();
        using var said = new Said();
        WorkerPoolOptions<Probe> options = Options();
        options.InterruptStuck = true;
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), options, said);
        Task<int> call = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        pool.PassGrace(_time);
        await Assert.ThrowsAsync<WorkerTimeLimitException>(() => call);
        await Eventually.TrueAsync(() => said.Count(7) == 1, "the stack");
        Assert.Contains("Gate.Pass", Assert.Single(said.All, static message => message.Id == 7).Error!.StackTrace, StringComparison.Ordinal);
        await Eventually.TrueAsync(() => pool.GetStatus().Stuck.Count == 0, "its thread is free");
    }

    [Fact]
    public async Task A_caller_has_its_exception_within_50_ms_of_its_limit()
    {
        using var gate = new Gate();
        var found = new List<double>();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Max = 1, CallLimit = TimeSpan.FromMilliseconds(40), StuckMax = 30, CancelGrace = TimeSpan.Zero });
        while (found.Count < 25 && !found.Exists(IsInTime))     // once is enough to tell; on a busy machine it need not be the first time
        {
            await pool.WaitUntilReadyAsync();
            var watch = new Stopwatch();
            Task<int> call = pool.RunAsync((_, _) =>
            {
                watch.Start();
                return gate.Pass();
            });
            await Assert.ThrowsAsync<WorkerTimeLimitException>(() => call);
            found.Add(watch.Elapsed.TotalMilliseconds - 40);
        }
        Assert.Contains(found, IsInTime);
        gate.Open();

        // The limit counts from the moment at which a worker is chosen, which may be a while before its thread runs.
        static bool IsInTime(double late) => late is > -5 and < 50;
    }

    // ---- killed ----

    [Fact]
    public async Task The_caller_of_a_worker_that_is_killed_is_answered_and_another_serves()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), Options());
        Task<int> call = pool.RunAsync((_, _) => gate.Pass());
        await gate.EnteredAsync();
        Assert.False(pool.Kill(2));
        Assert.True(pool.Kill(1));
        var error = await Assert.ThrowsAsync<WorkerKilledException>(() => call);
        Assert.Equal(1, error.Worker);
        Assert.Equal(1, await pool.RunAsync(static (_, _) => 1));
        gate.Open();
        await Eventually.TrueAsync(() => pool.GetStatus().Stuck.Count == 0, "it comes back and ends");
        Assert.Equal(1, pool.GetStatus().Ends[WorkerEnd.Killed]);
    }

    [Fact]
    public async Task An_idle_worker_that_is_killed_is_replaced()
    {
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), Options());
        Probe first = await pool.RunAsync(static (worker, _) => worker);
        Assert.True(pool.Kill(1));
        Assert.NotEqual(first.Number, await pool.RunAsync(static (worker, _) => worker.Number));
        Assert.Equal(first.ThreadId, first.DisposedOn);
    }

    [Fact]
    public async Task A_worker_whose_disposing_hangs_is_given_up_and_replaced()
    {
        using var gate = new Gate();
        await using var pool = new WorkerPool<Hanging>(() => new Hanging(gate), new() { Max = 1, EndLimit = TimeSpan.FromSeconds(30), TimeProvider = _time });
        await pool.RunAsync(static (_, _) => 0);
        Assert.True(pool.Recycle(1));
        await gate.EnteredAsync();
        pool.Pass(_time, TimeSpan.FromSeconds(29));
        Assert.Equal(WorkerState.Ending, Assert.Single(pool.GetStatus().Workers).State);
        pool.Pass(_time, TimeSpan.FromSeconds(1));
        Assert.Equal(1, await pool.RunAsync(static (_, _) => 1));
        Assert.Single(pool.GetStatus().Stuck);
        gate.Open();
    }

    private sealed class Hanging(Gate gate) : IDisposable
    {
        public void Dispose() => gate.Pass();
    }
}
