// Finds dot segments in a path as it was sent, in every spelling that some server reads as one. It removes nothing: TargetPath does.
namespace Millrace.Protocols.Text;

/// <summary>
/// Segments that say "here" and "one up" (RFC 3986 §3.3). Two servers that take them out in different ways see two different paths; clients take them out themselves
/// (RFC 3986 §5.2.4) before they send a request.
/// </summary>
public static class DotSegment
{
    private const int EscapeSize = 3;

    // How many dots the segment has so far; beyond two, or with anything else in it, it is an ordinary one.
    private const int Ordinary = 3;

    /// <summary>
    /// Whether a segment of the path is <c>.</c> or <c>..</c> once escapes are decoded. Segments end at a slash and at what some server takes for one: <c>%2F</c>, the backslash
    /// and <c>%5C</c>. Each escape is decoded once: <c>%252e</c> is no dot. A segment with more in it, like <c>...</c> or <c>..;</c>, is an ordinary one.
    /// </summary>
    /// <param name="rawPath">A path as sent, without the query.</param>
    /// <returns>False for the empty path.</returns>
    public static bool IsIn(ReadOnlySpan<byte> rawPath) =>
        (rawPath.ContainsAny((byte)'%', (byte)'\\') || rawPath.IndexOf("/."u8) >= 0) && Scan(rawPath);

    private static bool Scan(ReadOnlySpan<byte> path)
    {
        int dots = Ordinary;    // what stands before the first slash is no segment
        int at = 0;
        while (at < path.Length)
        {
            byte b = path[at];
            int value = b;
            at++;
            if (b == '%' && path.Length - at >= EscapeSize - 1 && TargetPath.HexPair(path[at], path[at + 1]) is >= 0 and int escaped)
            {
                value = escaped;
                at += EscapeSize - 1;
            }

            if (value is '/' or '\\')
            {
                if (dots is 1 or 2)
                {
                    return true;
                }

                dots = 0;
            }
            else
            {
                dots = value == '.' && dots < 2 ? dots + 1 : Ordinary;
            }
        }

        return dots is 1 or 2;
    }
}
