// The path inside a request target (RFC 9112 §3.2): finding it, percent-decoding it, taking its dot segments out, and building a target from CGI variables.
// It does not judge which form a method may use; CgiHead and the HTTP/1.1 head do.
using System.Text;
using Millrace.Protocols.Cgi;

namespace Millrace.Protocols.Text;

/// <summary>Request targets and their paths. What is decoded and what stays encoded is what ASP.NET Core applications know from Kestrel.</summary>
public static class TargetPath
{
    private const int EscapeSize = 3;

    /// <summary>Whether <see cref="TryDecode"/> would change the path or refuse it; where not, the raw bytes are the path.</summary>
    /// <param name="rawPath">A path as sent.</param>
    /// <returns>True where it holds a percent sign or a segment that begins with a dot.</returns>
    public static bool NeedsDecoding(ReadOnlySpan<byte> rawPath) => rawPath.Contains((byte)'%') || rawPath.IndexOf("/."u8) >= 0;

    /// <summary>
    /// Decodes a path: escapes of ASCII characters and of well-formed UTF-8 become bytes; <c>%2F</c>, escapes that are no hexadecimal numbers and escapes of anything
    /// that is not UTF-8 (overlong forms, surrogates, lone bytes) stay as they are; then dot segments are removed (RFC 3986 §5.2.4). Empty segments stay.
    /// </summary>
    /// <param name="rawPath">A path as sent: empty, or beginning with a slash. Bytes that are not escapes are copied.</param>
    /// <param name="scratch">Room for the decoded path, at least as long as <paramref name="rawPath"/>. UTF-8.</param>
    /// <param name="length">Bytes of the decoded path.</param>
    /// <returns>False where the path holds <c>%00</c>: the request is refused with 400.</returns>
    public static bool TryDecode(ReadOnlySpan<byte> rawPath, Span<byte> scratch, out int length)
    {
        if (!NeedsDecoding(rawPath))
        {
            rawPath.CopyTo(scratch);
            length = rawPath.Length;
            return true;
        }

        if (!TryUnescape(rawPath, scratch, out length))
        {
            return false;
        }

        length = RemoveDotSegments(scratch[..length]);
        return true;
    }

    /// <summary>Finds path and query in a request target of any form (RFC 9112 §3.2).</summary>
    /// <param name="target">The target as sent.</param>
    /// <param name="path">The raw path; empty in the asterisk and authority forms and in an absolute form without a path.</param>
    /// <param name="query">The query with its question mark; not present where there is none.</param>
    public static void Split(ReadOnlySpan<byte> target, out Slice path, out Slice query)
    {
        int start = 0;
        if (target.IsEmpty || target[0] != '/')
        {
            start = AuthorityStart(target);
            if (start == 0)
            {
                path = new Slice(target.Length, 0);
                query = default;
                return;
            }

            int authorityLength = target[start..].IndexOfAny((byte)'/', (byte)'?');
            start = authorityLength < 0 ? target.Length : start + authorityLength;
        }

        int pathLength = target[start..].IndexOf((byte)'?');
        if (pathLength < 0)
        {
            path = new Slice(start, target.Length - start);
            query = default;
            return;
        }

        path = new Slice(start, pathLength);
        query = new Slice(start + pathLength, target.Length - start - pathLength);
    }

    /// <summary>Most bytes that <see cref="Rebuild"/> writes.</summary>
    /// <param name="scriptNameLength">Bytes of SCRIPT_NAME.</param>
    /// <param name="pathInfoLength">Bytes of PATH_INFO.</param>
    /// <param name="queryStringLength">Bytes of QUERY_STRING.</param>
    /// <returns>A length in bytes.</returns>
    public static int RebuildSizeMax(int scriptNameLength, int pathInfoLength, int queryStringLength) =>
        checked((EscapeSize * (scriptNameLength + pathInfoLength + queryStringLength)) + 1);

    /// <summary>
    /// Builds the target a front server did not send: SCRIPT_NAME and PATH_INFO (RFC 3875 §4.1.5, §4.1.13: decoded) are encoded again, QUERY_STRING (§4.1.7: as sent)
    /// follows after a question mark unless it is empty; bytes that no target may hold are encoded in it as well.
    /// </summary>
    /// <param name="scriptName">SCRIPT_NAME, or empty.</param>
    /// <param name="pathInfo">PATH_INFO, or empty.</param>
    /// <param name="queryString">QUERY_STRING, or empty.</param>
    /// <param name="destination">At least <see cref="RebuildSizeMax"/> bytes.</param>
    /// <returns>Bytes written.</returns>
    public static int Rebuild(ReadOnlySpan<byte> scriptName, ReadOnlySpan<byte> pathInfo, ReadOnlySpan<byte> queryString, Span<byte> destination)
    {
        int position = Escape(scriptName, isQuery: false, destination);
        position += Escape(pathInfo, isQuery: false, destination[position..]);
        if (!queryString.IsEmpty)
        {
            destination[position++] = (byte)'?';
            position += Escape(queryString, isQuery: true, destination[position..]);
        }

        return position;
    }

    /// <summary>Where the authority of an absolute-form target begins: behind <c>http://</c> or <c>https://</c> in any case.</summary>
    /// <param name="target">The target as sent.</param>
    /// <returns>An offset, or 0 where the target has another form.</returns>
    public static int AuthorityStart(ReadOnlySpan<byte> target)
    {
        ReadOnlySpan<byte> http = "http://"u8;
        ReadOnlySpan<byte> https = "https://"u8;
        return target.Length >= http.Length && Ascii.EqualsLowerCase(target[..http.Length], http) ? http.Length
            : target.Length >= https.Length && Ascii.EqualsLowerCase(target[..https.Length], https) ? https.Length
            : 0;
    }

    private static bool TryUnescape(ReadOnlySpan<byte> source, Span<byte> destination, out int length)
    {
        length = 0;
        while (true)
        {
            int plain = source.IndexOf((byte)'%');
            if (plain < 0)
            {
                source.CopyTo(destination[length..]);
                length += source.Length;
                return true;
            }

            source[..plain].CopyTo(destination[length..]);
            length += plain;
            source = source[plain..];
            int taken = Unescape(source, destination[length..], out int written);
            if (taken == 0)
            {
                return false;
            }

            source = source[taken..];
            length += written;
        }
    }

    // Source begins with "%". Bytes taken; 0 for %00. What cannot be decoded is copied: the percent sign alone, or the escape of a byte that begins no UTF-8 sequence.
    private static int Unescape(ReadOnlySpan<byte> source, Span<byte> destination, out int written)
    {
        int first = ReadEscape(source);
        if (first < 0)
        {
            destination[0] = (byte)'%';
            written = 1;
            return 1;
        }

        if (first < 0x80)
        {
            destination[0] = (byte)first;
            written = 1;
            return first == 0 ? 0 : EscapeSize;
        }

        // 2 to 4 escapes that make one scalar value (RFC 3629 §4); what stands behind a shorter one is not looked at.
        Span<byte> sequence = stackalloc byte[4];
        int count = 0;
        for (int next = first; next >= 0 && count < sequence.Length; next = ReadEscape(source[Math.Min(count * EscapeSize, source.Length)..]))
        {
            sequence[count++] = (byte)next;
        }

        if (Rune.DecodeFromUtf8(sequence[..count], out _, out int consumed) == System.Buffers.OperationStatus.Done)
        {
            sequence[..consumed].CopyTo(destination);
            written = consumed;
            return consumed * EscapeSize;
        }

        source[..EscapeSize].CopyTo(destination);
        written = EscapeSize;
        return EscapeSize;
    }

    // pct-encoded = "%" HEXDIG HEXDIG  (RFC 3986 §2.1); -1 where there is none, and for %2F, which is not the slash it stands for.
    private static int ReadEscape(ReadOnlySpan<byte> source)
    {
        if (source.Length < EscapeSize || source[0] != '%')
        {
            return -1;
        }

        int value = HexPair(source[1], source[2]);
        return value == '/' ? -1 : value;
    }

    /// <summary>The number that two hexadecimal digits make, -1 where they are none.</summary>
    internal static int HexPair(byte first, byte second)
    {
        int high = HexValue(first);
        int low = HexValue(second);
        return (high | low) < 0 ? -1 : (high << 4) | low;
    }

    private static int HexValue(byte b)
    {
        int digit = b - '0';
        if ((uint)digit <= 9)
        {
            return digit;
        }

        int letter = (b | 0x20) - 'a';
        return (uint)letter <= 5 ? letter + 10 : -1;
    }

    /// <summary>RFC 3986 §5.2.4 in place; what is written never passes what is read. The length of what is left.</summary>
    internal static int RemoveDotSegments(Span<byte> path)
    {
        if (path.IsEmpty || path[0] != '/')
        {
            return path.Length;
        }

        int read = 0;
        int write = 0;
        while (read < path.Length)
        {
            int segmentLength = path[(read + 1)..].IndexOf((byte)'/');
            int end = segmentLength < 0 ? path.Length : read + 1 + segmentLength;
            Span<byte> segment = path[(read + 1)..end];
            bool isParent = segment.SequenceEqual(".."u8);
            if (isParent || segment.SequenceEqual("."u8))
            {
                write = isParent ? Math.Max(path[..write].LastIndexOf((byte)'/'), 0) : write;
                if (end == path.Length)
                {
                    path[write++] = (byte)'/';
                }
            }
            else
            {
                path[read..end].CopyTo(path[write..]);
                write += end - read;
            }

            read = end;
        }

        return write;
    }

    private static int Escape(ReadOnlySpan<byte> text, bool isQuery, Span<byte> destination)
    {
        ReadOnlySpan<byte> digits = "0123456789ABCDEF"u8;
        int position = 0;
        foreach (byte b in text)
        {
            if (isQuery ? b is > 0x20 and < 0x7F and not (byte)'#' : IsPathCharacter(b))
            {
                destination[position++] = b;
            }
            else
            {
                destination[position++] = (byte)'%';
                destination[position++] = digits[b >> 4];
                destination[position++] = digits[b & 15];
            }
        }

        return position;
    }

    // pchar / "/" without pct-encoded (RFC 3986 §3.3)
    private static bool IsPathCharacter(byte b) =>
        b is (>= (byte)'a' and <= (byte)'z') or (>= (byte)'A' and <= (byte)'Z') or (>= (byte)'0' and <= (byte)'9') || "/-._~!$&'()*+,;=:@"u8.Contains(b);
}
