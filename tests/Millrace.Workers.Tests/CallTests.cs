// One call: where it runs, what its caller has of it.

using System.Globalization;

namespace Millrace.Workers.Tests;

public sealed class CallTests
{
    public static TheoryData<bool> Kinds => [true, false];

    private static WorkerPool<Probe> Pool(bool isThreadBound, int max = 1) => new(static () => new Probe(), new() { Min = max, Max = max, ThreadBound = isThreadBound });

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task A_call_has_what_its_delegate_answers(bool isThreadBound)
    {
        await using var pool = Pool(isThreadBound);
        Assert.Equal(42, await pool.RunAsync(static (_, _) => 42));
        Assert.Equal("later", await pool.RunAsync(static async (_, _) =>
        {
            await Task.Yield();
            return "later";
        }));
        Assert.Equal(7, await pool.RunAsync(static (_, _) => ValueTask.FromResult(7)));
        bool isDone = false;
        await pool.RunAsync((_, _) => { isDone = true; });
        await pool.RunAsync(static (_, _) => Task.CompletedTask);
        await pool.RunAsync(static (_, _) => ValueTask.CompletedTask);
        Assert.True(isDone);
    }

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task What_a_call_throws_reaches_its_caller_and_the_worker_goes_on(bool isThreadBound)
    {
        await using var pool = Pool(isThreadBound);
        int number = await pool.RunAsync(static (worker, _) => worker.Number);
        var error = await Assert.ThrowsAsync<FormatException>(() => pool.RunAsync(static (_, _) => int.Parse("x", CultureInfo.InvariantCulture)));
        Assert.Contains(nameof(What_a_call_throws_reaches_its_caller_and_the_worker_goes_on), error.StackTrace, StringComparison.Ordinal);
        await Assert.ThrowsAsync<FormatException>(() => pool.RunAsync(static async (_, _) =>
        {
            await Task.Yield();
            throw new FormatException();
        }));
        Assert.Equal(number, await pool.RunAsync(static (worker, _) => worker.Number));
        Assert.Equal(2, pool.GetStatus().Failures);
    }

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task A_listener_of_the_meter_that_throws_costs_neither_a_call_nor_a_worker(bool isThreadBound)
    {
        using var listener = new System.Diagnostics.Metrics.MeterListener
        {
            InstrumentPublished = static (instrument, listener) =>
            {
                if (instrument.Meter.Name == "Millrace.Workers" && instrument.Name.Contains("duration", StringComparison.Ordinal))
                {
                    listener.EnableMeasurementEvents(instrument);
                }
            },
        };
        int heard = 0;
        listener.SetMeasurementEventCallback<double>((_, _, tags, _) =>
        {
            if (tags.ToArray().Contains(new KeyValuePair<string, object?>("pool", "heard")))
            {
                Interlocked.Increment(ref heard);
                throw new FormatException();
            }
        });
        listener.Start();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Name = "heard", Min = 1, Max = 1, ThreadBound = isThreadBound });

        int[] numbers = await Task.WhenAll(Enumerable.Range(0, 20).Select(_ => pool.RunAsync(static (worker, _) => worker.Number)));

        Assert.Single(numbers.Distinct());
        await Eventually.TrueAsync(() => Volatile.Read(ref heard) == 20, "all are heard of");
        Assert.Equal(WorkerState.Idle, Assert.Single(pool.GetStatus().Workers).State);
    }

    // Whoever ends a call may do so within a lock that another caller's call wants.
    [Fact]
    public async Task Behind_a_call_that_ends_on_a_thread_of_the_applications_the_next_one_runs_on_the_thread_pool()
    {
        await using var pool = Pool(isThreadBound: false);
        var end = new TaskCompletionSource();
        var began = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        Task first = pool.RunAsync(async (_, _) =>
        {
            began.SetResult();
            await end.Task;
        });
        await began.Task;
        object gate = new();
        Task<bool> next = pool.RunAsync((_, _) =>
        {
            lock (gate)
            {
                return Thread.CurrentThread.IsThreadPoolThread;
            }
        });
        bool hadIt = true;
        var own = new Thread(() =>
        {
            lock (gate)
            {
                end.SetResult();
                hadIt = next.IsCompleted;
            }
        });
        own.Start();
        Assert.True(own.Join(TimeSpan.FromSeconds(60)));

        Assert.True(await next);
        Assert.False(hadIt);
        await first;
    }

    // As a watchdog does that is a moment late.
    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task An_interruption_that_a_call_leaves_behind_hits_neither_the_pool_nor_another_call(bool isThreadBound)
    {
        const int Callers = 6, Calls = 10_000;
        var made = new System.Collections.Concurrent.ConcurrentBag<Probe>();
        var pool = new WorkerPool<Probe>(
            () =>
            {
                var probe = new Probe();
                made.Add(probe);
                return probe;
            },
            new() { Min = 2, Max = 4, ThreadBound = isThreadBound });

        int[] answers = await Task.WhenAll(Enumerable.Range(0, Callers).Select(_ => Task.Factory.StartNew(
            () => Enumerable.Range(0, Calls).Sum(_ => pool.RunAsync(Interrupted) is var call && call.Wait(TimeSpan.FromMinutes(1)) ? call.Result : 0),
            TestContext.Current.CancellationToken,
            TaskCreationOptions.LongRunning,
            TaskScheduler.Default)));
        await pool.DisposeAsync();

        Assert.All(answers, static sum => Assert.Equal(Calls, sum));
        Assert.All(made, static probe => Assert.NotEqual(0, probe.DisposedOn));

        static int Interrupted(Probe worker, CancellationToken ct)
        {
            Thread.SpinWait(Random.Shared.Next(200));
            Thread.CurrentThread.Interrupt();
            return 1;
        }
    }

    // Where a worker has no thread of its own, whoever comes next on that thread is a stranger.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task An_interruption_left_before_the_first_wait_of_a_call_or_of_a_factory_stays_with_no_thread_of_the_thread_pool(bool isFactory)
    {
        var thread = new TaskCompletionSource<Thread>(TaskCreationOptions.RunContinuationsAsynchronously);
        var end = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        await using var pool = new WorkerPool<Probe>(async _ =>
        {
            await (isFactory ? LeaveAsync() : Task.CompletedTask);
            return new Probe();
        }, new() { Max = 1, ThreadBound = false });
        Task call = pool.RunAsync((_, _) => isFactory ? Task.CompletedTask : LeaveAsync());
        Thread its = await thread.Task;

        // Until that thread has come to it, others are kept busy.
        int hits = 0;
        bool hasCome = false;
        for (int i = 0; i < 200 && !Volatile.Read(ref hasCome); i++)
        {
            await Task.WhenAll(Enumerable.Range(0, 2 * Environment.ProcessorCount).Select(_ => Task.Run(() =>
            {
                try
                {
                    Thread.Sleep(2);
                }
                catch (ThreadInterruptedException)
                {
                    Interlocked.Increment(ref hits);
                }
                Volatile.Write(ref hasCome, Volatile.Read(ref hasCome) || Thread.CurrentThread == its);
            }, TestContext.Current.CancellationToken)));
        }
        Assert.Equal(0, hits);
        end.SetResult();
        await call;

        async Task LeaveAsync()
        {
            Thread.CurrentThread.Interrupt();
            thread.SetResult(Thread.CurrentThread);
            await end.Task;
        }
    }

    [Fact]
    public void Who_was_interrupted_takes_the_lock_of_a_pool_all_the_same_and_is_interrupted_when_he_waits_himself()
    {
        var gate = new PoolLock(static () => { });
        using var isWaiting = new ManualResetEventSlim();
        bool hadLock = false, wasInterrupted = false;
        var other = new Thread(() =>
        {
            isWaiting.Set();
            using (gate.Enter())
            {
                hadLock = true;
            }
            wasInterrupted = Interruption.Forget();
        });
        using (gate.Enter())
        {
            other.Start();
            isWaiting.Wait(TestContext.Current.CancellationToken);
            Assert.True(SpinWait.SpinUntil(() => other.ThreadState.HasFlag(ThreadState.WaitSleepJoin), TimeSpan.FromSeconds(30)));
            other.Interrupt();
            Assert.True(SpinWait.SpinUntil(() => other.ThreadState.HasFlag(ThreadState.WaitSleepJoin), TimeSpan.FromSeconds(30)));
        }
        other.Join();

        Assert.True(hadLock);
        Assert.True(wasInterrupted);
    }

    [Fact]
    public async Task A_worker_is_made_called_and_disposed_of_on_one_thread()
    {
        Probe probe;
        await using (var pool = Pool(isThreadBound: true))
        {
            probe = await pool.RunAsync(static (worker, _) => worker);
            for (int i = 0; i < 20; i++)
            {
                Assert.Equal(probe.ThreadId, await pool.RunAsync(static (_, _) => Environment.CurrentManagedThreadId));
            }
        }
        Assert.Equal(probe.ThreadId, probe.DisposedOn);
    }

    [Fact]
    public async Task An_await_in_a_call_comes_back_to_the_workers_thread()
    {
        await using var pool = Pool(isThreadBound: true);
        int[] threads = await pool.RunAsync(static async (worker, ct) =>
        {
            var seen = new List<int> { worker.ThreadId, Environment.CurrentManagedThreadId };
            await Task.Yield();
            seen.Add(Environment.CurrentManagedThreadId);
            await Task.Run(static () => { }, ct);
            seen.Add(Environment.CurrentManagedThreadId);
            await Task.Delay(5, ct);
            seen.Add(Environment.CurrentManagedThreadId);
            return seen.ToArray();
        });
        Assert.Single(threads.Distinct());
    }

    [Fact]
    public async Task A_call_that_goes_on_elsewhere_ends_all_the_same()
    {
        await using var pool = Pool(isThreadBound: true);
        for (int i = 0; i < 100; i++)
        {
            await pool.RunAsync(static async (_, ct) => await Task.Run(static () => { }, ct).ConfigureAwait(false));
        }
        Assert.Equal(100, pool.GetStatus().Calls);
    }

    [Fact]
    public async Task A_factory_that_is_asynchronous_comes_back_to_the_workers_thread()
    {
        await using var pool = new WorkerPool<Probe>(static async ct =>
        {
            int before = Environment.CurrentManagedThreadId;
            await Task.Delay(1, ct);
            var probe = new Probe();
            Assert.Equal(before, probe.ThreadId);
            return probe;
        });
        Assert.True(await pool.RunAsync(static (worker, _) => worker.ThreadId == Environment.CurrentManagedThreadId));
    }

    [Fact]
    public async Task A_worker_that_is_disposed_of_asynchronously_is_waited_for()
    {
        var worker = new SlowToEnd();
        await using (var pool = new WorkerPool<SlowToEnd>(() => worker))
        {
            await pool.RunAsync(static (_, _) => 0);
        }
        Assert.True(worker.HasEnded);
        Assert.True(worker.CameBack);
    }

    private sealed class SlowToEnd : IAsyncDisposable
    {
        public bool HasEnded { get; private set; }

        public bool CameBack { get; private set; }

        public async ValueTask DisposeAsync()
        {
            int thread = Environment.CurrentManagedThreadId;
            await Task.Delay(20);
            CameBack = thread == Environment.CurrentManagedThreadId;
            HasEnded = true;
        }
    }

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task A_worker_is_used_by_one_call_at_a_time(bool isThreadBound)
    {
        int[] inside = new int[4];
        int next = -1;
        int wrong = 0;
        await using var pool = new WorkerPool<int[]>(() => [Interlocked.Increment(ref next)], new() { Min = 4, Max = 4, ThreadBound = isThreadBound });
        await Task.WhenAll(Enumerable.Range(0, 32).Select(async i =>
        {
            for (int n = 0; n < 200; n++)
            {
                await pool.RunAsync(async (worker, _) =>
                {
                    if (Interlocked.Increment(ref inside[worker[0]]) != 1)
                    {
                        Interlocked.Increment(ref wrong);
                    }
                    if ((n + i) % 3 == 0)
                    {
                        await Task.Yield();
                    }
                    Interlocked.Decrement(ref inside[worker[0]]);
                });
            }
        }));
        Assert.Equal(0, wrong);
        Assert.Equal(32 * 200, pool.GetStatus().Calls);
    }

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task A_call_runs_in_the_execution_context_of_its_caller(bool isThreadBound)
    {
        var local = new AsyncLocal<string>();
        await using var pool = Pool(isThreadBound);
        local.Value = "a";
        Assert.Equal("a", await pool.RunAsync((_, _) => local.Value));
        local.Value = "b";
        Assert.Equal("b", await pool.RunAsync(async (_, _) =>
        {
            await Task.Yield();
            return local.Value;
        }));
        Task<string?> without;
        using (ExecutionContext.SuppressFlow())
        {
            without = pool.RunAsync((_, _) => (string?)local.Value);
        }
        Assert.Null(await without);
    }

    [Fact]
    public async Task A_caller_never_goes_on_on_a_workers_thread()
    {
        await using var pool = Pool(isThreadBound: true);
        for (int i = 0; i < 50; i++)
        {
            int worker = await pool.RunAsync(static (worker, _) => worker.ThreadId);
            Assert.NotEqual(worker, Environment.CurrentManagedThreadId);
        }
    }

    // ---- cancellation ----

    [Fact]
    public async Task A_call_whose_caller_has_left_before_it_is_made_never_begins()
    {
        await using var pool = Pool(isThreadBound: true);
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => pool.RunAsync(static (_, _) => 0, new CancellationToken(true)));
        Assert.Equal(0, pool.GetStatus().Calls);
    }

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task A_call_that_runs_has_its_token_cancelled_with_its_callers(bool isThreadBound)
    {
        await using var pool = Pool(isThreadBound);
        using var leaving = new CancellationTokenSource();
        var began = new TaskCompletionSource();
        Task call = pool.RunAsync(async (_, ct) =>
        {
            began.SetResult();
            await Task.Delay(Timeout.Infinite, ct);
        }, leaving.Token);
        await began.Task;
        await leaving.CancelAsync();
        var error = await Assert.ThrowsAnyAsync<OperationCanceledException>(() => call);
        Assert.Equal(leaving.Token, error.CancellationToken);
        Assert.Equal(0, pool.GetStatus().Failures);
        Assert.Equal(1, await pool.RunAsync(static (_, _) => 1));
    }

    // ---- from inside a call ----

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task A_call_from_inside_a_call_of_the_same_pool_is_refused(bool isThreadBound)
    {
        await using var pool = Pool(isThreadBound);
        await Assert.ThrowsAsync<WorkerReentranceException>(() => pool.RunAsync((_, _) => pool.RunAsync(static (_, _) => 1)));
        await Assert.ThrowsAsync<WorkerReentranceException>(() => pool.RunAsync(async (_, ct) =>
            await Task.Run(async () => await pool.RunAsync(static (_, _) => 1), ct).ConfigureAwait(false)));
        await Assert.ThrowsAsync<WorkerReentranceException>(() => pool.RunAsync((_, ct) => pool.RunExclusiveAsync(static (_, _) => Task.CompletedTask, ct)));
        Assert.Equal(1, await pool.RunAsync(static (_, _) => 1));
    }

    [Fact]
    public async Task A_circle_over_another_pool_is_refused_and_another_pool_is_not()
    {
        await using var first = Pool(isThreadBound: true);
        await using var second = Pool(isThreadBound: true);
        Assert.Equal(5, await first.RunAsync((_, _) => second.RunAsync(static (_, _) => 5)));
        await Assert.ThrowsAsync<WorkerReentranceException>(() => first.RunAsync((_, _) => second.RunAsync((_, _) => first.RunAsync(static (_, _) => 5))));
    }

    [Fact]
    public async Task What_a_call_has_left_behind_may_call_when_the_call_has_ended()
    {
        await using var pool = Pool(isThreadBound: true);
        var go = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        Task<Task<int>> behind = pool.RunAsync((_, _) => Task.FromResult(Task.Run(async () =>
        {
            await go.Task;
            return await pool.RunAsync(static (_, _) => 3);
        })));
        Task<int> later = await behind;
        go.SetResult();
        Assert.Equal(3, await later);
    }

    [Fact]
    public async Task What_a_call_leaves_behind_and_throws_replaces_the_worker_and_is_said()
    {
        using var said = new Said();
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Max = 1 }, said);
        int number = await pool.RunAsync(static (worker, _) =>
        {
            SynchronizationContext.Current!.Post(static _ => throw new FormatException("left behind"), null);
            return worker.Number;
        });
        await Eventually.TrueAsync(() => said.Count(9) == 1, "the message");
        await Eventually.TrueAsync(() => pool.GetStatus().Ends.GetValueOrDefault(WorkerEnd.Error) == 1, "the end");
        Assert.NotEqual(number, await pool.RunAsync(static (worker, _) => worker.Number));
    }
}
