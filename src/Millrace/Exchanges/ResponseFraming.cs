// How a response looks in the protocol of its connection: bytes in an output buffer. One for each connection: it knows the response in
// progress. Used by whoever writes that, and by whoever breaks it off, within the exchange's send lock.

using Microsoft.Net.Http.Headers;

namespace Millrace.Exchanges;

internal abstract class ResponseFraming(int chunkTailMax)
{
    /// <summary>Status line and fields. <paramref name="length"/>: of the body, -1 when it is not known.</summary>
    public abstract void WriteHead(Exchange exchange, OutputBuffer output, long length);

    /// <summary>Makes sure that body bytes may be appended.</summary>
    public abstract void OpenChunk(OutputBuffer output);

    /// <summary>Body bytes the open chunk has room for.</summary>
    public abstract int ChunkRoom(OutputBuffer output);

    /// <summary>Bytes that closing a chunk may add.</summary>
    public int ChunkTailMax => chunkTailMax;

    public abstract void CloseChunk(OutputBuffer output);

    /// <summary>The end of the response.</summary>
    public abstract void WriteEnd(Exchange exchange, OutputBuffer output);

    /// <summary>A chunk whose <paramref name="count"/> bytes follow from a file: its head. Answers the bytes allowed in it.</summary>
    public abstract int WriteFileChunkHead(OutputBuffer output, long count);

    /// <summary>What follows the file's bytes.</summary>
    public virtual void WriteFileChunkTail(OutputBuffer output)
    {
    }

    // ---- fields ----

    protected static bool Is(string name, string known) => ReferenceEquals(name, known) || name.Equals(known, StringComparison.OrdinalIgnoreCase);

    /// <summary>Whether a field is the server's to write, whatever the application has set: it concerns this connection alone (RFC 9110 §7.6.1), or frames the
    /// body. What is said of Connection and Upgrade is each protocol's.</summary>
    protected static bool IsOfConnection(string name) => name.Length switch
    {
        7 => Is(name, HeaderNames.Trailer),
        10 => Is(name, HeaderNames.Connection) || Is(name, HeaderNames.KeepAlive),
        14 => Is(name, HeaderNames.ContentLength),
        16 => Is(name, HeaderNames.ProxyConnection),
        17 => Is(name, HeaderNames.TransferEncoding),
        _ => false,
    };

    // ---- a response that is not whole ----

    /// <summary>Bytes after which the end of the connection is no end of a response.</summary>
    public abstract ReadOnlySpan<byte> BrokenOff { get; }

    /// <summary>Where the record or chunk ends of which a part has been sent: where the sending stands if there is none.</summary>
    public abstract int FrameEnd(OutputBuffer output);
}
