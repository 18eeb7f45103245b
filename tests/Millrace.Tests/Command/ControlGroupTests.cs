// Where the daemon finds its control groups, what is written there, and what is said of limits that are not in force. Real groups are in the tests of the daemon.

using Millrace.Command.Serving;

namespace Millrace.Tests.Command;

public sealed class ControlGroupTests
{
    // A system of the older kind, systemd's unified one, both side by side, a container that sees its own part, and one whose place lies elsewhere.
    [Theory]
    [InlineData("memory", "4:memory:/user/x|0::/", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory|41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw", "/sys/fs/cgroup/memory/user/x", false)]
    [InlineData("cpu", "2:cpu,cpuacct:/", "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct", false)]
    [InlineData("pids", "0::/system.slice/millrace.service", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate", "/sys/fs/cgroup/system.slice/millrace.service", true)]
    [InlineData("cpu", "4:memory:/|0::/a", "35 31 0:32 / /m rw - cgroup cgroup rw,memory|41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw", "/sys/fs/cgroup/unified/a", true)]
    [InlineData("memory", "0::/", "900 899 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw", "/sys/fs/cgroup", true)]
    [InlineData("memory", "4:memory:/docker/12/x", "35 31 0:32 /docker/12 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory", "/sys/fs/cgroup/memory/x", false)]
    [InlineData("memory", "4:memory:/docker/12", "35 31 0:32 /docker/12 /my\\040groups rw - cgroup cgroup rw,memory", "/my groups", false)]
    [InlineData("memory", "4:memory:/docker/123", "35 31 0:32 /docker/12 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory", null, false)]
    [InlineData("memory", "0::/../other", "35 31 0:32 / /sys/fs/cgroup rw - cgroup2 cgroup rw", null, false)]
    [InlineData("memory", "0::/", "23 1 0:20 / /sys rw - sysfs sysfs rw", null, false)]
    [InlineData("memory", "", "", null, false)]
    public void The_place_is_the_process_s_own_group_as_it_is_mounted_here(string controller, string groups, string mounts, string? folder, bool isUnified)
    {
        var place = ControlPlace.Find(controller, groups.Replace('|', '\n'), mounts.Replace('|', '\n'));

        Assert.Equal((folder, isUnified), (place?.Folder, place?.IsUnified == true));
    }

    [Fact]
    public void Limits_are_written_as_each_kind_of_tree_wants_them()
    {
        var values = ControlValues.Of(new AppLimits(512L << 20, 1000, 200, 0.5)).ToArray();

        Assert.Equal(
            ["memory.limit_in_bytes=536870912", "memory.memsw.limit_in_bytes=536870912", "pids.max=200", "cpu.cfs_period_us=100000", "cpu.cfs_quota_us=50000"],
            values.Select(static value => $"{value.File}={value.Text}"));
        Assert.Equal(
            ["memory.max=536870912", "memory.swap.max=0", "pids.max=200", "cpu.max=50000 100000", "cpu.max=50000 100000"],
            values.Select(static value => $"{value.UnifiedFile}={value.UnifiedText}"));
        Assert.Empty(ControlValues.Of(new AppLimits(null, 1000, null, null)));
    }

    [Fact]
    public void What_is_not_in_force_is_said_with_its_reason()
    {
        var limits = new AppLimits(512L << 20, 5000, 200, 2);

        Assert.Equal("memory 512m kept by the kernel; descriptors 5000 kept by the kernel; processes 200 kept by the kernel; cpu 2 kept by the kernel", new LimitsInForce(limits, new Dictionary<string, string>(), 5000).ToString());
        var lacking = new LimitsInForce(limits, new Dictionary<string, string> { ["memory"] = "no tree", ["pids"] = "no right" }, 4999);
        Assert.Equal(
            "memory 512m looked at once a second, and a process with more is replaced (no tree); "
            + "descriptors 4999 kept by the kernel, not 5000: the daemon itself has no more (LimitNOFILE= of its unit, ulimit -Hn); processes 200 NOT in force (no right); cpu 2 kept by the kernel",
            lacking.ToString());
        Assert.Equal((true, false, 4999L), (lacking.WatchesMemory, lacking.KeepsMemory, lacking.Descriptors));
        Assert.Equal("", new LimitsInForce(AppLimits.None, new Dictionary<string, string>(), 5000).ToString());
    }

    // A folder that is no tree of groups: nothing can be written there, and nothing of it is left.
    [Fact]
    public void A_group_that_cannot_have_its_limits_is_none_and_says_why()
    {
        string folder = Directory.CreateTempSubdirectory("millrace-groups-").FullName;
        var lacking = new Dictionary<string, string>();
        var home = new ControlHome("memory", IsUnified: true, folder, folder);

        Assert.Null(ControlGroup.TryMake([(home, ControlValues.Of(new AppLimits(64L << 20, null, null, null)).ToArray())], "shop-1-1", lacking));

        Assert.Contains($"{folder}/shop-1-1/memory.max: ENOENT", lacking["memory"], StringComparison.Ordinal);
        Assert.Empty(Directory.GetDirectories(folder));
        Directory.Delete(folder);
    }

    [Theory]
    [InlineData("512m", 512L << 20)]
    [InlineData("2G", 2L << 30)]
    [InlineData("1048576k", 1L << 30)]
    public void An_amount_is_a_number_and_its_unit(string text, long bytes)
    {
        Assert.True(Size.TryParse(text, out long size));
        Assert.Equal(bytes, size);
    }

    [Theory]
    [InlineData("")]
    [InlineData("m")]
    [InlineData("512")]
    [InlineData("512mb")]
    [InlineData("512 m")]
    [InlineData("-1m")]
    [InlineData("1.5g")]
    [InlineData("99999999999g")]
    public void What_else_is_written_is_no_amount(string text) => Assert.False(Size.TryParse(text, out _));

    [Theory]
    [InlineData("1200 3", 1200, 3)]
    [InlineData("0 0 more", 0, 0)]
    [InlineData("-1 0", null, null)]
    [InlineData("1 x", null, null)]
    [InlineData("99999999999999999999 0", null, null)]
    [InlineData("1", null, null)]
    [InlineData("", null, null)]
    public void What_a_process_says_of_its_requests_makes_sense_or_is_nothing(string text, int? requests, int? running) =>
        Assert.Equal((requests, running), ((int?)RequestCount.Read(text)?.Requests, (int?)RequestCount.Read(text)?.Running));
}
