// The 8-byte head of every FastCGI record (FastCGI 1.0 §3.3): reading and writing one value, no state. Streams are cut into records by RecordReader.
using System.Buffers.Binary;

namespace Millrace.Protocols.FastCgi;

/// <summary>The head of a record (FastCGI 1.0 §3.3). All numbers are big-endian.</summary>
/// <remarks>
/// <code>
///  0        1       2           4                6               7          8
/// +---------+------+-----------+----------------+---------------+----------+---------------------+---------------------+
/// | version | type | requestId | contentLength  | paddingLength | reserved | content (0..65535)  | padding (0..255)    |
/// +---------+------+-----------+----------------+---------------+----------+---------------------+---------------------+
/// BEGIN_REQUEST · PARAMS* · PARAMS(0) · STDIN* · STDIN(0)  →  STDOUT* · STDOUT(0) · END_REQUEST
/// </code>
/// </remarks>
public readonly struct RecordHeader : IEquatable<RecordHeader>
{
    /// <summary>Bytes of a record head.</summary>
    public const int Size = 8;

    /// <summary>Most content bytes of one record.</summary>
    public const int ContentLengthMax = 65535;

    /// <summary>FCGI_VERSION_1, the only version there is.</summary>
    public const byte Version1 = 1;

    /// <summary>FCGI_NULL_REQUEST_ID: of records that are about the connection, and not about a request (FastCGI 1.0 §3.3).</summary>
    public const ushort NullRequestId = 0;

    // The eight bytes as one big-endian number: version is the top byte.
    private readonly ulong _wire;

    internal RecordHeader(ulong wire) => _wire = wire;

    /// <summary>Makes a head of version 1.</summary>
    /// <param name="type">Any byte.</param>
    /// <param name="requestId">In [0, 65535]; 0 is management.</param>
    /// <param name="contentLength">In [0, 65535].</param>
    /// <param name="paddingLength">In [0, 255].</param>
    public RecordHeader(RecordType type, ushort requestId, int contentLength, int paddingLength) => _wire = Pack(type, requestId, contentLength, paddingLength);

    /// <summary>Version byte as sent; only 1 is good.</summary>
    public byte Version => (byte)(_wire >> 56);

    /// <summary>Type byte as sent; may be a value the enumeration does not name.</summary>
    public RecordType Type => (RecordType)(byte)(_wire >> 48);

    /// <summary>In [0, 65535]; 0 is management (§3.3).</summary>
    public ushort RequestId => (ushort)(_wire >> 32);

    /// <summary>Content bytes that follow the head, in [0, 65535].</summary>
    public int ContentLength => (ushort)(_wire >> 16);

    /// <summary>Padding bytes that follow the content, in [0, 255]; their values mean nothing.</summary>
    public int PaddingLength => (byte)(_wire >> 8);

    /// <summary>Reads the first 8 bytes of <paramref name="source"/>. The version is not judged and the reserved byte is ignored (§3.3).</summary>
    /// <param name="source">At least <see cref="Size"/> bytes.</param>
    /// <returns>The head.</returns>
    public static RecordHeader Read(ReadOnlySpan<byte> source) => new(BinaryPrimitives.ReadUInt64BigEndian(source));

    /// <summary>Writes this head into the first 8 bytes of <paramref name="destination"/>, the reserved byte as it was read (zero in a head made here).</summary>
    /// <param name="destination">At least <see cref="Size"/> bytes.</param>
    public void Write(Span<byte> destination) => BinaryPrimitives.WriteUInt64BigEndian(destination, _wire);

    /// <summary>Writes a head of version 1 with a zero reserved byte.</summary>
    /// <param name="destination">At least <see cref="Size"/> bytes.</param>
    /// <param name="type">Any byte.</param>
    /// <param name="requestId">In [0, 65535]; 0 is management.</param>
    /// <param name="contentLength">In [0, 65535].</param>
    /// <param name="paddingLength">In [0, 255].</param>
    public static void Write(Span<byte> destination, RecordType type, ushort requestId, int contentLength, int paddingLength) =>
        BinaryPrimitives.WriteUInt64BigEndian(destination, Pack(type, requestId, contentLength, paddingLength));

    /// <summary>Padding that brings <paramref name="contentLength"/> to a multiple of 8, as §3.3 recommends.</summary>
    /// <param name="contentLength">In [0, 65535].</param>
    /// <returns>In [0, 7].</returns>
    public static int PaddingFor(int contentLength) => -contentLength & 7;

    /// <inheritdoc/>
    public bool Equals(RecordHeader other) => _wire == other._wire;

    /// <inheritdoc/>
    public override bool Equals(object? obj) => obj is RecordHeader other && Equals(other);

    /// <inheritdoc/>
    public override int GetHashCode() => _wire.GetHashCode();

    /// <summary>Whether two heads have the same bytes.</summary>
    public static bool operator ==(RecordHeader left, RecordHeader right) => left.Equals(right);

    /// <summary>Whether two heads differ in a byte.</summary>
    public static bool operator !=(RecordHeader left, RecordHeader right) => !left.Equals(right);

    private static ulong Pack(RecordType type, ushort requestId, int contentLength, int paddingLength)
    {
        System.Diagnostics.Debug.Assert(contentLength is >= 0 and <= ContentLengthMax && paddingLength is >= 0 and <= 255, "a record field out of range");
        return ((ulong)Version1 << 56) | ((ulong)type << 48) | ((ulong)requestId << 32) | ((ulong)(ushort)contentLength << 16) | ((ulong)(byte)paddingLength << 8);
    }
}
