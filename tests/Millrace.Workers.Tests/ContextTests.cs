// What a call finds where it runs: nothing of what another one has set there. And what is sent to a worker's thread: it runs, or is refused.

using System.Diagnostics.CodeAnalysis;
using System.Globalization;

namespace Millrace.Workers.Tests;

[SuppressMessage("Usage", "xUnit1051", Justification = "They are short.")]
public sealed class ContextTests
{
    private static readonly AsyncLocal<string?> s_local = new();

    private static (string? Local, string Culture, Type? Context) Seen() => (s_local.Value, CultureInfo.CurrentCulture.NumberFormat.NegativeSign, SynchronizationContext.Current?.GetType());

    private static void Set(string text)
    {
        s_local.Value = text;
        SetCulture();
        SynchronizationContext.SetSynchronizationContext(new SynchronizationContext());
    }

    private static void SetCulture()
    {
        var culture = (CultureInfo)CultureInfo.InvariantCulture.Clone();
        culture.NumberFormat.NegativeSign = "minus";
        CultureInfo.CurrentCulture = culture;
    }

    [Theory]
    [InlineData(true, true)]
    [InlineData(true, false)]
    [InlineData(false, true)]
    [InlineData(false, false)]
    public async Task What_a_call_sets_is_not_there_for_the_next_one_with_and_without_flow(bool isThreadBound, bool flows)
    {
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Min = 1, Max = 1, ThreadBound = isThreadBound });
        var before = await Start(flows, () => pool.RunAsync(static (_, _) => Seen()));
        await pool.HoldAsync();
        List<Task> all = [];
        List<Task<(string?, string, Type?)>> seen = [];
        for (int i = 0; i < 3; i++)     // in one turn of its worker
        {
            all.Add(Start(flows, () => pool.RunAsync(static (_, _) => Set("sync"))));
            seen.Add(Start(flows, () => pool.RunAsync(static (_, _) => Seen())));
            all.Add(Start(flows, () => pool.RunAsync(static async (_, _) =>
            {
                Set("async");
                await Task.Yield();
                s_local.Value = "behind";
                SetCulture();
            })));
            seen.Add(Start(flows, () => pool.RunAsync(static (_, _) => Seen())));
        }
        pool.Release();
        await Task.WhenAll(all);
        Assert.All(await Task.WhenAll(seen), it => Assert.Equal(before, it));
        Assert.Equal(isThreadBound ? typeof(WorkerContext) : null, before.Context);

        static T Start<T>(bool flows, Func<T> call)
        {
            if (flows)
            {
                return call();
            }
            using (ExecutionContext.SuppressFlow())
            {
                return call();
            }
        }
    }

    // A job that starts its next run from what it leaves behind; with two pools the call before is around the next one when that is made, and is over when that one is.
    [Theory]
    [InlineData(true, 1)]
    [InlineData(false, 1)]
    [InlineData(true, 2)]
    [InlineData(false, 2)]
    public async Task A_call_that_comes_of_an_earlier_one_does_not_keep_what_came_of_it(bool isThreadBound, int pools)
    {
        const int Runs = 50;
        WorkerPool<Probe>[] all = [.. Enumerable.Range(0, pools).Select(_ => new WorkerPool<Probe>(static () => new Probe(), new() { Min = 2, Max = 2, ThreadBound = isThreadBound }))];
        List<WeakReference> results = [];
        object? kept = null;        // what the last call has left behind keeps that one
        var last = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        _ = Start(0, Task.CompletedTask);
        await last.Task.WaitAsync(Eventually.Limit);

        await Eventually.TrueAsync(() =>
        {
            GC.Collect();
            lock (results)
            {
                return results.Count > Runs && results.Count(static result => result.IsAlive) <= 3;
            }
        }, "what earlier calls have answered is let go");
        GC.KeepAlive(kept);
        foreach (WorkerPool<Probe> pool in all)
        {
            await pool.DisposeAsync();
        }

        async Task Start(int run, Task before)
        {
            var isOver = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            await all[run % pools].RunAsync(async (_, _) =>
            {
                var next = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
                if (run == Runs)
                {
                    kept = ExecutionContext.Capture();
                    last.SetResult();
                }
                else
                {
                    _ = Task.Run(() => GoOnAsync(run, before, isOver.Task, next), CancellationToken.None);
                    await (pools > 1 ? next.Task : Task.CompletedTask);
                }
                object result = new byte[10];
                lock (results)
                {
                    results.Add(new WeakReference(result));
                }
                return result;
            });
            isOver.SetResult();
        }

        async Task GoOnAsync(int run, Task before, Task own, TaskCompletionSource next)
        {
            await (pools > 1 ? before : own);
            _ = Start(run + 1, own);
            next.SetResult();
        }
    }

    [Fact]
    public async Task What_is_posted_to_a_workers_thread_leaves_nothing_there()
    {
        await using var pool = new WorkerPool<Probe>(static () => new Probe(), new() { Min = 1, Max = 1 });
        var before = await pool.RunAsync(static (_, _) => Seen());
        SynchronizationContext context = await pool.RunAsync(static (_, _) => SynchronizationContext.Current!);
        context.Post(static _ => Set("posted"), null);
        (string?, string, Type?) behind = default;
        context.Send(_ => behind = Seen(), null);
        Assert.Equal(before, behind);
        Assert.Equal(before, await pool.RunAsync(static (_, _) => Seen()));
    }

    // ---- sent to a worker's thread ----

    [Fact]
    public async Task What_is_sent_to_a_worker_runs_on_its_thread_and_what_it_throws_comes_back()
    {
        await using var pool = new WorkerPool<Probe>(static () => new Probe());
        (Probe worker, SynchronizationContext context) = await pool.RunAsync(static (worker, _) => (worker, SynchronizationContext.Current!));
        int thread = 0;
        context.Send(_ => thread = Environment.CurrentManagedThreadId, null);
        Assert.Equal(worker.ThreadId, thread);
        Assert.Throws<FormatException>(() => context.Send(static _ => throw new FormatException(), null));
        thread = await pool.RunAsync((_, _) =>
        {
            SynchronizationContext.SetSynchronizationContext(null);
            int here = 0;
            context.Send(_ => here = Environment.CurrentManagedThreadId, null);
            return here;
        }).WaitAsync(Eventually.Limit);
        Assert.Equal(worker.ThreadId, thread);
    }

    [Fact]
    public async Task What_is_sent_to_a_worker_that_has_ended_is_refused()
    {
        SynchronizationContext context;
        await using (var pool = new WorkerPool<Probe>(static () => new Probe()))
        {
            context = await pool.RunAsync(static (_, _) => SynchronizationContext.Current!);
        }
        bool hasRun = false;
        Task sent = Task.Run(() => context.Send(_ => hasRun = true, null));
        await Assert.ThrowsAsync<ObjectDisposedException>(() => sent.WaitAsync(Eventually.Limit));
        Assert.False(hasRun);
    }

    [Fact]
    public async Task What_waits_for_a_workers_thread_when_that_ends_is_refused()
    {
        Task? sent = null;
        bool hasRun = false;
        await using var pool = new WorkerPool<Probe>(Make);
        await Assert.ThrowsAsync<WorkerStartException>(() => pool.WaitUntilReadyAsync());
        await Assert.ThrowsAsync<ObjectDisposedException>(() => sent!.WaitAsync(Eventually.Limit));
        Assert.False(hasRun);

        Probe Make()
        {
            SynchronizationContext context = SynchronizationContext.Current!;
            var end = new TaskCompletionSource();
            var sender = new Thread(() =>
            {
                try
                {
                    context.Send(_ => hasRun = true, null);
                    end.SetResult();
                }
                catch (ObjectDisposedException error)
                {
                    end.SetException(error);
                }
            }) { IsBackground = true };
            sender.Start();
            sent ??= end.Task;
            SpinWait.SpinUntil(() => (sender.ThreadState & ThreadState.WaitSleepJoin) != 0, Eventually.Limit);
            throw new FormatException();
        }
    }

    [Fact]
    public async Task Whatever_is_sent_while_a_worker_ends_runs_or_is_refused()
    {
        for (int i = 0; i < 200; i++)
        {
            var pool = new WorkerPool<Probe>(static () => new Probe());
            SynchronizationContext context = await pool.RunAsync(static (_, _) => SynchronizationContext.Current!);
            Task<int> sending = Task.Run(() =>
            {
                for (int sent = 0, run = 0; ; sent++)
                {
                    try
                    {
                        context.Send(_ => run++, null);
                    }
                    catch (ObjectDisposedException)
                    {
                        return sent - run;
                    }
                }
            });
            await pool.DisposeAsync();
            Assert.Equal(0, await sending.WaitAsync(Eventually.Limit));
        }
    }
}
