// Looks whether anybody comes to an application that is started by whoever does.

using System.Diagnostics;

namespace Millrace.Command.Serving;

internal static class IdleWatch
{
    private static readonly TimeSpan s_lookMin = TimeSpan.FromMilliseconds(100);
    private static readonly TimeSpan s_lookMax = TimeSpan.FromSeconds(1);

    /// <summary>Has it stopped when nobody has come for a while.</summary>
    /// <param name="generation">That serves.</param>
    /// <param name="idle">How long that is.</param>
    /// <param name="serves">Whether it still does.</param>
    /// <param name="stop">Is told how many requests it has served then. The answer is why it goes on, or null: it is over with it, in one way or another.</param>
    /// <param name="ct">Nobody wants to know any more.</param>
    public static async Task RunAsync(Generation generation, TimeSpan idle, Func<bool> serves, Func<long, Task<string?>> stop, CancellationToken ct)
    {
        TimeSpan period = idle / 10 < s_lookMin ? s_lookMin : idle / 10 > s_lookMax ? s_lookMax : idle / 10;
        long quietSince = Stopwatch.GetTimestamp();
        long before = -1;
        try
        {
            while (serves())
            {
                await Task.Delay(period, ct);
                var visits = await generation.VisitsAsync(ct);
                if (visits.IsUnknown)
                {
                    continue;
                }
                if (visits.Count.Running > 0 || visits.Count.Requests != before)
                {
                    before = visits.Count.Requests;
                    quietSince = Stopwatch.GetTimestamp();
                }
                else if (Stopwatch.GetElapsedTime(quietSince) >= idle && await stop(before) is null)
                {
                    return;
                }
            }
        }
        catch (OperationCanceledException)
        {
            // The daemon stops.
        }
    }
}
