// Compares the path that a web server has looked at (decoded, simplified) with the one that was sent. No verdict about either of them.

namespace Millrace.Protocols.Text;

/// <summary>
/// The path for which a web server has chosen its rules. nginx and Apache decode the path of the target, take its dot segments out and merge its slashes, then look for the rules
/// that fit, and pass the target on as it came: where their path is not the one the application will see, their rules were for another request.
/// </summary>
public static class FrontPath
{
    private const int StackMax = 512;

    // Stands for %2F, which stays encoded in the application's path. No path holds it otherwise: %00 is refused.
    private const byte EncodedSlash = 0;

    /// <summary>
    /// Whether both are the same path: the one that was sent, decoded as the application will see it, and the web server's, but for slashes in a row, which some servers merge, and
    /// <c>%2F</c>, which some decode.
    /// </summary>
    /// <param name="rawPath">The path as sent.</param>
    /// <param name="told">The web server's own, decoded.</param>
    /// <returns>False where they differ, and where the path holds <c>%00</c>.</returns>
    public static bool IsSame(ReadOnlySpan<byte> rawPath, ReadOnlySpan<byte> told) =>
        TargetPath.NeedsDecoding(rawPath) ? IsSameDecoded(rawPath, told) : rawPath.SequenceEqual(told) || Compare(rawPath, told);

    private static bool IsSameDecoded(ReadOnlySpan<byte> rawPath, ReadOnlySpan<byte> told)
    {
        Span<byte> path = rawPath.Length > StackMax ? new byte[rawPath.Length] : stackalloc byte[StackMax];
        return TryDecode(rawPath, path, out int length) && Compare(path[..TargetPath.RemoveDotSegments(path[..length])], told);
    }

    // Every escape becomes its byte, be it UTF-8 or not: that is what web servers do.
    private static bool TryDecode(ReadOnlySpan<byte> rawPath, Span<byte> path, out int length)
    {
        length = 0;
        for (int at = 0; at < rawPath.Length; at++)
        {
            int value = rawPath[at];
            if (value == '%' && rawPath.Length - at > 2 && TargetPath.HexPair(rawPath[at + 1], rawPath[at + 2]) is >= 0 and int escaped)
            {
                if (escaped == 0)
                {
                    return false;
                }

                value = escaped == '/' ? EncodedSlash : escaped;
                at += 2;
            }

            path[length++] = (byte)value;
        }

        return true;
    }

    private static bool Compare(ReadOnlySpan<byte> path, ReadOnlySpan<byte> told)
    {
        int at = 0;
        int toldAt = 0;
        bool afterSlash = false;
        while (true)
        {
            at = afterSlash ? SkipSlashes(path, at) : at;
            toldAt = afterSlash ? SkipSlashes(told, toldAt) : toldAt;
            if (at == path.Length)
            {
                return toldAt == told.Length;
            }

            ReadOnlySpan<byte> rest = told[toldAt..];
            if (path[at] == EncodedSlash)
            {
                bool isEncoded = rest.Length >= 3 && rest[0] == '%' && TargetPath.HexPair(rest[1], rest[2]) == '/';
                bool isSlash = !isEncoded && !afterSlash;
                if (isSlash && (rest.IsEmpty || rest[0] != '/'))
                {
                    return false;
                }

                toldAt += isEncoded ? 3 : isSlash ? 1 : 0;
                afterSlash = !isEncoded;
            }
            else
            {
                if (rest.IsEmpty || rest[0] != path[at])
                {
                    return false;
                }

                afterSlash = path[at] == '/';
                toldAt++;
            }

            at++;
        }
    }

    private static int SkipSlashes(ReadOnlySpan<byte> text, int at)
    {
        while (at < text.Length && text[at] == '/')
        {
            at++;
        }

        return at;
    }
}
