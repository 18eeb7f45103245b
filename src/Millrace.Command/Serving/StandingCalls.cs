// What the daemon asks of file systems and devices that its applications have chosen (ForeignCalls.cs): a thread that waits for one may be one that nothing ends, and is not to be there when the daemon becomes another program.

using System.Globalization;
using Millrace.Command.Running;
using Millrace.Platform;

namespace Millrace.Command.Serving;

internal static class StandingCalls
{
    /// <summary>How long such calls are waited for before an upgrade is begun.</summary>
    public static readonly TimeSpan Patience = TimeSpan.FromSeconds(5);

    /// <summary>The same where there was none just before, and others wait meanwhile.</summary>
    public static readonly TimeSpan LastPatience = TimeSpan.FromMilliseconds(200);

    private static readonly TimeSpan s_look = TimeSpan.FromMilliseconds(20);

    /// <summary>Waits until there is none: that one has ended says nothing of the next.</summary>
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
        var places = standing.Values.Distinct(StringComparer.Ordinal).ToArray();
        var said = new FoundNames(places.Length, [.. places.Order(StringComparer.Ordinal).Take(FoundNames.SaidMax)]);
        return string.Create(
            CultureInfo.InvariantCulture,
            $"{standing.Count} of the daemon's threads {(standing.Count == 1 ? "waits" : "wait")} for a file system or a device that has not answered yet: {said}. Where it never does, nothing ends such a thread. Ask again; or have it answer, end the program behind it, or unmount it (umount -f).");
    }
}
