// Header fields that speak of one connection, and end with it (RFC 9110 §7.6.1).

using Microsoft.Net.Http.Headers;

namespace Millrace.Connector;

internal static class ConnectionFields
{
    private static readonly HashSet<string> s_names = new(StringComparer.OrdinalIgnoreCase)
    {
        HeaderNames.Connection, HeaderNames.KeepAlive, HeaderNames.ProxyConnection, HeaderNames.TE, HeaderNames.TransferEncoding, HeaderNames.Upgrade,
    };

    private static readonly HashSet<string>.AlternateLookup<ReadOnlySpan<char>> s_lookup = s_names.GetAlternateLookup<ReadOnlySpan<char>>();

    public static IReadOnlyCollection<string> Names => s_names;

    public static bool Contains(string name) => s_names.Contains(name);

    /// <summary>The same for a name as it came.</summary>
    public static bool Contains(ReadOnlySpan<byte> name)
    {
        if (name.Length is not (2 or 7 or 10 or 16 or 17))
        {
            return false;       // none of them is so long
        }
        Span<char> text = stackalloc char[name.Length];
        _ = System.Text.Encoding.Latin1.GetChars(name, text);
        return s_lookup.Contains(text);
    }
}
