// What the kernel says of a thread of this process (proc(5)): .NET shows nobody the managed stack of another thread, and this tells at least whether it computes or waits, and
// in which system call. Elsewhere than on Linux there is nothing to be had.

using System.Globalization;

namespace Millrace.Workers;

internal static class ThreadFacts
{
    /// <summary>The kernel's id of the thread that asks; null: the system does not say.</summary>
    public static int? OwnId()
    {
        try
        {
            string? link = OperatingSystem.IsLinux() ? new FileInfo("/proc/thread-self").LinkTarget : null;
            return link is not null && int.TryParse(Path.GetFileName(link), NumberStyles.None, CultureInfo.InvariantCulture, out int id) ? id : null;
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            return null;
        }
    }

    /// <summary>A sentence.</summary>
    /// <param name="id">A thread's; null: it has none of its own.</param>
    public static string Describe(int? id)
    {
        if (id is null)
        {
            return "Which thread it is on is not known.";
        }
        string status = Read(id.Value, "status");
        string waits = Read(id.Value, "wchan");
        string call = Read(id.Value, "syscall").Split(' ')[0];
        string state = KernelText.Line(status, "State:");
        if (state.Length == 0)
        {
            return string.Create(CultureInfo.InvariantCulture, $"Its thread is {id}.");
        }
        string where = waits is "" or "0" ? "" : $", waiting in {waits}";
        string which = call is "" or "running" || call.StartsWith('-') ? "" : $" (system call {call})";
        return string.Create(CultureInfo.InvariantCulture, $"Its thread is {id}, state {state}{where}{which}.");
    }

    private static string Read(int id, string file) => KernelText.Read(string.Create(CultureInfo.InvariantCulture, $"/proc/self/task/{id}/{file}"));
}
