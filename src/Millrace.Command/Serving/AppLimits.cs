// What each process of an application may use at most, and when it is to be replaced by a fresh one.

namespace Millrace.Command.Serving;

/// <summary>What the kernel keeps each process to, together with all that it starts. Null: nothing.</summary>
/// <param name="Memory">Bytes.</param>
/// <param name="Descriptors">Open files and sockets.</param>
/// <param name="Processes">Processes and threads, as the kernel counts them.</param>
/// <param name="Cpu">Processors: 0.5 is half of one.</param>
internal sealed record AppLimits(long? Memory, int? Descriptors, int? Processes, double? Cpu)
{
    public static AppLimits None { get; } = new(null, null, null, null);

    public const long MemoryMin = 32L * 1024 * 1024;
    public const long MemoryMax = 1024L * 1024 * 1024 * 1024;
    public const int DescriptorsMin = 512;
    public const int DescriptorsMax = 1_048_576;
    public const int ProcessesMin = 64;
    public const int ProcessesMax = 4_194_304;
    public const double CpuMin = 0.05;
    public const double CpuMax = 1024;

    public bool NeedsGroup => Memory is not null || Processes is not null || Cpu is not null;
}

/// <summary>When a process is replaced by one of the same code while both are well. Null: never for that.</summary>
/// <param name="Requests">Requests that it has begun.</param>
/// <param name="Age">Since its start.</param>
/// <param name="Memory">Bytes that are resident.</param>
internal sealed record AppRecycling(long? Requests, TimeSpan? Age, long? Memory)
{
    public static AppRecycling None { get; } = new(null, null, null);

    public const long RequestsMin = 100;
    public const long RequestsMax = 1_000_000_000_000;
    public static readonly TimeSpan AgeMin = TimeSpan.FromSeconds(10);
    public static readonly TimeSpan AgeMax = TimeSpan.FromDays(30);
}
