// The control group of one process and of all that it starts: its limits are in force before its first instruction where threads can be in groups of their own, and
// in the unified tree before the runtime looks for them. What a program has started before that, with its first instructions, is not in it there.

using System.Diagnostics;
using System.Globalization;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal sealed class ControlGroup
{
    private readonly List<(ControlHome Home, string Folder)> _folders = [];

    private ControlGroup()
    {
    }

    /// <summary>By controller: what is in force.</summary>
    public IEnumerable<string> Controllers => _folders.Select(static folder => folder.Home.Controller);

    /// <summary>For another program, which goes on with it.</summary>
    public IReadOnlyList<GroupFolder> State => [.. _folders.Select(static folder => new GroupFolder(folder.Home, folder.Folder))];

    /// <summary>One that has been made before.</summary>
    public static ControlGroup Resume(IReadOnlyList<GroupFolder> folders)
    {
        var group = new ControlGroup();
        group._folders.AddRange(folders.Select(static folder => (folder.Home, folder.Folder)));
        return group;
    }

    /// <param name="homes">Where, and what is to be written there.</param>
    /// <param name="name">Of the group.</param>
    /// <param name="lacking">Is given why, by controller, for those that cannot be had.</param>
    public static ControlGroup? TryMake(IEnumerable<(ControlHome Home, ControlValue[] Values)> homes, string name, IDictionary<string, string> lacking)
    {
        var group = new ControlGroup();
        foreach (var (home, values) in homes)
        {
            string folder = Path.Combine(home.Folder, name);
            string? why = ControlFolder.TryMake(folder);
            foreach (var value in values.TakeWhile(_ => why is null))
            {
                string? failure = ControlFolder.TryWrite(folder, home.IsUnified ? value.UnifiedFile : value.File, home.IsUnified ? value.UnifiedText : value.Text);
                why = value.IsOptional ? null : failure;
            }
            if (why is null)
            {
                group._folders.Add((home, folder));
            }
            else
            {
                lacking[home.Controller] = why;
                _ = group._folders.Exists(its => its.Folder == folder) || ControlFolder.TryRemove(folder);
            }
        }
        return group._folders.Count > 0 ? group : null;
    }

    /// <summary>Starts a process in it.</summary>
    /// <exception cref="InstanceException">The process cannot be put there; it has been ended then.</exception>
    public Process Start(Func<Process> start)
    {
        Process process;
        try
        {
            foreach (var (_, folder) in _folders.Where(static folder => !folder.Home.IsUnified))
            {
                Require(ControlFolder.TryWrite(folder, "tasks", Text(SystemCalls.ThreadNumber())));
            }
            process = start();
        }
        finally
        {
            _folders.ForEach(TakeThreadsBack);
        }
        foreach (string folder in _folders.Where(static folder => folder.Home.IsUnified).Select(static folder => folder.Folder).Distinct())
        {
            string? failure = ControlFolder.TryWrite(folder, "cgroup.procs", Text(process.Id));
            if (failure is not null && !process.HasExited)
            {
                process.Kill();
                Require(failure);
            }
        }
        return process;
    }

    /// <summary>How many of its processes the kernel has ended since it was out of memory.</summary>
    public int EndedForMemory
    {
        get
        {
            var memory = _folders.FirstOrDefault(static folder => folder.Home.Controller == "memory");
            string said = memory.Folder is null ? "" : ControlFolder.Read(memory.Folder, memory.Home.IsUnified ? "memory.events" : "memory.oom_control");
            string? line = said.Split('\n').FirstOrDefault(static line => line.StartsWith("oom_kill ", StringComparison.Ordinal));
            return int.TryParse(line?["oom_kill ".Length..], NumberStyles.None, CultureInfo.InvariantCulture, out int count) ? count : 0;
        }
    }

    /// <summary>False: something that its process has started goes on in it.</summary>
    public bool TryRemove()
    {
        _folders.RemoveAll(static folder => ControlFolder.TryRemove(folder.Folder));
        return _folders.Count == 0;
    }

    // A thread that this one has had to start is in it as well.
    private static void TakeThreadsBack((ControlHome Home, string Folder) folder)
    {
        if (folder.Home.IsUnified)
        {
            return;
        }
        foreach (string task in ControlFolder.Read(folder.Folder, "tasks").Split('\n', StringSplitOptions.RemoveEmptyEntries).Where(static task => Directory.Exists("/proc/self/task/" + task)))
        {
            _ = ControlFolder.TryWrite(folder.Home.Above, "tasks", task);
        }
    }

    private static void Require(string? failure)
    {
        if (failure is not null)
        {
            throw new InstanceException($"A process cannot be put under its limits: {failure}.");
        }
    }

    private static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);
}
