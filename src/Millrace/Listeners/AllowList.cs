// Which peers may connect: addresses and CIDR ranges, IPv4 and IPv6 alike. Decides on the peer of the TCP connection,
// never on anything a header says. Unix sockets have no list: their file mode, owner and group decide.
//
// allow-list = entry *( "," entry )
// entry      = address [ "/" prefix-length ]

using System.Buffers.Binary;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;
using Millrace.Platform;

namespace Millrace.Listeners;

internal sealed class AllowList
{
    // Every address is 128 bits here, an IPv4 address as ::ffff:a.b.c.d: so the two ways of writing it are one.
    private readonly Range[] _ranges;

    private AllowList(Range[] ranges) => _ranges = ranges;

    /// <exception cref="FormatException">An entry is not an address or a range, or there is none.</exception>
    public static AllowList Parse(string text)
    {
        var ranges = new List<Range>();
        foreach (string part in text.Split(','))
        {
            string entry = part.Trim();
            if (entry.Length == 0)
            {
                throw new FormatException(
                    $"The allow-list '{text}' has an empty entry; write addresses and ranges with commas between them, such as 10.0.0.5,10.1.0.0/16.");
            }

            ranges.Add(ParseEntry(entry));
        }

        return new AllowList([.. ranges]);
    }

    /// <summary>True when the peer is on the list. <c>::ffff:1.2.3.4</c> counts as <c>1.2.3.4</c>.</summary>
    public bool Contains(IPAddress address) => Contains(ToBits(address));

    /// <summary>The same for the bytes of a sockaddr, as accept4 gives them. False for anything that is not an internet address.</summary>
    public bool Contains(ReadOnlySpan<byte> socketAddress)
    {
        if (socketAddress.Length < 8)
        {
            return false;
        }

        // sockaddr_in: family(2, host order) port(2) address(4); sockaddr_in6: family(2) port(2) flow(4) address(16) scope(4)
        int family = MemoryMarshal.Read<ushort>(socketAddress);
        return family switch
        {
            SystemCalls.AF_INET => Contains(Mapped(BinaryPrimitives.ReadUInt32BigEndian(socketAddress[4..]))),
            SystemCalls.AF_INET6 when socketAddress.Length >= 24 => Contains(BinaryPrimitives.ReadUInt128BigEndian(socketAddress[8..])),
            _ => false,
        };
    }

    /// <summary>The canonical text; <see cref="Parse"/> reads it back.</summary>
    public override string ToString() => string.Join(',', _ranges.Select(static range => range.ToString()));

    private bool Contains(UInt128 address)
    {
        foreach (ref readonly Range range in _ranges.AsSpan())
        {
            if ((address & range.Mask) == range.Network)
            {
                return true;
            }
        }

        return false;
    }

    private static Range ParseEntry(string entry)
    {
        int slash = entry.IndexOf('/', StringComparison.Ordinal);
        IPAddress address = ParseAddress(slash < 0 ? entry : entry[..slash], entry);
        bool isIPv4 = address.AddressFamily == AddressFamily.InterNetwork;
        int bits = isIPv4 ? 32 : 128;
        int length = bits;
        if (slash >= 0 && (!int.TryParse(entry.AsSpan(slash + 1), NumberStyles.None, CultureInfo.InvariantCulture, out length) || length > bits))
        {
            throw new FormatException($"'{entry}' in the allow-list has no prefix length from 0 to {bits} after the '/'; write for example {address}/{bits}.");
        }

        // From here on IPv4 counts within ::ffff:0:0/96.
        int fullLength = isIPv4 ? length + 96 : length;
        UInt128 mask = fullLength == 0 ? UInt128.Zero : UInt128.MaxValue << (128 - fullLength);
        UInt128 value = ToBits(address);
        var range = new Range(value & mask, mask, fullLength);
        return (value & ~mask) == 0
            ? range
            : throw new FormatException($"'{entry}' in the allow-list has bits set behind its prefix; write {range} for the range or {address} for the one address.");
    }

    private static IPAddress ParseAddress(string text, string entry)
    {
        // IPAddress.TryParse takes 10.1, 0x7f.1 and 010.0.0.1 for addresses: each can be read in two ways, so none is taken.
        bool isAddress = IPAddress.TryParse(text, out IPAddress? address)
            && !text.Contains('[', StringComparison.Ordinal)
            && !text.Contains('%', StringComparison.Ordinal)
            && (address.AddressFamily == AddressFamily.InterNetworkV6 || string.Equals(address.ToString(), text, StringComparison.Ordinal));
        return isAddress
            ? address!
            : throw new FormatException(
                $"'{entry}' in the allow-list is neither an address nor a range; write for example 10.0.0.5, 10.1.0.0/16 or fd00::/8 (no host names).");
    }

    private static UInt128 ToBits(IPAddress address)
    {
        Span<byte> bytes = stackalloc byte[16];
        _ = address.TryWriteBytes(bytes, out int written);
        return written == 4 ? Mapped(BinaryPrimitives.ReadUInt32BigEndian(bytes)) : BinaryPrimitives.ReadUInt128BigEndian(bytes);
    }

    private static UInt128 Mapped(uint address) => ((UInt128)0xFFFF << 32) | address;

    /// <summary><see cref="PrefixLength"/> counts in 128 bits: an IPv4 /8 is 104.</summary>
    private readonly record struct Range(UInt128 Network, UInt128 Mask, int PrefixLength)
    {
        public override string ToString()
        {
            bool isIPv4 = PrefixLength >= 96 && Network >> 32 == 0xFFFF;
            Span<byte> bytes = stackalloc byte[16];
            BinaryPrimitives.WriteUInt128BigEndian(bytes, Network);
            var address = new IPAddress(isIPv4 ? bytes[12..] : bytes);
            return PrefixLength == 128
                ? address.ToString()
                : string.Create(CultureInfo.InvariantCulture, $"{address}/{(isIPv4 ? PrefixLength - 96 : PrefixLength)}");
        }
    }
}
