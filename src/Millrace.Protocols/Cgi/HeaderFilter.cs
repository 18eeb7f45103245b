// Which HTTP_* variables become request headers. Names only, no values.
using Millrace.Protocols.Text;

namespace Millrace.Protocols.Cgi;

/// <summary>What becomes of a variable that begins with <c>HTTP_</c>.</summary>
internal enum HeaderFate
{
    /// <summary>It is a request header.</summary>
    Keep,

    /// <summary>It is the Host header.</summary>
    Host,

    /// <summary>It is no header, or one that ends at the web server.</summary>
    Drop,
}

/// <summary>
/// Drops what must not reach an application: hop-by-hop fields, which ended at the web server (RFC 9110 §7.6.1); Proxy, which would look like the variable HTTP_PROXY;
/// Content-Type and Content-Length, which RFC 3875 §4.1 gives as CONTENT_TYPE and CONTENT_LENGTH; and names that are no token.
/// </summary>
internal static class HeaderFilter
{
    /// <summary>Judges the name behind <c>HTTP_</c>, in any case and with hyphens or underscores.</summary>
    public static HeaderFate Judge(ReadOnlySpan<byte> name)
    {
        HeaderFate fate = name.Length switch
        {
            0 => HeaderFate.Drop,
            2 => When(name, "TE"u8, HeaderFate.Drop),
            4 => When(name, "HOST"u8, HeaderFate.Host),
            5 => When(name, "PROXY"u8, HeaderFate.Drop),
            7 => name[0] is (byte)'U' or (byte)'u' ? When(name, "UPGRADE"u8, HeaderFate.Drop) : When(name, "TRAILER"u8, HeaderFate.Drop),
            10 => name[0] is (byte)'C' or (byte)'c' ? When(name, "CONNECTION"u8, HeaderFate.Drop) : When(name, "KEEP_ALIVE"u8, HeaderFate.Drop),
            12 => When(name, "CONTENT_TYPE"u8, HeaderFate.Drop),
            14 => When(name, "CONTENT_LENGTH"u8, HeaderFate.Drop),
            16 => When(name, "PROXY_CONNECTION"u8, HeaderFate.Drop),
            17 => When(name, "TRANSFER_ENCODING"u8, HeaderFate.Drop),
            _ => HeaderFate.Keep,
        };
        return fate == HeaderFate.Keep && !Ascii.IsToken(name) ? HeaderFate.Drop : fate;
    }

    private static HeaderFate When(ReadOnlySpan<byte> name, ReadOnlySpan<byte> expected, HeaderFate fate)
    {
        for (int i = 0; i < name.Length; i++)
        {
            byte b = name[i];
            byte folded = b == '-' ? (byte)'_' : b is >= (byte)'a' and <= (byte)'z' ? (byte)(b - 0x20) : b;
            if (folded != expected[i])
            {
                return HeaderFate.Keep;
            }
        }

        return fate;
    }
}
