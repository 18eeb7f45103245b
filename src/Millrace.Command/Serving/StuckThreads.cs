// Threads of this process that nothing calls back, not even SIGKILL: in a call to a file system or a device whose program has heard of it and does not answer (state D in proc_pid_stat(5)). An
// application chooses what the daemon closes or looks at there. execve(2) ends all threads but its own first, and would wait for such a one for good.

using System.Globalization;

namespace Millrace.Command.Serving;

internal static class StuckThreads
{
    private const int SaidMax = 5;

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(5);
    private static readonly TimeSpan s_look = TimeSpan.FromMilliseconds(50);

    /// <summary>Waits until there is none that has waited all the time.</summary>
    /// <param name="waiting">The threads that wait so at the moment, by their numbers; null: those of this process.</param>
    /// <param name="patience">For how long; null: 5 s.</param>
    /// <returns>Why this process cannot become another program; null where it can.</returns>
    public static async Task<string?> WhyNotAsync(Func<IEnumerable<string>>? waiting = null, TimeSpan? patience = null)
    {
        waiting ??= OfProcess;
        long giveUpAt = Environment.TickCount64 + (long)(patience ?? s_patience).TotalMilliseconds;
        var stuck = waiting().ToHashSet(StringComparer.Ordinal);
        while (stuck.Count > 0 && Environment.TickCount64 < giveUpAt)
        {
            await Task.Delay(s_look);
            stuck.IntersectWith(waiting());
        }
        return stuck.Count == 0 ? null : string.Create(
            CultureInfo.InvariantCulture,
            $"{stuck.Count} of the daemon's threads {(stuck.Count == 1 ? "waits" : "wait")} for a file system or a device that does not answer, and cannot be ended (state D in /proc/{Environment.ProcessId}/task/{string.Join(", ", stuck.Order(StringComparer.Ordinal).Take(SaidMax))}/stat). See which application's files or sockets lie on one such as FUSE or NFS, and end what stands behind it.");
    }

    /// <summary>Whether the state of a thread is that, as the system writes it down.</summary>
    public static bool IsWaiting(string stat) => stat.LastIndexOf(')') is > 0 and var end && end + 2 < stat.Length && stat[end + 2] == 'D';       // its name is anything

    private static IEnumerable<string> OfProcess()
    {
        foreach (string thread in Directory.GetDirectories("/proc/self/task"))
        {
            if (IsWaiting(Read(thread + "/stat")))
            {
                yield return Path.GetFileName(thread);
            }
        }
    }

    private static string Read(string path)
    {
        try
        {
            return File.ReadAllText(path);
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            return "";      // it has ended
        }
    }
}
