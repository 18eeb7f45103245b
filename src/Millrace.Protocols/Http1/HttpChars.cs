// The character classes of RFC 9110 §5.6 and RFC 3986 §2, each as a readable predicate and as the ByteSet made from it.

namespace Millrace.Protocols.Http1;

internal static class HttpChars
{
    internal const byte Cr = (byte)'\r';
    internal const byte Lf = (byte)'\n';
    internal const byte Sp = (byte)' ';
    internal const byte Tab = (byte)'\t';

    /// <summary>tchar: the bytes of methods, field names and list elements (RFC 9110 §5.6.2).</summary>
    internal static readonly ByteSet Token = ByteSet.Of(IsToken);

    /// <summary>Everything that may stand inside a line: all but the controls other than HTAB, and DEL (RFC 9110 §5.5).</summary>
    internal static readonly ByteSet LineText = ByteSet.Of(IsLineText, withHigh: true);

    /// <summary>What a path may hold without closer look: VCHAR but # % ? and the backslash.</summary>
    internal static readonly ByteSet PlainPath = ByteSet.Of(b => IsVisible(b) && b is not ((byte)'#' or (byte)'%' or (byte)'?' or (byte)'\\'));

    /// <summary>What a query may hold: VCHAR but #. Browsers send more than RFC 3986 §3.4 allows, and nothing there is ambiguous.</summary>
    internal static readonly ByteSet Query = ByteSet.Of(b => IsVisible(b) && b != '#');

    /// <summary>What a registered name or an IPv4 address is made of in practice (RFC 3986 §3.2.2): no percent-encoding, no <c>* + , ; =</c>.</summary>
    internal static readonly ByteSet HostName = ByteSet.Of(IsHostName);

    internal static bool IsDigit(byte b) => (uint)(b - '0') <= 9;

    internal static bool IsAlpha(byte b) => (uint)((b | 0x20) - 'a') <= 'z' - 'a';

    internal static bool IsHexDigit(byte b) => IsDigit(b) || (uint)((b | 0x20) - 'a') <= 'f' - 'a';

    internal static bool IsVisible(byte b) => b is > 0x20 and < 0x7F;

    internal static bool IsLineText(byte b) => b is >= 0x20 and not 0x7F or Tab;

    internal static bool IsWhite(byte b) => b is Sp or Tab;

    internal static bool IsToken(byte b) => IsDigit(b) || IsAlpha(b) || (b < 0x80 && "!#$%&'*+-.^_`|~"u8.Contains(b));

    internal static bool IsHostName(byte b) => IsDigit(b) || IsAlpha(b) || (b < 0x80 && "-._~!$&'()"u8.Contains(b));
}
