// Who a request may be for: Host values and authorities, stricter than RFC 3986 where two readers could differ.
//
//   Host     = uri-host [ ":" port ]                                    (RFC 9110 §7.2)
//   uri-host = IP-literal / IPv4address / reg-name                      (RFC 3986 §3.2.2)
//
// No userinfo (RFC 9110 §4.2.4), no percent-encoding, no * + , ; =, no IPvFuture, no zone; a port has digits and is 0 to 65535.

using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Millrace.Protocols.Text;

namespace Millrace.Protocols.Http1;

internal enum PortRule
{
    Optional,
    Required,
}

internal static class HostSyntax
{
    /// <summary>Bytes of "http://" at the start, in any case; 0 if it does not stand there.</summary>
    internal static int HttpSchemeLength(ReadOnlySpan<byte> target) => target.Length >= 7 && Ascii.EqualsLowerCase(target[..7], "http://"u8) ? 7 : 0;

    /// <summary>Whether "https://" stands at the start, in any case.</summary>
    internal static bool IsHttps(ReadOnlySpan<byte> target) => target.Length >= 8 && Ascii.EqualsLowerCase(target[..8], "https://"u8);

    [MethodImpl(MethodImplOptions.NoInlining)]
    internal static bool IsValid(ReadOnlySpan<byte> value, PortRule port)
    {
        int name = HttpChars.HostName.IndexOfStop(ref MemoryMarshal.GetReference(value), 0, value.Length);
        int host = HostLength(value, name);
        if (host <= 0)
        {
            return false;
        }

        return host == value.Length ? port == PortRule.Optional : value[host] == ':' && IsPort(value[(host + 1)..]);
    }

    /// <summary>
    /// Whether a value is a name or an IPv4 address of less than 64 bytes, alone or with a port of four digits. False says nothing.
    /// </summary>
    /// <param name="first">The value; 64 bytes from here on are readable, and behind the value stands CR.</param>
    /// <param name="length">Its length.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal static bool IsPlain(ref byte first, nint length)
    {
        nint name = (nint)(uint)BitOperations.TrailingZeroCount(HttpChars.HostName.StopsOfBlock(ref first));
        return name == length ? length != 0 :
            name == length - 5 && name != 0 && Unsafe.Add(ref first, name) == ':' && IsFourDigits(ref Unsafe.Add(ref first, name + 1));
    }

    // Four digits at once: a byte over '9' reaches bit 7 when 0x76 is added to it, one under '0' has a high bit after the exclusive or.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static bool IsFourDigits(ref byte first)
    {
        uint values = Unsafe.ReadUnaligned<uint>(ref first) ^ 0x30303030;
        return (((values + 0x76767676) | values) & 0x80808080) == 0;
    }

    private static int HostLength(ReadOnlySpan<byte> value, int name)
    {
        if (!value.IsEmpty && value[0] == '[')
        {
            int close = value.IndexOf((byte)']');
            return close > 0 && IsIPv6(value[1..close]) ? close + 1 : -1;
        }

        return name;
    }

    // port = 1*DIGIT here: RFC 3986 §3.2.3 would allow none behind the colon.
    private static bool IsPort(ReadOnlySpan<byte> digits)
    {
        int number = 0;
        foreach (byte b in digits)
        {
            if (!HttpChars.IsDigit(b) || (number = number * 10 + (b - '0')) > ushort.MaxValue)
            {
                return false;
            }
        }

        return !digits.IsEmpty;
    }

    // Eight groups of 1 to 4 hexadecimal digits, the last two perhaps as an IPv4 address; "::" once for one group of zeros or more.
    private static bool IsIPv6(ReadOnlySpan<byte> text)
    {
        int groups = 0;
        bool compressed = false;
        int at = 0;
        if (text.StartsWith("::"u8))
        {
            compressed = true;
            at = 2;
        }

        while (at < text.Length)
        {
            int digits = HexDigits(text[at..]);
            if (digits > 0 && at + digits < text.Length && text[at + digits] == '.')
            {
                groups += 2;
                return IsIPv4(text[at..]) && (compressed ? groups <= 7 : groups == 8);
            }

            if (digits is 0 or > 4)
            {
                return false;
            }

            groups++;
            at += digits;
            if (at == text.Length)
            {
                break;
            }

            if (text[at++] != ':' || at == text.Length)
            {
                return false;
            }

            if (text[at] == ':')
            {
                if (compressed)
                {
                    return false;
                }

                compressed = true;
                at++;
            }
        }

        return compressed ? groups <= 7 : groups == 8;
    }

    private static int HexDigits(ReadOnlySpan<byte> text)
    {
        int count = 0;
        while (count < text.Length && HttpChars.IsHexDigit(text[count]))
        {
            count++;
        }

        return count;
    }

    private static bool IsIPv4(ReadOnlySpan<byte> text)
    {
        for (int part = 0; part < 4; part++)
        {
            int count = 0;
            int number = 0;
            while (count < text.Length && HttpChars.IsDigit(text[count]) && count < 4)
            {
                number = number * 10 + (text[count++] - '0');
            }

            if (count is 0 or > 3 || number > 255 || (count > 1 && text[0] == '0'))
            {
                return false;
            }

            text = text[count..];
            if (part == 3)
            {
                return text.IsEmpty;
            }

            if (text.IsEmpty || text[0] != '.')
            {
                return false;
            }

            text = text[1..];
        }

        return false;
    }
}
