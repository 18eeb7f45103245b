// The tables of `millrace pool list`: the pools of some processes, and below each its workers.

using System.Globalization;
using System.Text;
using Millrace.Command.Serving;
using Millrace.Command.Terminals;
using Millrace.Workers;
using Millrace.Workers.Control;

namespace Millrace.Command.Pools;

internal static class PoolTable
{
    private static readonly string[] s_heads = ["POOL", "PROCESS", "STATE", "WORKERS", "BUSY", "WAITING", "CALLS", "FAILED", "REFUSED", "OVER TIME", "GEN"];
    private static readonly string[] s_workerHeads = ["WORKER", "STATE", "PID OR THREAD", "CALLS", "MEAN", "P99", "LAST", "MEMORY", "UP", "RESTARTS", "LAST END", "BUSY WITH"];

    /// <param name="all">What processes have said.</param>
    /// <param name="only">The one pool that is wanted; null: all.</param>
    /// <param name="now">For how long something has been up.</param>
    public static string Of(IReadOnlyList<PoolsStatus> all, string? only, DateTimeOffset now)
    {
        (PoolsStatus Process, WorkerPoolStatus Pool)[] pools = [.. all.SelectMany(static process => process.Pools.Select(pool => (process, pool))).Where(each => only is null || each.pool.Name == only)];
        string[] lines = TextTable.Lines([s_heads, .. pools.Select(static each => Row(each.Process, each.Pool))]);
        var text = new StringBuilder().AppendLine(lines[0]);
        for (int i = 0; i < pools.Length; i++)
        {
            text.AppendLine(lines[i + 1]);
            if (pools[i].Pool.StartFailure is { } failure)
            {
                text.Append("    the last worker could not be made: ").AppendLine(CommandConsole.Readable(failure, keepsLines: true).Replace("\n", "\n        ", StringComparison.Ordinal));
            }
            WorkerStatus[] workers = [.. pools[i].Pool.Workers, .. pools[i].Pool.Stuck];
            if (workers.Length > 0)
            {
                text.Append("    ").AppendJoin("\n    ", TextTable.Lines([s_workerHeads, .. workers.Select(worker => Row(worker, now))])).AppendLine();
            }
        }
        return text.ToString().TrimEnd();
    }

    private static string[] Row(PoolsStatus process, WorkerPoolStatus pool) =>
    [
        pool.Name,
        process.Application.Length > 0 ? string.Create(CultureInfo.InvariantCulture, $"{process.Process} ({process.Application})") : Number(process.Process),
        pool.IsClosed ? "closed" : pool.IsHeld ? "held" : "open",
        string.Create(CultureInfo.InvariantCulture, $"{pool.Workers.Count} ({pool.Min}-{pool.Max})"),
        Number(pool.Running),
        Number(pool.Waiting),
        Number(pool.Calls),
        Number(pool.Failures),
        Number(pool.RefusedFull + pool.RefusedLate),
        Number(pool.OverTime),
        Number(pool.Generation),
    ];

    private static string[] Row(WorkerStatus worker, DateTimeOffset now) =>
    [
        Number(worker.Id),
        worker.State.ToString().ToLowerInvariant(),
        worker.ProcessId is { } process ? Number(process) : worker.ThreadId is { } thread ? string.Create(CultureInfo.InvariantCulture, $"thread {thread}") : "-",
        Number(worker.Calls),
        worker.Calls > 0 ? Time(worker.Mean) : "-",
        worker.Calls > 0 ? Time(worker.P99) : "-",
        worker.Calls > 0 ? Time(worker.Last) : "-",
        worker.Memory is { } bytes ? string.Create(CultureInfo.InvariantCulture, $"{bytes / 1_048_576} MiB") : "-",
        StatusTable.Span(now - worker.Started),
        Number(worker.Restarts),
        worker.RecentRestarts.Count > 0 ? worker.RecentRestarts[^1].Reason.ToString() : "-",
        worker.BusyFor is { } since ? $"{worker.BusyWith} for {Time(since)}" : "-",
    ];

    private static string Number(long number) => number.ToString(CultureInfo.InvariantCulture);

    private static string Time(TimeSpan time) => time.TotalSeconds >= 10
        ? StatusTable.Span(time)
        : string.Create(CultureInfo.InvariantCulture, $"{time.TotalMilliseconds:0.##}ms");
}
