// Every way in which bytes can break FastCGI 1.0 framing, and what becomes of the connection. What a request *means* is judged in Cgi/.
namespace Millrace.Protocols.FastCgi;

/// <summary>Why a FastCGI connection cannot be read on. Each member names the clause of FastCGI 1.0 and the consequence.</summary>
public enum FastCgiFault : byte
{
    /// <summary>No fault.</summary>
    None,

    /// <summary>§3.3: the version byte of a record is not FCGI_VERSION_1. Raised by <see cref="RecordReader"/>; framing is lost, the connection is closed.</summary>
    Version,

    /// <summary>§5.1: the content of BEGIN_REQUEST is not 8 bytes. Raised by <see cref="BeginRequest.Check"/>; the connection is closed.</summary>
    BeginLength,

    /// <summary>§3.3: BEGIN_REQUEST with id 0, which belongs to management records. Raised by <see cref="BeginRequest.Check"/>; the connection is closed.</summary>
    BeginId,

    /// <summary>§5.1: BEGIN_REQUEST for the id of the request in progress, whose response is still awaited. Raised by <see cref="RequestSequence.Read"/>; which records are whose is lost, the connection is closed.</summary>
    BegunTwice,

    /// <summary>§5.2: STDIN before the end of PARAMS. Raised by <see cref="RequestSequence.Read"/>; the connection is closed.</summary>
    StdinTooEarly,

    /// <summary>
    /// §3.4: the lengths of a name-value pair add up to more than any stream that is taken (2³¹−1 bytes). Raised by <see cref="NameValuePairs.Read"/>;
    /// the request is refused with 400, a management record is answered with what was asked before the pair. The connection goes on.
    /// </summary>
    PairLength,
}
