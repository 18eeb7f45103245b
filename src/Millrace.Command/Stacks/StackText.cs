// The stacks of a process as a person reads them: threads that do the same stand together, and those that wait for something to do are only counted.

using System.Globalization;

namespace Millrace.Command.Stacks;

internal static class StackText
{
    /// <summary>Lines that are told of one process.</summary>
    public const int LinesMax = 250;

    private const int ThreadsMax = 8;       // of a group, that are named

    public static IReadOnlyList<string> Lines(IReadOnlyList<ThreadStack> stacks)
    {
        var busy = stacks.Where(static stack => stack.Methods.Count > 0 && !IsIdle(stack)).GroupBy(static stack => string.Join('\n', stack.Methods)).ToList();
        var lines = busy
            .OrderByDescending(static group => group.Count())
            .SelectMany(static group => group.First().Methods.Select(static method => $"    at {method}").Prepend(Heading([.. group])))
            .ToList();
        int idle = stacks.Count(IsIdle);
        if (idle > 0)
        {
            lines.Add($"{Count(idle)} of the thread pool: no work");
        }
        return lines.Count <= LinesMax ? lines : [.. lines.Take(LinesMax - 1), string.Create(CultureInfo.InvariantCulture, $"... and {lines.Count - LinesMax + 1} lines more")];
    }

    private static string Heading(IReadOnlyList<ThreadStack> alike)
    {
        string more = alike.Count > ThreadsMax ? ", ..." : "";
        return $"{Count(alike.Count)} ({string.Join(", ", alike.Take(ThreadsMax).Select(static stack => stack.Thread.ToString(CultureInfo.InvariantCulture)))}{more})";
    }

    private static string Count(int threads) => threads == 1 ? "1 thread" : string.Create(CultureInfo.InvariantCulture, $"{threads} threads");

    private static bool IsIdle(ThreadStack stack) =>
        Has(stack, "System.Threading.LowLevelLifoSemaphore.Wait") && Has(stack, "System.Threading.PortableThreadPool+WorkerThread.WorkerThreadStart");

    private static bool Has(ThreadStack stack, string method) => stack.Methods.Any(other => other.StartsWith(method, StringComparison.Ordinal));
}
