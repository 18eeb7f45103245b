// Times in the file of `millrace serve`.

using System.Globalization;

namespace Millrace.Command.Serving;

/// <summary>Times as people write them: a number and ms, s, m or h.</summary>
internal static class Duration
{
    /// <summary>Beyond what anybody may say: a hundred years.</summary>
    private static readonly TimeSpan Longest = TimeSpan.FromDays(36_500);

    public static bool TryParse(string text, out TimeSpan time)
    {
        int unitAt = text.AsSpan().IndexOfAnyExceptInRange('0', '9');
        double? unitMs = unitAt <= 0 ? null : text[unitAt..] switch
        {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => null,
        };
        bool isNumber = int.TryParse(unitAt > 0 ? text[..unitAt] : "", NumberStyles.None, CultureInfo.InvariantCulture, out int number);
        bool isTime = isNumber && number * unitMs <= Longest.TotalMilliseconds;
        time = isTime ? TimeSpan.FromMilliseconds(number * unitMs!.Value) : default;
        return isTime;
    }

    /// <summary>In the largest unit that says it exactly.</summary>
    public static string Text(TimeSpan time)
    {
        long ms = (long)time.TotalMilliseconds;
        var (unit, text) = ms % 3_600_000 == 0 ? (3_600_000, "h") : ms % 60_000 == 0 ? (60_000, "m") : ms % 1_000 == 0 ? (1_000, "s") : (1, "ms");
        return string.Create(CultureInfo.InvariantCulture, $"{ms / unit}{text}");
    }
}
