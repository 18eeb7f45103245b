// What a call through a pool costs, against a raw call and against a pool written the usual way, from 1 to 64 callers. All take turns in one run; the figure is the median of the rounds.
//
//   dotnet run -c Release --project bench/Millrace.Bench.Workers [-- ROUNDS [MILLISECONDS [WORKERS]]]

using System.Diagnostics;
using System.Globalization;
using Millrace.Workers;

int rounds = args.Length > 0 ? int.Parse(args[0], CultureInfo.InvariantCulture) : 7;
int milliseconds = args.Length > 1 ? int.Parse(args[1], CultureInfo.InvariantCulture) : 500;
int workers = args.Length > 2 ? int.Parse(args[2], CultureInfo.InvariantCulture) : Environment.ProcessorCount;

var raw = new Counter();
using var usual = new UsualPool<Counter>(static () => new Counter(), workers);
await using var bound = new WorkerPool<Counter>(static () => new Counter(), new() { Min = workers, Max = workers });
await using var free = new WorkerPool<Counter>(static () => new Counter(), new() { Min = workers, Max = workers, ThreadBound = false });

(string Name, Func<Task> Call)[] kinds =
[
    ("raw call", () => { raw.Add(); return Task.CompletedTask; }),
    ("usual way (SemaphoreSlim, threads)", () => usual.RunAsync(static (counter, _) => counter.Add(), default)),
    ("pool, a thread each", () => bound.RunAsync(static (counter, _) => counter.Add())),
    ("pool, no thread of its own", () => free.RunAsync(static (counter, _) => counter.Add())),
];

Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"{Environment.ProcessorCount} processors, {workers} workers; median of {rounds} rounds of {milliseconds} ms in turns"));
Console.WriteLine($"{"",-36}{"callers",8}{"calls/s",12}{"us/call",10}{"CPU us",9}{"bytes",8}");
foreach (int callers in (int[])[1, 4, 16, 64])
{
    var found = kinds.ToDictionary(static kind => kind.Name, static _ => new List<Figure>());
    for (int round = -1; round < rounds; round++)
    {
        foreach (var (name, call) in kinds)
        {
            Figure figure = await MeasureAsync(call, callers, round < 0 ? milliseconds / 2 : milliseconds);
            if (round >= 0)
            {
                found[name].Add(figure);
            }
        }
    }
    foreach (var (name, _) in kinds)
    {
        Figure median = found[name].OrderBy(static figure => figure.PerCall).ElementAt(rounds / 2);
        Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"{name,-36}{callers,8}{1e6 / median.PerCall,12:N0}{median.PerCall,10:0.00}{median.Cpu,9:0.00}{median.Bytes,8:0}"));
    }
}

static async Task<Figure> MeasureAsync(Func<Task> call, int callers, int milliseconds)
{
    long count = 0;
    GC.Collect();
    long bytes = GC.GetTotalAllocatedBytes();
    TimeSpan cpu = Environment.CpuUsage.TotalTime;
    var watch = Stopwatch.StartNew();
    await Task.WhenAll(Enumerable.Range(0, callers).Select(_ => Task.Run(async () =>
    {
        long own = 0;
        while (watch.ElapsedMilliseconds < milliseconds)
        {
            await call();
            own++;
        }
        Interlocked.Add(ref count, own);
    })));
    double time = watch.Elapsed.TotalMicroseconds;
    return new Figure(time / count, (Environment.CpuUsage.TotalTime - cpu).TotalMicroseconds / count, (GC.GetTotalAllocatedBytes() - bytes) / (double)count);
}

internal sealed class Counter
{
    private long _value;

    public long Add() => ++_value;
}

internal readonly record struct Figure(double PerCall, double Cpu, double Bytes);
