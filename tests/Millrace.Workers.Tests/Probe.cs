// What the tests have pools of: a worker that says where it was made, and who it is; and ways to wait for what must happen.

using System.Collections.Concurrent;
using System.Diagnostics;
using Microsoft.Extensions.Logging;

namespace Millrace.Workers.Tests;

internal sealed class Probe : IDisposable
{
    private static int s_count;

    public int Number { get; } = Interlocked.Increment(ref s_count);

    public int ThreadId { get; } = Environment.CurrentManagedThreadId;

    public bool IsWarm { get; set; }

    /// <summary>The thread on which it was disposed of; 0: it was not.</summary>
    public int DisposedOn { get; private set; }

    public void Dispose() => DisposedOn = Environment.CurrentManagedThreadId;
}

/// <summary>A call that a test ends when it likes.</summary>
internal sealed class Gate : IDisposable
{
    private readonly ManualResetEventSlim _open = new();
    private readonly SemaphoreSlim _entered = new(0);

    /// <summary>Blocks its thread until the gate is opened, and heeds no token.</summary>
    public int Pass()
    {
        _ = _entered.Release();
        _open.Wait();
        return Environment.CurrentManagedThreadId;
    }

    public void Open() => _open.Set();

    /// <summary>Ends when a call has come to the gate.</summary>
    public async Task EnteredAsync() => Assert.True(await _entered.WaitAsync(Eventually.Limit), "no call has begun");

    public void Dispose()
    {
        _open.Set();
        _open.Dispose();
        _entered.Dispose();
    }
}

internal static class Eventually
{
    public static readonly TimeSpan Limit = TimeSpan.FromSeconds(60);

    public static async Task TrueAsync(Func<bool> isSo, string what)
    {
        var watch = Stopwatch.StartNew();
        while (!isSo())
        {
            Assert.True(watch.Elapsed < Limit, $"not within {Limit.TotalSeconds} s: {what}");
            await Task.Delay(1);
        }
    }

    /// <summary>Ten seconds, which is the limit of a call, and the second of its grace.</summary>
    public static void PassGrace<TWorker>(this WorkerPool<TWorker> pool, ManualTime time)
    {
        pool.Pass(time, TimeSpan.FromSeconds(10));
        pool.Pass(time, TimeSpan.FromSeconds(1));
    }

    /// <summary>Has a clock that tests set go on.</summary>
    public static void Pass<TWorker>(this WorkerPool<TWorker> pool, ManualTime time, TimeSpan by)
    {
        time.Advance(by);
        pool.Look();
    }
}

/// <summary>A clock that stands still until it is told otherwise.</summary>
internal sealed class ManualTime : TimeProvider
{
    private long _ticks = TimeSpan.TicksPerDay;

    public override long TimestampFrequency => TimeSpan.TicksPerSecond;

    public override long GetTimestamp() => Volatile.Read(ref _ticks);

    public override DateTimeOffset GetUtcNow() => new(GetTimestamp() + TimeSpan.TicksPerDay, TimeSpan.Zero);

    public void Advance(TimeSpan by) => Interlocked.Add(ref _ticks, by.Ticks);
}

/// <summary>Keeps what a pool says.</summary>
internal sealed class Said : ILoggerFactory, ILogger
{
    private readonly ConcurrentQueue<(int Id, string Text, Exception? Error)> _all = new();

    public IEnumerable<(int Id, string Text, Exception? Error)> All => _all;

    public int Count(int id) => _all.Count(message => message.Id == id);

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
        _all.Enqueue((eventId.Id, formatter(state, exception), exception));

    public ILogger CreateLogger(string categoryName) => this;

    public bool IsEnabled(LogLevel logLevel) => true;

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    public void AddProvider(ILoggerProvider provider)
    {
    }

    public void Dispose()
    {
    }
}
