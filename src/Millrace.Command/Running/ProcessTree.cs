// Ends a process that was started here, with all that it has started. Other users may be among them, and root may signal anybody: so no signal goes to a bare number, which may be a stranger's a moment after it was
// read. Each process is held by a descriptor (pidfd_open(2)) first, and then found to be a child of one that is held, and whose own number is still its own.

using System.Diagnostics;
using System.Globalization;
using Microsoft.Win32.SafeHandles;

namespace Millrace.Command.Running;

internal static class ProcessTree
{
    private const int DepthMax = 64;        // of descriptors that are open at a time: whoever is to be ended may go on starting others

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(8);

    /// <summary>Ends them. What has been left behind by a parent that has ended, and so is nobody's child any more, goes on.</summary>
    /// <param name="process">A child of this process.</param>
    /// <param name="user">Who it was started as; null: this process's own user.</param>
    public static void Kill(Process process, OtherUser? user)
    {
        int id = process.Id;
        int held = Posix.OpenProcess(id);
        if (held < 0)
        {
            // Where nothing can be held, as in a kernel before 5.3, one may only hit one's own.
            process.Kill(entireProcessTree: user is null);
            return;
        }
        using var closing = new SafeFileHandle((nint)held, ownsHandle: true);
        if (!process.HasExited)         // nor had it when it was opened: it is this one
        {
            Kill(id, held, DepthMax, Environment.TickCount64 + (long)s_patience.TotalMilliseconds);
        }
    }

    private static void Kill(int id, int held, int depth, long giveUpAt)
    {
        Posix.Send(held, Posix.SigStop);        // starts nobody more while it is looked for those it has started
        foreach (int child in depth > 0 && Environment.TickCount64 < giveUpAt ? Numbers() : [])
        {
            if (ParentOf(child) == id && Environment.TickCount64 < giveUpAt)
            {
                KillChild(id, held, child, depth - 1, giveUpAt);
            }
        }
        Posix.Send(held, Posix.SigKill);
    }

    private static void KillChild(int id, int held, int child, int depth, long giveUpAt)
    {
        int opened = Posix.OpenProcess(child);
        if (opened < 0)
        {
            return;
        }
        using var closing = new SafeFileHandle((nint)opened, ownsHandle: true);
        if (IsChild(child, id, held))
        {
            Kill(child, opened, depth, giveUpAt);
        }
    }

    /// <summary>Whether a process, which is held by now, is a child of the one that another descriptor stands for.</summary>
    /// <param name="child">Its number: what has that now is the one that is held, or that has ended, and then no signal reaches anybody.</param>
    /// <param name="id">The number of the other one.</param>
    /// <param name="held">Its descriptor. Asked last: as long as nobody has waited for it, its number was no other's when the child named it.</param>
    internal static bool IsChild(int child, int id, int held) => ParentOf(child) == id && Posix.HasNumber(held);

    private static int[] Numbers() =>
        [.. Directory.EnumerateDirectories("/proc").Select(static folder => int.TryParse(Path.GetFileName(folder.AsSpan()), NumberStyles.None, CultureInfo.InvariantCulture, out int number) ? number : 0).Where(static number => number > 0)];

    // proc_pid_stat(5): the name, in parentheses, may hold anything; its state and its parent follow. Nothing in it is read from the memory of the process, which might never answer.
    private static int ParentOf(int id)
    {
        try
        {
            string text = File.ReadAllText(string.Create(CultureInfo.InvariantCulture, $"/proc/{id}/stat"));
            string[] fields = text[(text.LastIndexOf(')') + 1)..].Split(' ', StringSplitOptions.RemoveEmptyEntries);
            return fields.Length > 1 && int.TryParse(fields[1], NumberStyles.None, CultureInfo.InvariantCulture, out int parent) ? parent : -1;
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            return -1;      // it has ended
        }
    }
}
