// Where this process is in the trees of control groups (cgroups(7)): one tree with all controllers, or one each of the older kind. Reads texts of /proc alone.

using System.Globalization;
using System.Text.RegularExpressions;

namespace Millrace.Command.Serving;

/// <param name="Mount">Where the tree is mounted.</param>
/// <param name="Path">The process's own group below that: empty, or '/' and names.</param>
/// <param name="IsUnified">The one tree of all controllers; false: a tree of the older kind, in which each thread can be somewhere else.</param>
internal sealed partial record ControlPlace(string Mount, string Path, bool IsUnified)
{
    public string Folder => Mount + Path;

    /// <summary>The place for a controller. The unified tree is the answer where no other has it, whether or not it has.</summary>
    /// <param name="controller">As the kernel calls it: memory, pids or cpu.</param>
    /// <param name="groups">Text of /proc/self/cgroup.</param>
    /// <param name="mounts">Text of /proc/self/mountinfo.</param>
    public static ControlPlace? Find(string controller, string groups, string mounts)
    {
        // 4:memory:/some/group, 0::/some/group
        string[][] own = [.. groups.Split('\n').Select(static line => line.Split(':', 3)).Where(static parts => parts.Length == 3)];
        string? before = own.FirstOrDefault(parts => parts[1].Split(',').Contains(controller))?[2];
        string? unified = own.FirstOrDefault(static parts => parts[0] == "0" && parts[1].Length == 0)?[2];
        foreach (string line in mounts.Split('\n'))
        {
            // 35 31 0:32 /root /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
            int dash = line.IndexOf(" - ", StringComparison.Ordinal);
            string[] left = dash < 0 ? [] : line[..dash].Split(' ');
            string[] right = dash < 0 ? [] : line[(dash + 3)..].Split(' ');
            if (left.Length < 5 || right.Length < 3)
            {
                continue;
            }
            bool isIts = before is not null ? right[0] == "cgroup" && right[2].Split(',').Contains(controller) : unified is not null && right[0] == "cgroup2";
            if (isIts && Below(before ?? unified!, Plain(left[3])) is { } path)
            {
                return new ControlPlace(Plain(left[4]), path, before is null);
            }
        }
        return null;
    }

    // A container may see only a part of the tree, and its own place may lie outside.
    private static string? Below(string path, string root)
    {
        root = root.TrimEnd('/');
        return path.Contains("/..", StringComparison.Ordinal) ? null
            : root.Length == 0 || root.Contains("/..", StringComparison.Ordinal) ? path.TrimEnd('/')
            : path == root ? ""
            : path.StartsWith(root + "/", StringComparison.Ordinal) ? path[root.Length..].TrimEnd('/')
            : null;
    }

    // proc_pid_mountinfo(5): a space is \040.
    private static string Plain(string text) =>
        Octal().Replace(text, static match => ((char)Convert.ToInt32(match.Groups[1].Value, 8)).ToString(CultureInfo.InvariantCulture));

    [GeneratedRegex(@"\\([0-7]{3})")]
    private static partial Regex Octal();
}
