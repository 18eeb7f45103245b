// What a process has used of what it may: looked at once a second, and only where somebody has set a bound.

using System.Diagnostics;
using System.Globalization;

namespace Millrace.Command.Serving;

/// <param name="settings">Those of its application.</param>
internal sealed class InstanceUse(AppSettings settings)
{
    private const double JitterMax = 0.1;
    private static readonly TimeSpan s_period = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan s_servesAtLeast = TimeSpan.FromSeconds(10);     // one that is over its bound from its start is not replaced all the time
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(1);

    /// <summary>Ends with why it is to be replaced; with null when the token ends. Bounds come up to a tenth earlier, so that processes of one age are not replaced together.</summary>
    public async Task<string?> IsSpentAsync(AppInstance instance, CancellationToken ct)
    {
        var (bounds, watched) = (settings.Recycling, instance.Limits.WatchesMemory ? settings.Limits.Memory : null);
        double early = 1 - (Random.Shared.NextDouble() * JitterMax);
        long begun = instance.ServesSince;
        try
        {
            if (bounds == AppRecycling.None && watched is null)
            {
                await Task.Delay(Timeout.InfiniteTimeSpan, ct);
            }
            while (true)
            {
                await Task.Delay(s_period, ct);
                TimeSpan age = Stopwatch.GetElapsedTime(begun);
                if (age < s_servesAtLeast)
                {
                    continue;
                }
                if (age >= bounds.Age * early)
                {
                    return string.Create(CultureInfo.InvariantCulture, $"it has served for {StatusTable.Span(age)}");
                }
                long memory = watched is null && bounds.Memory is null ? 0 : instance.Memory;
                if (memory >= bounds.Memory * early || memory >= watched)
                {
                    return string.Create(CultureInfo.InvariantCulture, $"it holds {memory / 1_048_576} MiB");
                }
                if (bounds.Requests is { } most && await instance.CountAsync(s_patience, ct) is { } count && count.Requests >= most * early)
                {
                    return string.Create(CultureInfo.InvariantCulture, $"it has served {count.Requests} requests");
                }
            }
        }
        catch (OperationCanceledException)
        {
            return null;
        }
    }
}
