// Fields by how often a request may have them: those that are lists, and those that are one value and never come twice. Names only.
namespace Millrace.Protocols.Cgi;

/// <summary>The fields of which it is known whether they may be repeated. Asked only when a header is there twice.</summary>
internal static class RepeatedNames
{
    // RFC 9110 §5.3: what is defined as a list, and Cookie, which HTTP/2 may split (RFC 9113 §8.2.3).
    private static readonly HashSet<string> s_lists = new(
    [
        "A_IM", "ACCEPT", "ACCEPT_CHARSET", "ACCEPT_ENCODING", "ACCEPT_LANGUAGE", "ACCESS_CONTROL_REQUEST_HEADERS", "BAGGAGE", "CACHE_CONTROL", "CDN_LOOP", "CONTENT_DIGEST",
        "CONTENT_ENCODING", "CONTENT_LANGUAGE", "COOKIE", "CORRELATION_CONTEXT", "DIGEST", "EXPECT", "FORWARDED", "IF_MATCH", "IF_NONE_MATCH", "LINK", "PRAGMA", "PREFER",
        "PRIORITY", "REPR_DIGEST", "SEC_CH_UA", "SEC_CH_UA_FULL_VERSION_LIST", "SEC_WEBSOCKET_EXTENSIONS", "SEC_WEBSOCKET_PROTOCOL", "SIGNATURE", "SIGNATURE_INPUT",
        "TRACESTATE", "VIA", "WANT_CONTENT_DIGEST", "WANT_REPR_DIGEST", "WARNING", "X_FORWARDED_FOR",
    ], StringComparer.Ordinal);

    // One value by definition (RFC 9110 §5.5), and what front servers tell applications about the client: two of these are two answers to one question.
    private static readonly HashSet<string> s_singles = new(
    [
        "ACCESS_CONTROL_REQUEST_METHOD", "AUTHORIZATION", "CF_CONNECTING_IP", "DATE", "FASTLY_CLIENT_IP", "FROM", "FRONT_END_HTTPS", "HTTP2_SETTINGS", "IF_MODIFIED_SINCE", "IF_RANGE",
        "IF_UNMODIFIED_SINCE", "MAX_FORWARDS", "ORIGIN", "PROXY_AUTHORIZATION", "RANGE", "REFERER", "REMOTE_ADDR", "REMOTE_USER", "SEC_FETCH_DEST", "SEC_FETCH_MODE", "SEC_FETCH_SITE",
        "SEC_FETCH_USER", "SEC_WEBSOCKET_KEY", "SEC_WEBSOCKET_VERSION", "SOAPACTION", "SSL_CLIENT_CERT", "SSL_CLIENT_S_DN", "SSL_CLIENT_VERIFY", "TRACEPARENT", "TRUE_CLIENT_IP",
        "UPGRADE_INSECURE_REQUESTS", "USER_AGENT", "X_API_KEY", "X_AUTHENTICATED_USER", "X_CLIENT_CERT", "X_CLIENT_IP", "X_CSRF_TOKEN", "X_FORWARDED_EMAIL", "X_FORWARDED_GROUPS", "X_FORWARDED_HOST",
        "X_FORWARDED_PORT", "X_FORWARDED_PREFIX", "X_FORWARDED_PROTO", "X_FORWARDED_SCHEME", "X_FORWARDED_SSL", "X_FORWARDED_USER", "X_HTTP_METHOD_OVERRIDE",
        "X_ORIGINAL_URL", "X_REAL_IP", "X_REMOTE_USER", "X_REWRITE_URL", "X_SSL_CLIENT_CERT", "X_URL_SCHEME", "X_USER", "X_XSRF_TOKEN",
    ], StringComparer.Ordinal);

    private static readonly HashSet<string>.AlternateLookup<ReadOnlySpan<char>> s_listsByText = s_lists.GetAlternateLookup<ReadOnlySpan<char>>();
    private static readonly HashSet<string>.AlternateLookup<ReadOnlySpan<char>> s_singlesByText = s_singles.GetAlternateLookup<ReadOnlySpan<char>>();

    private const int LengthMax = 32;

    /// <summary>Whether several values of this field are one list.</summary>
    public static bool IsList(ReadOnlySpan<byte> name) => Contains(s_listsByText, name);

    /// <summary>Whether this field has one value and never two.</summary>
    public static bool IsSingle(ReadOnlySpan<byte> name) => Contains(s_singlesByText, name);

    private static bool Contains(HashSet<string>.AlternateLookup<ReadOnlySpan<char>> names, ReadOnlySpan<byte> name)
    {
        if (name.Length > LengthMax)
        {
            return false;
        }

        Span<char> folded = stackalloc char[LengthMax];
        for (int i = 0; i < name.Length; i++)
        {
            folded[i] = (char)RepeatedHeaders.Fold(name[i]);
        }

        return names.Contains(folded[..name.Length]);
    }
}
