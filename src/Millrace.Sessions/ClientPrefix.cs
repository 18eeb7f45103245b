// Whoever has one address has its neighbours as well: clients are counted by /24 and /48.

using System.Buffers.Binary;
using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace Millrace.Sessions;

/// <summary>The network of a client: /24 of IPv4, /48 of IPv6. Addresses of this machine are in none.</summary>
/// <param name="Value">0: none. Otherwise the prefix, with a mark of the family.</param>
public readonly record struct ClientPrefix(ulong Value)
{
    private const ulong V4 = 1UL << 63;
    private const ulong V6 = 1UL << 62;

    /// <summary>Nothing is known of the client, or it is a web server on this machine that has not said for whom it asks.</summary>
    public bool IsNone => Value == 0;

    /// <summary>The network that an address is in.</summary>
    /// <param name="address">Null: not known.</param>
    /// <returns>None for addresses of this machine.</returns>
    public static ClientPrefix Of(IPAddress? address)
    {
        if (address is null || IPAddress.IsLoopback(address))
        {
            return default;
        }
        Span<byte> bytes = stackalloc byte[16];
        if (!address.TryWriteBytes(bytes, out int written))
        {
            return default;
        }
        bool isMapped = address.AddressFamily == AddressFamily.InterNetworkV6 && address.IsIPv4MappedToIPv6;
        return written == 4 || isMapped
            ? OfV4(isMapped ? bytes[12..] : bytes)
            : new ClientPrefix(V6 | (BinaryPrimitives.ReadUInt64BigEndian(bytes) >> 16));
    }

    /// <summary>Such as 192.0.2.0/24, or 2001:db8:1::/48.</summary>
    /// <returns>An empty text for none.</returns>
    public override string ToString()
    {
        Span<byte> bytes = stackalloc byte[16];
        bytes.Clear();
        if ((Value & V4) != 0)
        {
            BinaryPrimitives.WriteUInt32BigEndian(bytes, (uint)Value << 8);
            return string.Create(CultureInfo.InvariantCulture, $"{new IPAddress(bytes[..4])}/24");
        }
        BinaryPrimitives.WriteUInt64BigEndian(bytes, (Value & ~V6) << 16);
        return IsNone ? "" : string.Create(CultureInfo.InvariantCulture, $"{new IPAddress(bytes)}/48");
    }

    private static ClientPrefix OfV4(ReadOnlySpan<byte> bytes) => bytes[0] == 127 ? default : new ClientPrefix(V4 | (BinaryPrimitives.ReadUInt32BigEndian(bytes) >> 8));
}
