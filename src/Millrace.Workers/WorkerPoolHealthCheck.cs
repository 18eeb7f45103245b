// How a pool is, for health checks of ASP.NET Core.

using System.Globalization;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace Millrace.Workers;

/// <summary>Unhealthy: the pool has ended, or has no worker that could take a call. Degraded: it is held, workers are stuck or cannot be made, or more than four fifths of its queue are in use.</summary>
/// <param name="pool">Whose health.</param>
/// <param name="queueMax">Of the pool, see <see cref="WorkerPoolOptions.QueueMax"/>.</param>
public sealed class WorkerPoolHealthCheck(IWorkerPool pool, int queueMax) : IHealthCheck
{
    /// <inheritdoc/>
    public Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default) => Task.FromResult(Judge(pool.GetStatus()));

    private HealthCheckResult Judge(WorkerPoolStatus status)
    {
        int serving = status.Workers.Count(static worker => worker.State is WorkerState.Idle or WorkerState.Busy);
        var data = new Dictionary<string, object>
        {
            ["serving"] = serving,
            ["stuck"] = status.Stuck.Count,
            ["waiting"] = status.Waiting,
        };
        string Say(string what) => string.Create(CultureInfo.InvariantCulture, $"Pool {status.Name}: {what}");
        return status switch
        {
            { IsClosed: true } => HealthCheckResult.Unhealthy(Say("it has ended."), data: data),
            { StartFailure: { } why } => new HealthCheckResult(serving == 0 ? HealthStatus.Unhealthy : HealthStatus.Degraded, Say($"workers cannot be made: {why}"), data: data),
            _ when serving == 0 && status.Min > 0 => HealthCheckResult.Unhealthy(Say("no worker is ready."), data: data),
            _ when status.Stuck.Count > 0 => HealthCheckResult.Degraded(Say($"{status.Stuck.Count} workers are stuck."), data: data),
            { IsHeld: true } => HealthCheckResult.Degraded(Say("it is held."), data: data),
            _ when status.Waiting > queueMax * 0.8 => HealthCheckResult.Degraded(Say($"{status.Waiting} calls wait."), data: data),
            _ => HealthCheckResult.Healthy(Say($"{serving} workers."), data: data),
        };
    }
}
