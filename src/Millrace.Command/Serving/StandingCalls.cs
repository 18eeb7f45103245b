// What the daemon asks of file systems and devices that its applications have chosen, and that do not answer: a thread waits for each, and may be one that nothing ends (ForeignCalls.cs).

using System.Globalization;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal static class StandingCalls
{
    private const int SaidMax = 5;

    /// <summary>For how long such a call may take.</summary>
    public static readonly TimeSpan Patience = TimeSpan.FromSeconds(5);

    /// <summary>The same where there was none just before, and others wait meanwhile.</summary>
    public static readonly TimeSpan LastPatience = TimeSpan.FromMilliseconds(200);

    private static readonly TimeSpan s_look = TimeSpan.FromMilliseconds(20);

    /// <summary>Waits until there is none: one that is ended behind another may be the one that does not end.</summary>
    /// <param name="patience">For how long.</param>
    /// <param name="underWay">Those under way, each by its number with where it waits; null: those of this process.</param>
    /// <returns>Why this process cannot become another program; null where it can.</returns>
    public static async Task<string?> WhyNotAsync(TimeSpan patience, Func<IReadOnlyDictionary<long, string>>? underWay = null)
    {
        underWay ??= static () => ForeignCalls.UnderWay;
        long giveUpAt = Environment.TickCount64 + (long)patience.TotalMilliseconds;
        IReadOnlyDictionary<long, string> standing;
        while ((standing = underWay()).Count > 0 && Environment.TickCount64 < giveUpAt)
        {
            await Task.Delay(s_look);
        }
        if (standing.Count == 0)
        {
            return null;
        }
        var places = standing.OrderBy(static its => its.Key).Select(static its => its.Value).Distinct(StringComparer.Ordinal).Take(SaidMax);
        return string.Create(
            CultureInfo.InvariantCulture,
            $"{standing.Count} of the daemon's threads {(standing.Count == 1 ? "waits" : "wait")} for a file system or a device that does not answer ({string.Join("; ", places)}), and may never be ended. Have it answer, end the program behind it, or break it off (umount -f).");
    }
}
