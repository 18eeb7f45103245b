// Judges the value of the Host field (RFC 9110 §7.2). It does not resolve, normalise or compare hosts.
using System.Buffers;

namespace Millrace.Protocols.Text;

/// <summary>The value of Host: <c>uri-host [ ":" port ]</c> (RFC 9110 §7.2, RFC 3986 §3.2.2).</summary>
public static class HostValue
{
    private const int PortMax = 65535;
    private const int IPv6LengthMin = 3;

    // unreserved / some sub-delims. Percent-encoding, "*", "+", ",", ";" and "=" are legal in a reg-name and never part of a real one: they are refused.
    private static readonly SearchValues<byte> NameCharacters = SearchValues.Create("!$&'()-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"u8);
    private static readonly SearchValues<byte> IPv6Characters = SearchValues.Create("0123456789ABCDEFabcdef:."u8);

    /// <summary>Whether <paramref name="host"/> is a name, an IPv4 address or a bracketed IPv6 address, with or without a port in [0, 65535].</summary>
    /// <param name="host">The field value.</param>
    /// <returns>False for the empty value, a port alone, a colon without a port, user information, a path, white space or any other byte.</returns>
    public static bool IsValid(ReadOnlySpan<byte> host)
    {
        if (host.IsEmpty || host[0] == ':')
        {
            return false;
        }

        if (host[0] == '[')
        {
            // "[" 3*( HEXDIG / ":" / "." ) "]" [ ":" port ]
            int close = host.IndexOf((byte)']');
            return close > IPv6LengthMin && !host[1..close].ContainsAnyExcept(IPv6Characters) && IsPortOrNothing(host[(close + 1)..]);
        }

        int nameEnd = host.IndexOfAnyExcept(NameCharacters);
        return nameEnd < 0 || IsPortOrNothing(host[nameEnd..]);
    }

    // [ ":" 1*DIGIT ], at most 65535
    private static bool IsPortOrNothing(ReadOnlySpan<byte> text)
    {
        if (text.IsEmpty)
        {
            return true;
        }

        return text[0] == ':' && Ascii.TryParseContentLength(text[1..], out long port) && port <= PortMax;
    }
}
