// The small values a head is made of: where things are in the buffer, and the closed choices of RFC 9112 §2.3 and §3.2.

namespace Millrace.Protocols.Http1;

/// <summary>A run of bytes in the buffer that was read, counted from the buffer's first byte.</summary>
/// <param name="Start">Index of the first byte.</param>
/// <param name="Length">Number of bytes; 0 means absent or empty.</param>
public readonly record struct ByteRange(int Start, int Length)
{
    /// <summary>Index behind the last byte.</summary>
    public int End => Start + Length;

    /// <summary>These bytes of the buffer that was read.</summary>
    public ReadOnlySpan<byte> Of(ReadOnlySpan<byte> buffer) => buffer.Slice(Start, Length);
}

/// <summary>One field line as offsets into the buffer: name without colon, value without the white space around it (RFC 9112 §5).</summary>
public struct HeaderField
{
    /// <summary>Index of the name's first byte.</summary>
    public int NameStart { get; internal set; }

    /// <summary>Bytes of the name, at least 1.</summary>
    public int NameLength { get; internal set; }

    /// <summary>Index of the value's first byte.</summary>
    public int ValueStart { get; internal set; }

    /// <summary>Bytes of the value; 0 for an empty one.</summary>
    public int ValueLength { get; internal set; }

    /// <summary>Which name it is, if it is one of the usual ones.</summary>
    public KnownHeader Known { get; internal set; }

    /// <summary>The name's bytes as sent.</summary>
    public readonly ReadOnlySpan<byte> Name(ReadOnlySpan<byte> buffer) => buffer.Slice(NameStart, NameLength);

    /// <summary>The value's bytes as sent, white space around it removed.</summary>
    public readonly ReadOnlySpan<byte> Value(ReadOnlySpan<byte> buffer) => buffer.Slice(ValueStart, ValueLength);
}

/// <summary>The two versions this layer speaks (RFC 9112 §2.3).</summary>
public enum HttpVersion : byte
{
    /// <summary>HTTP/1.0.</summary>
    Http10,

    /// <summary>HTTP/1.1.</summary>
    Http11,
}

/// <summary>The four forms of a request target (RFC 9112 §3.2).</summary>
public enum TargetForm : byte
{
    /// <summary><c>/path?query</c> (§3.2.1).</summary>
    Origin,

    /// <summary><c>http://host/path?query</c> (§3.2.2); its authority overrides Host.</summary>
    Absolute,

    /// <summary><c>host:port</c>, only with CONNECT (§3.2.3).</summary>
    Authority,

    /// <summary><c>*</c>, only with OPTIONS (§3.2.4).</summary>
    Asterisk,
}
