// The control groups of the daemon: one for each process of an application that has limits, in the group that the daemon itself is in. In the trees of the older
// kind that is all; in the unified tree a group has either processes or controllers for the groups below it, so that the daemon moves into one of its own
// first, and does that only where the place has been given to it (Delegate= of its unit, or a container's own tree).
//
//   GROUP/daemon-4711          the daemon, and what it starts without limits (unified tree alone)
//   GROUP/millrace-4711/shop-3-1     a process of an application

using System.Globalization;
using Millrace.Command.Running;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal sealed class ControlGroups : IDisposable
{
    public static readonly string[] Controllers = ["memory", "pids", "cpu"];

    private const string Prefix = "millrace-";
    private const string DaemonPrefix = "daemon-";
    private const int EndPatienceMs = 500;

    private readonly Lock _lock = new();
    private readonly string _name = string.Create(CultureInfo.InvariantCulture, $"{Prefix}{Environment.ProcessId}");
    private readonly List<ControlGroup> _left = [];     // something that their process has started is still in them
    private readonly Dictionary<string, ControlHome> _homes = [];
    private readonly Dictionary<string, string> _lacking = [];
    private bool _isLookedFor;

    /// <summary>Makes a group for a process.</summary>
    /// <param name="name">Of the process; no two have the same.</param>
    /// <param name="limits">What it is limited to.</param>
    /// <param name="lacking">Is given why, by controller, for those that do nothing for it.</param>
    /// <returns>Null where there is none.</returns>
    public ControlGroup? TryMake(string name, AppLimits limits, IDictionary<string, string> lacking)
    {
        lock (_lock)
        {
            if (!_isLookedFor)
            {
                _isLookedFor = true;
                Array.ForEach(Controllers, Look);
            }
            _left.RemoveAll(static group => group.TryRemove());
            var wanted = ControlValues.Of(limits).GroupBy(static value => value.Controller).ToArray();
            foreach (var values in wanted.Where(values => _lacking.ContainsKey(values.Key)))
            {
                lacking[values.Key] = _lacking[values.Key];
            }
            return ControlGroup.TryMake([.. wanted.Where(values => _homes.ContainsKey(values.Key)).Select(values => (_homes[values.Key], values.ToArray()))], name, lacking);
        }
    }

    /// <summary>For another program that this process becomes.</summary>
    public GroupsState State
    {
        get
        {
            lock (_lock)
            {
                return new GroupsState(_isLookedFor, [.. _homes.Values], new Dictionary<string, string>(_lacking));
            }
        }
    }

    /// <summary>Goes on where this process was before it became another program. Where to look has changed by then: the daemon may be in a group of its own.</summary>
    public void Resume(GroupsState state)
    {
        lock (_lock)
        {
            _isLookedFor = state.IsLookedFor;
            foreach (var home in state.Homes)
            {
                _homes[home.Controller] = home;
            }
            foreach (var (controller, why) in state.Lacking)
            {
                _lacking[controller] = why;
            }
        }
    }

    /// <summary>Its process has ended.</summary>
    public void Leave(ControlGroup group)
    {
        lock (_lock)
        {
            if (!group.TryRemove())
            {
                _left.Add(group);
            }
        }
    }

    /// <summary>Removes all that is empty; what has just been killed is, in a moment.</summary>
    public void Dispose()
    {
        lock (_lock)
        {
            long giveUpAt = Environment.TickCount64 + EndPatienceMs;
            while (_left.RemoveAll(static group => group.TryRemove()) >= 0 && _left.Count > 0 && Environment.TickCount64 < giveUpAt)
            {
                SystemCalls.SleepMs(10);
            }
            foreach (string folder in _homes.Values.Select(static home => home.Folder).Distinct())
            {
                _ = ControlFolder.TryRemove(folder);
            }
        }
    }

    private void Look(string controller)
    {
        string? why = null;
        if (ControlPlace.Find(controller, ControlFolder.Read("/proc/self", "cgroup"), ControlFolder.Read("/proc/self", "mountinfo")) is not { } place)
        {
            why = "there are no control groups here";
        }
        else
        {
            RemoveOld(place.Folder);
            var home = new ControlHome(controller, place.IsUnified, place.Folder, Path.Combine(place.Folder, _name));
            why = (place.IsUnified ? WhyNotUnified(place, controller) : null) ?? ControlFolder.TryMake(home.Folder) ?? (place.IsUnified ? ControlFolder.TryWrite(home.Folder, "cgroup.subtree_control", "+" + controller) : null);
            if (why is null)
            {
                _homes[controller] = home;
            }
        }
        if (why is not null)
        {
            _lacking[controller] = why;
        }
    }

    private static string? WhyNotUnified(ControlPlace place, string controller)
    {
        if (place.Path.Length > 0 && !Posix.HasAttribute(place.Folder, "user.delegate") && !Posix.HasAttribute(place.Folder, "trusted.delegate"))
        {
            return $"the control group {place.Folder} is not the daemon's to divide (Delegate=yes in its unit)";
        }
        if (!ControlFolder.Read(place.Folder, "cgroup.controllers").Split([' ', '\n']).Contains(controller))
        {
            return $"{place.Folder} has no controller '{controller}' (Delegate=yes in the daemon's unit)";
        }
        string own = Path.Combine(place.Folder, string.Create(CultureInfo.InvariantCulture, $"{DaemonPrefix}{Environment.ProcessId}"));
        return ProcessStart.With(() => ControlFolder.TryMake(own) ?? MoveOwn(place.Folder, own)) ?? ControlFolder.TryWrite(place.Folder, "cgroup.subtree_control", "+" + controller);
    }

    // This process, and those that it has started before. Whose else is there is not moved: the kernel says so then.
    private static string? MoveOwn(string from, string to)
    {
        string? failure = null;
        foreach (string process in ControlFolder.Read(from, "cgroup.procs").Split('\n', StringSplitOptions.RemoveEmptyEntries))
        {
            string own = Environment.ProcessId.ToString(CultureInfo.InvariantCulture);
            string parent = ControlFolder.Read("/proc/" + process, "stat") is { } stat && stat.LastIndexOf(") ", StringComparison.Ordinal) is >= 0 and int at ? stat[(at + 2)..].Split(' ') is [_, var its, ..] ? its : "" : "";
            if (process == own || parent == own)
            {
                failure = ControlFolder.TryWrite(to, "cgroup.procs", process) ?? failure;
            }
        }
        return failure;
    }

    // Of daemons that have not come to their end.
    private static void RemoveOld(string folder)
    {
        try
        {
            foreach (string left in Directory.GetDirectories(folder))
            {
                string name = Path.GetFileName(left);
                string number = name.StartsWith(Prefix, StringComparison.Ordinal) ? name[Prefix.Length..] : name.StartsWith(DaemonPrefix, StringComparison.Ordinal) ? name[DaemonPrefix.Length..] : "";
                if (int.TryParse(number, NumberStyles.None, CultureInfo.InvariantCulture, out int process) && !Directory.Exists("/proc/" + process.ToString(CultureInfo.InvariantCulture)))
                {
                    Array.ForEach(Directory.GetDirectories(left), static group => _ = ControlFolder.TryRemove(group));
                    _ = ControlFolder.TryRemove(left);
                }
            }
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            // What may not be looked at may not be changed either.
        }
    }
}

/// <summary>Where groups for a controller are made.</summary>
/// <param name="Controller">As the kernel calls it.</param>
/// <param name="IsUnified">In the tree that has all controllers.</param>
/// <param name="Above">The daemon's own group.</param>
/// <param name="Folder">The daemon's folder for the others, below that.</param>
internal sealed record ControlHome(string Controller, bool IsUnified, string Above, string Folder);
