// Well-known field names as the framework spells them, so that its look-ups by its own constants compare by reference.

using System.Collections.Frozen;
using System.Reflection;
using Microsoft.Net.Http.Headers;

namespace Millrace.Exchanges;

internal static class FieldNames
{
    private static readonly FrozenDictionary<string, string> s_known = typeof(HeaderNames)
        .GetFields(BindingFlags.Public | BindingFlags.Static)
        .Select(static field => field.GetValue(null) as string)
        .Where(static name => name is { Length: > 0 } && name[0] != ':')
        .Distinct(StringComparer.OrdinalIgnoreCase)
        .ToFrozenDictionary(static name => name!, static name => name!, StringComparer.OrdinalIgnoreCase);

    /// <summary>The framework's own string for a well-known name, else the name as it is.</summary>
    public static string Canonical(string name) => s_known.GetValueOrDefault(name, name);
}
