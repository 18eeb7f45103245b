// What is said over a control socket of pools, as JSON.

using System.Text.Json.Serialization;

namespace Millrace.Workers.Control;

/// <summary>What a process says of its pools.</summary>
/// <param name="Process">Its number.</param>
/// <param name="Application">Its name; empty where it has none.</param>
/// <param name="Pools">In the order in which they were added.</param>
internal sealed record PoolsStatus(int Process, string Application, IReadOnlyList<WorkerPoolStatus> Pools)
{
    /// <summary>Whether nothing is lacking: who has sent it may be anybody.</summary>
    public static bool IsWhole(PoolsStatus? status) =>
        status is { Application: not null, Pools: not null } && status.Pools.All(static pool => pool is { Name: not null, Workers: not null, Stuck: not null, Hits: not null, Ends: not null }
            && pool.Workers.Concat(pool.Stuck).All(static worker => worker is { RecentRestarts: not null }));
}

/// <summary>What has become of what was to be done.</summary>
/// <param name="Ok">It has been done.</param>
/// <param name="Message">What, or why not.</param>
internal sealed record PoolAnswer(bool Ok, string Message);

[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase, UseStringEnumConverter = true)]
[JsonSerializable(typeof(PoolsStatus))]
[JsonSerializable(typeof(List<PoolsStatus>))]
[JsonSerializable(typeof(PoolAnswer))]
internal sealed partial class PoolJson : JsonSerializerContext;
