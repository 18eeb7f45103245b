// Addresses can be changed by whoever has them (ScopeId of IPv6, the obsolete Address), and a connection's is that of all its requests: each gets its own.

using System.Net;
using System.Net.Sockets;

namespace Millrace.Exchanges;

internal static class OwnAddress
{
    private const int LengthMax = 16;

    /// <summary>A copy of a connection's address.</summary>
    public static IPAddress? Of(IPAddress? address)
    {
        if (address is null)
        {
            return null;
        }

        Span<byte> bytes = stackalloc byte[LengthMax];
        _ = address.TryWriteBytes(bytes, out int length);
        return address.AddressFamily == AddressFamily.InterNetworkV6 ? new IPAddress(bytes, address.ScopeId) : new IPAddress(bytes[..length]);
    }
}
