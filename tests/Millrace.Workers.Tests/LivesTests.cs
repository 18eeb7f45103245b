// Everything at once, by chance: calls of all kinds, callers that leave, workers that throw, cannot be made, are killed, recycled and swapped, a pool that is held, resized and used exclusively.
// Whatever happens: each call is answered once, no worker is used by two, there are never too many, each that was made is disposed of, and in the end the pool still serves.

using System.Collections.Concurrent;

namespace Millrace.Workers.Tests;

public sealed class LivesTests
{
    private const int Max = 6;
    private const int StuckMax = 3;
    private const int Callers = 24;
    private const int CallsEach = 100;

    private int _alive;
    private int _aliveMost;
    private int _made;
    private int _disposed;
    private int _wrong;

    [Theory]
    [InlineData(true, 1)]
    [InlineData(true, 2)]
    [InlineData(false, 3)]
    [InlineData(false, 4)]
    public async Task Whatever_happens_to_a_pool_its_promises_hold(bool isThreadBound, int seed)
    {
        int tries = 0;
        var pool = new WorkerPool<Life>(() => new Life(this, new Random((seed * 10_000) + Interlocked.Increment(ref tries))), new()
        {
            Name = "lives", Min = 1, Max = Max, ThreadBound = isThreadBound, QueueMax = 20, WaitLimit = TimeSpan.FromSeconds(60), GrowAfter = TimeSpan.FromMilliseconds(1), IdleLimit = TimeSpan.FromMilliseconds(100),
            RecycleAfterCalls = 97, RecycleOnError = seed % 2 == 0, StuckMax = StuckMax, StartPause = TimeSpan.FromMilliseconds(1), StartPauseMax = TimeSpan.FromMilliseconds(5),
        });
        using var stop = new CancellationTokenSource();
        Task trouble = Task.Run(() => TroubleAsync(pool, new Random(seed), stop.Token));
        var answers = new ConcurrentDictionary<string, int>();
        Task calls = Task.WhenAll(Enumerable.Range(0, Callers).Select(caller => Task.Run(() => CallAsync(pool, new Random((seed * 1_000) + caller), answers))));
        await EndsAsync(calls, pool);
        await stop.CancelAsync();
        await EndsAsync(trouble, pool);

        pool.Release();
        pool.Resize(2, 2);
        Assert.Equal(1, await pool.RunAsync(static (_, _) => 1));
        await Eventually.TrueAsync(() => pool.GetStatus() is { Stuck.Count: 0, Waiting: 0, Running: 0 } status && status.Workers.Count == 2, "what was lost has come back");
        await pool.DisposeAsync();

        Assert.Equal(0, _wrong);
        Assert.Equal(Callers * CallsEach, answers.Values.Sum());
        Assert.True(answers["done"] > Callers * CallsEach / 4, string.Join(", ", answers));
        Assert.Equal(0, _alive);
        Assert.Equal(_made, _disposed);
        Assert.True(_aliveMost <= Max + StuckMax + 1, $"{_aliveMost} workers at once");
        Assert.DoesNotContain(answers.Keys, static answer => answer is not ("done" or "thrown" or "left" or nameof(WorkerQueueFullException) or nameof(WorkerKilledException)));
    }

    private static async Task EndsAsync(Task task, WorkerPool<Life> pool)
    {
        if (await Task.WhenAny(task, Task.Delay(TimeSpan.FromMinutes(2))) != task)
        {
            WorkerPoolStatus status = pool.GetStatus();
            Assert.Fail($"{status}\n{string.Join('\n', status.Workers.Concat(status.Stuck))}");
        }
        await task;
    }

    private static async Task CallAsync(WorkerPool<Life> pool, Random random, ConcurrentDictionary<string, int> answers)
    {
        for (int i = 0; i < CallsEach; i++)
        {
            using var leaving = new CancellationTokenSource();
            if (random.Next(10) == 0)
            {
                leaving.CancelAfter(random.Next(3));
            }
            int kind = random.Next(20);
            string answer;
            try
            {
                await pool.RunAsync((worker, ct) => worker.UseAsync(kind, ct), leaving.Token);
                answer = "done";
            }
            catch (FormatException)
            {
                answer = "thrown";
            }
            catch (OperationCanceledException)
            {
                answer = "left";
            }
            catch (WorkerPoolException refused)
            {
                answer = refused.GetType().Name;
                await Task.Delay(1);
            }
            answers.AddOrUpdate(answer, 1, static (_, count) => count + 1);
        }
    }

    private async Task TroubleAsync(WorkerPool<Life> pool, Random random, CancellationToken ct)
    {
        while (!ct.IsCancellationRequested)
        {
            switch (random.Next(7))
            {
                case 0:
                    _ = pool.Kill(random.Next(1, Max + 1));
                    break;
                case 1:
                    _ = pool.Recycle(random.Next(1, Max + 1));
                    break;
                case 2:
                    int min = random.Next(3);
                    pool.Resize(min, random.Next(Math.Max(1, min), Max + 1));
                    break;
                case 3:
                    await pool.HoldAsync(CancellationToken.None);
                    pool.Release();
                    break;
                case 4:
                    try
                    {
                        await pool.SwapAsync(() => new Life(this, new Random(random.Next())), CancellationToken.None);
                    }
                    catch (WorkerStartException)
                    {
                        // The new one was one of those that cannot be made, or was killed.
                    }
                    break;
                case 5:
                    await pool.RunExclusiveAsync(static (worker, token) => worker.UseAsync(2, token, mustBeAlone: true), CancellationToken.None);
                    break;
                default:
                    _ = pool.GetStatus();
                    break;
            }
            await Task.Delay(random.Next(4), CancellationToken.None);
        }
    }

    private sealed class Life : IAsyncDisposable
    {
        private readonly LivesTests _test;
        private int _inside;

        public Life(LivesTests test, Random random)
        {
            _test = test;
            if (random.Next(10) == 0)
            {
                throw new FormatException("cannot be made");
            }
            Interlocked.Increment(ref test._made);
            int alive = Interlocked.Increment(ref test._alive);
            InterlockedMax(ref test._aliveMost, alive);
        }

        public async Task UseAsync(int kind, CancellationToken ct, bool mustBeAlone = false)
        {
            if (Interlocked.Increment(ref _inside) != 1 || (mustBeAlone && Volatile.Read(ref _test._alive) != 1))
            {
                Interlocked.Increment(ref _test._wrong);
            }
            try
            {
                switch (kind)
                {
                    case 0:
                        throw new FormatException();
                    case 1:
                        await Task.Delay(2, ct);
                        break;
                    case 2:
                        await Task.Yield();
                        break;
                    case 3:
                        await Task.Yield();
                        throw new FormatException();
                    case 4:
                        Thread.Sleep(1);
                        break;
                }
            }
            finally
            {
                Interlocked.Decrement(ref _inside);
            }
        }

        public async ValueTask DisposeAsync()
        {
            await Task.Yield();
            if (Volatile.Read(ref _inside) != 0)
            {
                Interlocked.Increment(ref _test._wrong);
            }
            Interlocked.Increment(ref _test._disposed);
            Interlocked.Decrement(ref _test._alive);
        }

        private static void InterlockedMax(ref int target, int value)
        {
            int seen;
            while ((seen = Volatile.Read(ref target)) < value && Interlocked.CompareExchange(ref target, value, seen) != seen)
            {
            }
        }
    }
}
