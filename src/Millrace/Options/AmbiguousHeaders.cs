namespace Millrace;

/// <summary>
/// What becomes of a FastCGI request that has an <c>HTTP_</c> variable more than once, with different values: a field that was repeated, or fields such as <c>X-User</c> and
/// <c>X_User</c>, which have one variable.
/// </summary>
public enum AmbiguousHeaders
{
    /// <summary>
    /// All values are kept, but 400 for fields that no request has twice (<c>Authorization</c>, <c>X-Real-IP</c>, <c>X-User</c> ...), and for every field from web servers that join
    /// repeated fields themselves and make one name of several (lighttpd).
    /// </summary>
    Adaptive,

    /// <summary>400, but for fields that are lists (RFC 9110 §5.3) from other web servers than lighttpd.</summary>
    Refuse,

    /// <summary>All values are kept.</summary>
    Keep,
}
