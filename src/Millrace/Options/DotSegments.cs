namespace Millrace;

/// <summary>What becomes of a request whose path has segments <c>.</c> or <c>..</c>, raw or encoded.</summary>
public enum DotSegments
{
    /// <summary>It is refused with 400: a web server in front may have read another path than the application would. Clients take dot segments out before they send.</summary>
    Refuse,

    /// <summary>They are removed (RFC 3986 §5.2.4), as Kestrel does it.</summary>
    Remove,
}
