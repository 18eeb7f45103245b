// What becomes of an application's limits where it runs: by the kernel, by the daemon's looking, or not at all, and why. A limit that is not in force is said to be so.

using System.Globalization;

namespace Millrace.Command.Serving;

/// <param name="Limits">What the file says.</param>
/// <param name="Lacking">Why a controller of the kernel's is not to be had, by its name.</param>
/// <param name="DescriptorsMost">More of them the daemon does not have itself.</param>
internal sealed record LimitsInForce(AppLimits Limits, IReadOnlyDictionary<string, string> Lacking, long DescriptorsMost)
{
    /// <summary>The daemon looks at the memory of the process, and replaces it.</summary>
    public bool WatchesMemory => Limits.Memory is not null && Lacking.ContainsKey("memory");

    /// <summary>The kernel does.</summary>
    public bool KeepsMemory => Limits.Memory is not null && !Lacking.ContainsKey("memory");

    /// <summary>What the process is told, or null.</summary>
    public long? Descriptors => Limits.Descriptors is { } wanted ? Math.Min(wanted, DescriptorsMost) : null;

    public override string ToString()
    {
        List<string> parts = [];
        if (Limits.Memory is { } memory)
        {
            parts.Add(Lacking.TryGetValue("memory", out string? why)
                ? $"memory {Size.Text(memory)} looked at once a second, and a process with more is replaced ({why})"
                : $"memory {Size.Text(memory)} kept by the kernel");
        }
        if (Limits.Descriptors is { } descriptors)
        {
            parts.Add(string.Create(CultureInfo.InvariantCulture, $"descriptors {Descriptors} kept by the kernel{(descriptors > DescriptorsMost ? $", not {descriptors}: the daemon itself has no more (LimitNOFILE= of its unit, ulimit -Hn)" : "")}"));
        }
        if (Limits.Processes is { } processes)
        {
            parts.Add(Kept(string.Create(CultureInfo.InvariantCulture, $"processes {processes}"), "pids"));
        }
        if (Limits.Cpu is { } cpu)
        {
            parts.Add(Kept(string.Create(CultureInfo.InvariantCulture, $"cpu {cpu}"), "cpu"));
        }
        return string.Join("; ", parts);
    }

    private string Kept(string what, string controller) => Lacking.TryGetValue(controller, out string? why) ? $"{what} NOT in force ({why})" : $"{what} kept by the kernel";
}
