// The fixed 8-byte contents: BEGIN_REQUEST (§5.1), END_REQUEST (§5.5), UNKNOWN_TYPE (§4.2). Values only; who may send them when is the connection's matter.
using System.Buffers.Binary;

namespace Millrace.Protocols.FastCgi;

/// <summary>Content of BEGIN_REQUEST (FastCGI 1.0 §5.1): <c>role(2) flags(1) reserved(5)</c>.</summary>
public readonly record struct BeginRequest(Role Role, bool KeepConnection)
{
    /// <summary>Bytes of the content.</summary>
    public const int Size = 8;

    private const byte KeepConnectionFlag = 1;

    /// <summary>Whether a BEGIN_REQUEST record with this id and content length can be taken.</summary>
    /// <param name="requestId">Id of the record.</param>
    /// <param name="contentLength">Content length of the whole record, in bytes.</param>
    /// <returns><see cref="FastCgiFault.None"/>, <see cref="FastCgiFault.BeginId"/> or <see cref="FastCgiFault.BeginLength"/>.</returns>
    public static FastCgiFault Check(ushort requestId, int contentLength) =>
        requestId == 0 ? FastCgiFault.BeginId : contentLength != Size ? FastCgiFault.BeginLength : FastCgiFault.None;

    /// <summary>Reads the content. Reserved flag bits and bytes are ignored (§5.1); the role may be a value the enumeration does not name.</summary>
    /// <param name="source">At least <see cref="Size"/> bytes.</param>
    /// <returns>The content.</returns>
    public static BeginRequest Read(ReadOnlySpan<byte> source) => Of(BinaryPrimitives.ReadUInt64BigEndian(source));

    /// <summary>The content as one big-endian number.</summary>
    internal static BeginRequest Of(ulong wire) => new((Role)(ushort)(wire >> 48), ((wire >> 40) & KeepConnectionFlag) != 0);

    /// <summary>Writes the content with zero reserved bytes.</summary>
    /// <param name="destination">At least <see cref="Size"/> bytes.</param>
    public void Write(Span<byte> destination) =>
        BinaryPrimitives.WriteUInt64BigEndian(destination, ((ulong)Role << 48) | (KeepConnection ? (ulong)KeepConnectionFlag << 40 : 0));
}

/// <summary>Content of END_REQUEST (FastCGI 1.0 §5.5): <c>appStatus(4) protocolStatus(1) reserved(3)</c>.</summary>
public readonly record struct EndRequest(uint AppStatus, ProtocolStatus Status)
{
    /// <summary>Bytes of the content.</summary>
    public const int Size = 8;

    /// <summary>Reads the content; reserved bytes are ignored.</summary>
    /// <param name="source">At least <see cref="Size"/> bytes.</param>
    /// <returns>The content.</returns>
    public static EndRequest Read(ReadOnlySpan<byte> source)
    {
        ulong wire = BinaryPrimitives.ReadUInt64BigEndian(source);
        return new((uint)(wire >> 32), (ProtocolStatus)(byte)(wire >> 24));
    }

    /// <summary>Writes the content with zero reserved bytes.</summary>
    /// <param name="destination">At least <see cref="Size"/> bytes.</param>
    public void Write(Span<byte> destination) => BinaryPrimitives.WriteUInt64BigEndian(destination, ((ulong)AppStatus << 32) | ((ulong)Status << 24));
}

/// <summary>Content of UNKNOWN_TYPE (FastCGI 1.0 §4.2): <c>type(1) reserved(7)</c>.</summary>
public static class UnknownType
{
    /// <summary>Bytes of the content.</summary>
    public const int Size = 8;

    /// <summary>Reads which type was not understood.</summary>
    /// <param name="source">At least <see cref="Size"/> bytes.</param>
    /// <returns>The type byte.</returns>
    public static byte Read(ReadOnlySpan<byte> source) => (byte)(BinaryPrimitives.ReadUInt64BigEndian(source) >> 56);

    /// <summary>Writes the content with zero reserved bytes.</summary>
    /// <param name="destination">At least <see cref="Size"/> bytes.</param>
    /// <param name="type">The type byte of the record that was not understood.</param>
    public static void Write(Span<byte> destination, byte type) => BinaryPrimitives.WriteUInt64BigEndian(destination, (ulong)type << 56);
}
