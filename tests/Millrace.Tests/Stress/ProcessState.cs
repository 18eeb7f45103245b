// What this process holds at the moment, as the kernel counts it.

namespace Millrace.Tests.Stress;

internal static class ProcessState
{
    /// <summary>Threads whose name begins so.</summary>
    public static int Threads(string name) => Directory.GetDirectories("/proc/self/task").Count(task =>
    {
        try
        {
            return File.ReadAllText(Path.Combine(task, "comm")).StartsWith(name, StringComparison.Ordinal);
        }
        catch (IOException)
        {
            return false;    // it has ended meanwhile
        }
    });

    /// <summary>Open descriptors of sockets and event queues.</summary>
    public static int Descriptors() => Directory.GetFiles("/proc/self/fd").Count(static descriptor =>
    {
        try
        {
            string? target = File.ResolveLinkTarget(descriptor, returnFinalTarget: false)?.Name;
            return target is not null && (target.Contains("socket:", StringComparison.Ordinal) || target.Contains("event", StringComparison.Ordinal));
        }
        catch (FileNotFoundException)
        {
            return false;    // it has been closed meanwhile
        }
    });

    /// <summary>Waits until the condition holds.</summary>
    public static bool Becomes(Func<bool> condition, int patienceMs = 10_000)
    {
        for (long end = Environment.TickCount64 + patienceMs; Environment.TickCount64 < end;)
        {
            if (condition())
            {
                return true;
            }

            Thread.Sleep(10);
        }

        return condition();
    }
}
