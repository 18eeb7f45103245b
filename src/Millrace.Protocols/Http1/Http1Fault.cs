// Every way an HTTP/1.1 message from a client can be refused, with the clause it breaks and the status that answers it.
// A closed list: readers name a member, the connection answers with StatusOf(fault) and closes. Nothing here is thrown.

namespace Millrace.Protocols.Http1;

/// <summary>Why a message was refused. Raised by <see cref="Http1Head"/> and <see cref="ChunkedReader"/>; every fault ends the connection.</summary>
public enum Http1Fault : byte
{
    /// <summary>No fault.</summary>
    None,

    // Request line, RFC 9112 §3.

    /// <summary>A second empty line, or a lone CR, before the request line (RFC 9112 §2.2: one may be skipped). 400.</summary>
    EmptyLines,

    /// <summary>The first byte is a TLS record's: the client speaks TLS to a plain port (RFC 8446 §5.1). 400.</summary>
    TlsHandshake,

    /// <summary>The HTTP/2 connection preface (RFC 9113 §3.4). 505.</summary>
    Http2Preface,

    /// <summary>The method is empty, holds a byte that is no tchar, or is not followed by one SP (RFC 9112 §3.1, RFC 9110 §9.1). 400.</summary>
    Method,

    /// <summary>The method holds a lower-case letter: methods are case-sensitive and all known ones are upper-case (RFC 9110 §9.1). 501.</summary>
    MethodCase,

    /// <summary>The method is longer than <see cref="Http1Limits.MethodMax"/> bytes (RFC 9112 §3). 501.</summary>
    MethodTooLong,

    /// <summary>No request target between method and version (RFC 9112 §3.2). 400.</summary>
    TargetMissing,

    /// <summary>White space, a control, a byte over 0x7E, a fragment or a backslash in the target (RFC 9112 §3.2, RFC 3986 §3). 400.</summary>
    TargetSyntax,

    /// <summary>NUL, percent-encoded in the path (RFC 3986 §2.1). A percent sign that no two hexadecimal digits follow is no fault. 400.</summary>
    TargetEscape,

    /// <summary>A segment "." or "..", raw or encoded, in the path: two servers may take it out in two ways (RFC 3986 §3.3). 400.</summary>
    TargetDotSegments,

    /// <summary>A target form that the method does not allow, or a scheme that is neither http nor https (RFC 9112 §3.2). 400.</summary>
    TargetForm,

    /// <summary>An https target on a connection that is not secured: whoever secured it is not known to this listener (RFC 9110 §7.4). 400.</summary>
    TargetScheme,

    /// <summary>The authority in the target is empty, carries userinfo, or is not host [":" port] (RFC 9110 §4.2, RFC 9112 §3.2.3). 400.</summary>
    TargetAuthority,

    /// <summary>The request line has no version: the HTTP/0.9 form (RFC 9112 §3). 400.</summary>
    VersionMissing,

    /// <summary>Something other than "HTTP/" DIGIT "." DIGIT ends the request line (RFC 9112 §2.3). 400.</summary>
    VersionSyntax,

    /// <summary>A well-formed version that is neither 1.0 nor 1.1 (RFC 9110 §15.6.6). 505.</summary>
    VersionUnsupported,

    /// <summary>The request line is longer than <see cref="Http1Limits.RequestLineMax"/> (RFC 9112 §3). 414.</summary>
    RequestLineTooLong,

    // Lines and fields, RFC 9112 §2.2 and §5.

    /// <summary>A CR that is not followed by LF (RFC 9112 §2.2). 400.</summary>
    BareCr,

    /// <summary>An LF that does not follow CR; this server does not take it as a line end (RFC 9112 §2.2). 400.</summary>
    BareLf,

    /// <summary>NUL, another control, or DEL inside a line (RFC 9110 §5.5). 400.</summary>
    ControlByte,

    /// <summary>A field line without a name before the colon (RFC 9112 §5). 400.</summary>
    FieldNameEmpty,

    /// <summary>A byte that is no tchar in a field name, or a line without colon (RFC 9110 §5.1). 400.</summary>
    FieldName,

    /// <summary>White space between field name and colon (RFC 9112 §5.1). 400.</summary>
    SpaceBeforeColon,

    /// <summary>A line that starts with white space: obs-fold, or white space before the first field (RFC 9112 §5.2, §2.2). 400.</summary>
    LineFolding,

    /// <summary>The header section is larger than <see cref="Http1Limits.HeaderBytesMax"/> (RFC 6585 §5). 431.</summary>
    HeadersTooLarge,

    /// <summary>More field lines than <see cref="Http1Limits.HeaderCountMax"/> (RFC 6585 §5). 431.</summary>
    TooManyHeaders,

    // Meaning, RFC 9110 and RFC 9112 §6.

    /// <summary>HTTP/1.1 without Host (RFC 9112 §3.2). 400.</summary>
    HostMissing,

    /// <summary>More than one Host line (RFC 9112 §3.2). 400.</summary>
    HostRepeated,

    /// <summary>A Host that is empty (in HTTP/1.1) or not uri-host [":" port] (RFC 9110 §7.2). 400.</summary>
    HostSyntax,

    /// <summary>CONNECT with a Host that names another server than its target (RFC 9112 §3.2.3). 400.</summary>
    HostDisagrees,

    /// <summary>A Connection value that is not a list of tokens (RFC 9110 §7.6.1). 400.</summary>
    ConnectionSyntax,

    /// <summary>A Content-Length that is not plain digits: empty, signed, a list, a leading zero (RFC 9110 §8.6, RFC 9112 §6.3). 400.</summary>
    ContentLengthSyntax,

    /// <summary>More than one Content-Length line, equal or not (RFC 9112 §6.3). 400.</summary>
    ContentLengthRepeated,

    /// <summary>A Content-Length over 2^63-1: no length that anybody could mean, and one that others read as another number (RFC 9110 §8.6). 400.</summary>
    ContentLengthTooLarge,

    /// <summary>POST or PUT in HTTP/1.0 without a Content-Length (RFC 1945 §8.3). 400.</summary>
    ContentLengthMissing,

    /// <summary>Content-Length and Transfer-Encoding in one message (RFC 9112 §6.1, §6.3). 400.</summary>
    LengthAndEncoding,

    /// <summary>A Transfer-Encoding that is empty, has parameters, or is not a plain list of tokens (RFC 9112 §6.1). 400.</summary>
    TransferEncodingSyntax,

    /// <summary>More than one Transfer-Encoding line (RFC 9112 §6.1). 400.</summary>
    TransferEncodingRepeated,

    /// <summary>A coding follows chunked, or chunked stands twice (RFC 9112 §6.1, §6.3). 400.</summary>
    ChunkedNotFinal,

    /// <summary>A transfer coding other than chunked (RFC 9112 §6.1). 501.</summary>
    TransferEncodingUnknown,

    /// <summary>Transfer-Encoding in an HTTP/1.0 request (RFC 9112 §6.1). 400.</summary>
    TransferEncodingIn10,

    /// <summary>An expectation other than 100-continue (RFC 9110 §10.1.1). 417.</summary>
    Expectation,

    // Chunked body, RFC 9112 §7.1.

    /// <summary>A chunk size that is empty or holds something other than hexadecimal digits (RFC 9112 §7.1). 400.</summary>
    ChunkSize,

    /// <summary>A chunk size of more than 16 digits or over 2^63-1, which others read as another number (RFC 9112 §7.1). 400.</summary>
    ChunkSizeTooLarge,

    /// <summary>A chunk extension that breaks its grammar; a bare LF or CR there lets two servers see two bodies (RFC 9112 §7.1.1). 400.</summary>
    ChunkExtension,

    /// <summary>
    /// The extensions of one chunk are longer than <see cref="ChunkedReader.ExtensionBytesPerChunkMax"/>, or those of all chunks so far longer than
    /// <see cref="ChunkedReader.ExtensionBytesFree"/> and a share of the data (RFC 9112 §7.1.1). 413.
    /// </summary>
    ChunkExtensionTooLong,

    /// <summary>Chunk data that is not followed by CRLF at its announced end (RFC 9112 §7.1). 400.</summary>
    ChunkDataEnd,

    /// <summary>A field that frames, routes or authorises a message may not come as a trailer; others that may not are discarded (RFC 9110 §6.5.1). 400.</summary>
    TrailerForbidden,

    /// <summary>The body is larger than the server's limit (RFC 9110 §15.5.14). 413.</summary>
    BodyTooLarge,
}

/// <summary>What becomes of a fault.</summary>
public static class Http1Faults
{
    /// <summary>The status that answers a fault: 400, 413, 414, 417, 431, 501 or 505; 200 for <see cref="Http1Fault.None"/>.</summary>
    public static int StatusOf(Http1Fault fault) => fault switch
    {
        Http1Fault.None => 200,
        Http1Fault.ChunkExtensionTooLong or Http1Fault.BodyTooLarge => 413,
        Http1Fault.RequestLineTooLong => 414,
        Http1Fault.Expectation => 417,
        Http1Fault.HeadersTooLarge or Http1Fault.TooManyHeaders => 431,
        Http1Fault.MethodCase or Http1Fault.MethodTooLong or Http1Fault.TransferEncodingUnknown => 501,
        Http1Fault.Http2Preface or Http1Fault.VersionUnsupported => 505,
        _ => 400,
    };
}
