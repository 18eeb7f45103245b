// Whether sessions are well, for a page that is asked whether the application is.

using Microsoft.Extensions.Diagnostics.HealthChecks;
using Millrace.Sessions.Observe;
using Millrace.Sessions.Stores;

namespace Millrace.Sessions;

/// <summary>Degraded while the store of sessions does not answer, and for five minutes after sessions in use had to go since memory was full. Never unhealthy: the site goes on.</summary>
public sealed class SessionHealthCheck : IHealthCheck
{
    private static readonly TimeSpan s_remembered = TimeSpan.FromMinutes(5);

    private readonly SessionServices _services;
    private readonly TimeProvider _time;
    private readonly Lock _lock = new();
    private long _evictedBefore;
    private long _evictedAt;

    internal SessionHealthCheck(SessionServices services, TimeProvider time)
    {
        _services = services;
        _time = time;
    }

    /// <inheritdoc/>
    public Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        Dictionary<string, object> data = [];
        if (_services.Store is ISessionStoreFigures figures)
        {
            data["live"] = figures.Live;
            data["bytes"] = figures.Bytes;
            data["budget"] = figures.BudgetBytes;
        }
        string? fault = _services.Health.IsLost ? "The store of sessions does not answer."
            : HasEvictedOfLate() ? "Sessions in use had to go since memory was full (BudgetBytes)."
            : null;
        return Task.FromResult(fault is null ? HealthCheckResult.Healthy("Sessions are well.", data) : HealthCheckResult.Degraded(fault, null, data));
    }

    private bool HasEvictedOfLate()
    {
        long evicted = _services.Counters.EstablishedEvictedTotal;
        long now = _time.GetTimestamp();
        lock (_lock)
        {
            if (evicted != _evictedBefore)
            {
                _evictedBefore = evicted;
                _evictedAt = now;
            }
            return _evictedAt != 0 && _time.GetElapsedTime(_evictedAt, now) < s_remembered;
        }
    }
}
