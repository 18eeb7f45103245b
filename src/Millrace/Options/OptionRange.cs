// What a value of an option may be, and the sentence for one that it may not.

using System.Globalization;

namespace Millrace;

/// <param name="Name">The option.</param>
/// <param name="Holds">Whether its value is within.</param>
/// <param name="Value">The value.</param>
/// <param name="Limits">From what to what.</param>
internal readonly record struct OptionRange(string Name, bool Holds, string Value, string Limits)
{
    public string Fault => $"Millrace option {Name} is {Value}; it must be {Limits}.";

    public static OptionRange Of<T>(string name, T value, T min, T max)
        where T : IComparable<T>, IFormattable => new(
            name,
            value.CompareTo(min) >= 0 && value.CompareTo(max) <= 0,
            value.ToString(null, CultureInfo.InvariantCulture),
            string.Create(CultureInfo.InvariantCulture, $"from {min} to {max}"));
}
