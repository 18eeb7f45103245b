// The configuration section "Millrace", read into options. By hand, so that a trimmed application keeps its options, and so
// that a value which cannot be read is a sentence that names the option, the value and what it may be.
//
// A duration is hours:minutes:seconds. A bare number is refused: .NET reads days where whoever wrote it meant seconds.

using System.Globalization;
using System.Reflection;
using Microsoft.Extensions.Configuration;

namespace Millrace.AspNetCore;

internal static class OptionsSection
{
    /// <summary>Sets the options that the section names; those it does not name stay as they are.</summary>
    /// <returns>A sentence for each value that cannot be read.</returns>
    public static IReadOnlyList<string> Read(IConfiguration section, MillraceOptions options)
    {
        List<string> faults = [];
        foreach (IConfigurationSection entry in section.GetChildren())
        {
            if (Find(entry.Key) is not { } option || IsAbsent(entry, option.PropertyType))
            {
                continue;
            }

            if (TryRead(entry.Value ?? "", option.PropertyType, out object? value, out string expected))
            {
                option.SetValue(options, value);
            }
            else
            {
                string? limits = options.Ranges().FirstOrDefault(range => range.Name == option.Name).Limits;
                faults.Add($"Millrace option {option.Name} is \"{entry.Value}\"; it must be {expected}{(limits is null ? "" : " " + limits)}.");
            }
        }

        return faults;
    }

    /// <summary>Keys of the section that name no option, each with the option that is spelt most like it.</summary>
    public static IEnumerable<(string Key, string Nearest)> Unknown(IConfiguration section) =>
        from entry in section.GetChildren()
        where Find(entry.Key) is null
        select (entry.Key, NearestName.To(entry.Key, Options.Select(static option => option.Name))!);

    // Written so that the trimmer sees which properties are meant.
    private static PropertyInfo[] Options => typeof(MillraceOptions).GetProperties();

    private static PropertyInfo? Find(string key) => Array.Find(Options, option => option.Name.Equals(key, StringComparison.OrdinalIgnoreCase));

    // A null in JSON, or a variable without a value: that is a value only where there may be none.
    private static bool IsAbsent(IConfigurationSection entry, Type type) => entry.Value is null && (Nullable.GetUnderlyingType(type) is null || entry.GetChildren().Any());

    private static bool TryRead(string text, Type type, out object? value, out string expected)
    {
        bool mayBeNone = Nullable.GetUnderlyingType(type) is not null;
        Type plain = Nullable.GetUnderlyingType(type) ?? type;
        value = null;
        expected = "";
        if (mayBeNone && text.Length == 0)
        {
            return true;
        }

        if (plain == typeof(TimeSpan))
        {
            return TryReadTime(text, out value, out expected);
        }

        if (plain.IsEnum)
        {
            expected = "one of " + string.Join(", ", Enum.GetNames(plain));
            return Enum.TryParse(plain, text, ignoreCase: true, out value) && Enum.IsDefined(plain, value);
        }

        if (plain == typeof(bool))
        {
            expected = "true or false";
            bool isFlag = bool.TryParse(text, out bool flag);
            value = flag;
            return isFlag;
        }

        expected = mayBeNone ? "a whole number, or empty for none," : "a whole number";
        bool isNumber = long.TryParse(text, NumberStyles.AllowLeadingSign | NumberStyles.AllowLeadingWhite | NumberStyles.AllowTrailingWhite, CultureInfo.InvariantCulture, out long number);
        value = plain == typeof(long) ? (object)number : (int)Math.Clamp(number, int.MinValue, int.MaxValue);
        return isNumber;
    }

    private static bool TryReadTime(string text, out object? value, out string expected)
    {
        expected = "a duration as hours:minutes:seconds";
        bool isBare = long.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out long number);
        if (isBare && number != 0)
        {
            expected += number < TimeSpan.MaxValue.TotalSeconds
                ? string.Create(CultureInfo.InvariantCulture, $" (\"{TimeSpan.FromSeconds(number)}\" if seconds were meant)")
                : "";
            value = null;
            return false;
        }

        bool isTime = TimeSpan.TryParse(text, CultureInfo.InvariantCulture, out TimeSpan time);
        value = time;
        return isTime;
    }
}
