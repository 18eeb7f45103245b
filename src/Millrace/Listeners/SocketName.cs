// The bytes of a sockaddr and what they mean: internet end points and Unix paths, both ways. No sockets are opened here.

using System.Buffers.Binary;
using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;
using System.Text;
using Millrace.Platform;

namespace Millrace.Listeners;

// sockaddr_in    family(2, host order)  port(2, network order)  address(4)  zero(8)
// sockaddr_in6   family(2)              port(2)                 flow(4)     address(16)  scope(4, host order)
// sockaddr_un    family(2)              path(108), ending in NUL

/// <summary>What a socket is bound to, or connected to: either an end point or a path, both null for a nameless Unix socket.</summary>
/// <param name="Address">Of an internet socket.</param>
/// <param name="Port">In [0, 65535]; 0 for a Unix socket.</param>
/// <param name="Path">Of a Unix socket; an abstract name has '@' in front.</param>
/// <param name="IsAbstract">A Unix socket whose name is no file: without owner, group and mode, open to every process of its network namespace.</param>
internal readonly record struct SocketName(IPAddress? Address, int Port, string? Path, bool IsAbstract = false)
{
    private const int IPv4Size = 16;
    private const int IPv6Size = 28;
    private const int PathOffset = 2;

    public static byte[] Write(IPAddress address, int port)
    {
        bool isIPv6 = address.AddressFamily == AddressFamily.InterNetworkV6;
        byte[] bytes = new byte[isIPv6 ? IPv6Size : IPv4Size];
        BinaryPrimitives.WriteUInt16BigEndian(bytes.AsSpan(2), (ushort)port);
        MemoryMarshal.Write(bytes, (ushort)(isIPv6 ? SystemCalls.AF_INET6 : SystemCalls.AF_INET));
        _ = address.TryWriteBytes(bytes.AsSpan(isIPv6 ? 8 : 4), out _);
        if (isIPv6)
        {
            MemoryMarshal.Write(bytes.AsSpan(24), (uint)address.ScopeId);
        }

        return bytes;
    }

    public static byte[] Write(string path)
    {
        byte[] bytes = new byte[PathOffset + Encoding.UTF8.GetByteCount(path) + 1];
        MemoryMarshal.Write(bytes, (ushort)SystemCalls.AF_UNIX);
        Encoding.UTF8.GetBytes(path, bytes.AsSpan(PathOffset));
        return bytes;
    }

    /// <summary>Null for a family that is neither internet nor Unix.</summary>
    public static SocketName? Read(ReadOnlySpan<byte> bytes)
    {
        if (bytes.Length < PathOffset)
        {
            return null;
        }

        return MemoryMarshal.Read<ushort>(bytes) switch
        {
            SystemCalls.AF_INET when bytes.Length >= 8 => new(new IPAddress(bytes.Slice(4, 4)), BinaryPrimitives.ReadUInt16BigEndian(bytes[2..]), null),
            SystemCalls.AF_INET6 when bytes.Length >= IPv6Size => new(
                new IPAddress(bytes.Slice(8, 16), MemoryMarshal.Read<uint>(bytes[24..])), BinaryPrimitives.ReadUInt16BigEndian(bytes[2..]), null),
            SystemCalls.AF_UNIX => new(null, 0, ReadPath(bytes[PathOffset..]), IsAbstract: bytes.Length > PathOffset + 1 && bytes[PathOffset] == 0),
            _ => null,
        };
    }

    /// <summary>The name of this end of a socket, or null when the descriptor is not a socket of a known family.</summary>
    public static unsafe SocketName? Of(int socket)
    {
        byte* buffer = stackalloc byte[SystemCalls.SocketAddressSizeMax];
        uint length = SystemCalls.SocketAddressSizeMax;
        return SystemCalls.GetSocketName(socket, buffer, &length) < 0 ? null : Read(new ReadOnlySpan<byte>(buffer, (int)length));
    }

    // Abstract names start with NUL and have no file; they are shown the way ss(8) does.
    private static string? ReadPath(ReadOnlySpan<byte> path)
    {
        if (path.IsEmpty)
        {
            return null;
        }

        if (path[0] == 0)
        {
            return path.Length == 1 ? null : "@" + Encoding.UTF8.GetString(path[1..]);
        }

        int end = path.IndexOf((byte)0);
        return Encoding.UTF8.GetString(end < 0 ? path : path[..end]);
    }
}
