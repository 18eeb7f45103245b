// What is written into the files of a control group for the limits of an application, for both kinds of trees.

using System.Globalization;

namespace Millrace.Command.Serving;

/// <param name="Controller">As the kernel calls it.</param>
/// <param name="File">In a tree of the older kind.</param>
/// <param name="Text">Written there.</param>
/// <param name="UnifiedFile">In the unified tree.</param>
/// <param name="UnifiedText">Written there.</param>
/// <param name="IsOptional">Whether a kernel may be without it.</param>
internal sealed record ControlValue(string Controller, string File, string Text, string UnifiedFile, string UnifiedText, bool IsOptional = false);

internal static class ControlValues
{
    private const int PeriodUs = 100_000;

    /// <summary>In the order in which they are written.</summary>
    public static IEnumerable<ControlValue> Of(AppLimits limits)
    {
        if (limits.Memory is { } memory)
        {
            string bytes = memory.ToString(CultureInfo.InvariantCulture);
            yield return new ControlValue("memory", "memory.limit_in_bytes", bytes, "memory.max", bytes);

            // What is beyond it is not to be found in the swap space; that of the older kind is of both together.
            yield return new ControlValue("memory", "memory.memsw.limit_in_bytes", bytes, "memory.swap.max", "0", IsOptional: true);
        }
        if (limits.Processes is { } processes)
        {
            string count = processes.ToString(CultureInfo.InvariantCulture);
            yield return new ControlValue("pids", "pids.max", count, "pids.max", count);
        }
        if (limits.Cpu is { } cpu)
        {
            string quota = ((long)Math.Round(cpu * PeriodUs)).ToString(CultureInfo.InvariantCulture);
            string period = PeriodUs.ToString(CultureInfo.InvariantCulture);
            yield return new ControlValue("cpu", "cpu.cfs_period_us", period, "cpu.max", $"{quota} {period}");
            yield return new ControlValue("cpu", "cpu.cfs_quota_us", quota, "cpu.max", $"{quota} {period}");
        }
    }
}
