// Whether the process behind a pool is well: the daemon puts another in the place of one that cannot do its work.

using Millrace.Command.Pools;
using Millrace.Workers;

namespace Millrace.Tests.Command;

public sealed class PoolHostTests
{
    [Theory]
    [InlineData(null, true)]
    [InlineData(null, true, WorkerState.Starting)]
    [InlineData("no room", false)]
    [InlineData("no room", false, WorkerState.Starting)]
    [InlineData("no room", true, WorkerState.Starting, WorkerState.Idle)]
    [InlineData("no room", true, WorkerState.Busy)]
    public void It_is_while_a_worker_can_be_made_or_is_there(string? failure, bool isWell, params WorkerState[] workers) =>
        Assert.Equal(isWell, PoolHost.IsWell(StatusOf(failure, workers)));

    private static WorkerPoolStatus StatusOf(string? failure, WorkerState[] workers) => new()
    {
        Name = "php",
        Min = 1,
        Max = 2,
        Generation = 1,
        IsHeld = false,
        IsClosed = false,
        Waiting = 0,
        Running = 0,
        Calls = 0,
        Failures = 0,
        RefusedFull = 0,
        RefusedLate = 0,
        LeftQueue = 0,
        OverTime = 0,
        Workers = [.. workers.Select(static (state, i) => new WorkerStatus
        {
            Id = i + 1,
            Generation = 1,
            State = state,
            Calls = 0,
            Failures = 0,
            Mean = TimeSpan.Zero,
            P99 = TimeSpan.Zero,
            Last = TimeSpan.Zero,
            Started = DateTimeOffset.UnixEpoch,
            Hits = 0,
            Restarts = 0,
            RecentRestarts = [],
        })],
        Stuck = [],
        StartFailure = failure,
        Hits = [],
        Ends = new Dictionary<WorkerEnd, long>(),
    };
}
