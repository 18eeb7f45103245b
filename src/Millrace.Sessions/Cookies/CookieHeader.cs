// The session of a request that does not use it: looked for in the Cookie field as it came, without making a collection of cookies.

using Microsoft.Extensions.Primitives;

namespace Millrace.Sessions.Cookies;

internal static class CookieHeader
{
    // Of several of one name (two paths) the last, as in Request.Cookies: it names the session that the application would have.
    // cookie-string = cookie-pair *( ";" SP cookie-pair )  (RFC 6265 §4.2.1)
    public static bool TryReadKey(StringValues fields, string name, out SessionKey key, out bool hasSeal)
    {
        bool isOurs = false;
        key = default;
        hasSeal = false;
        for (int i = 0; i < fields.Count; i++)
        {
            ReadOnlySpan<char> rest = fields[i];
            while (!rest.IsEmpty)
            {
                int end = rest.IndexOf(';');
                ReadOnlySpan<char> pair = (end < 0 ? rest : rest[..end]).Trim(' ');
                rest = end < 0 ? [] : rest[(end + 1)..];
                if (pair.Length > name.Length && pair[name.Length] == '=' && pair.StartsWith(name, StringComparison.Ordinal))
                {
                    isOurs = TryReadKey(pair[(name.Length + 1)..], out key, out hasSeal);
                }
            }
        }
        return isOurs;
    }

    private static bool TryReadKey(ReadOnlySpan<char> value, out SessionKey key, out bool hasSeal)
    {
        SessionToken token = default;
        bool isOurs = value.Length >= SessionToken.Length && SessionToken.TryParse(value[..SessionToken.Length], out token) && (value.Length == SessionToken.Length || value[SessionToken.Length] == '.');
        key = isOurs ? token.Key : default;
        hasSeal = isOurs && value.Length > SessionToken.Length + 1;
        return isOurs;
    }
}
