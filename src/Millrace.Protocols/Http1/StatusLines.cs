// Status lines ready to be copied: "HTTP/1.1 200 OK\r\n" for every status with a reason phrase. The phrases are those that ASP.NET Core
// sends (some of them older than RFC 9110 §15): a client that reads them finds what it has always found.

using System.Text;

namespace Millrace.Protocols.Http1;

/// <summary>Reason phrases and whole status lines.</summary>
public static class StatusLines
{
    private const int First = 100;
    private const int Count = 500;
    private static readonly byte[]?[] Lines = MakeLines();

    /// <summary>The reason phrase of a status, as ASP.NET Core has it, else an empty string (RFC 9112 §4: the phrase may be empty).</summary>
    public static string ReasonOf(int status) => status switch
    {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        306 => "Switch Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        _ => ErrorReasonOf(status),
    };

    /// <summary>The status line with CRLF, or empty for a status without a phrase.</summary>
    public static ReadOnlySpan<byte> LineOf(int status) => (uint)(status - First) < Count ? Lines[status - First] : default;

    private static string ErrorReasonOf(int status) => status switch
    {
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Payload Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        419 => "Authentication Timeout",
        421 => "Misdirected Request",
        422 => "Unprocessable Entity",
        423 => "Locked",
        424 => "Failed Dependency",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        499 => "Client Closed Request",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        510 => "Not Extended",
        511 => "Network Authentication Required",
        _ => "",
    };

    private static byte[]?[] MakeLines()
    {
        var lines = new byte[]?[Count];
        for (int i = 0; i < Count; i++)
        {
            string reason = ReasonOf(First + i);
            lines[i] = reason.Length > 0 ? Encoding.ASCII.GetBytes($"HTTP/1.1 {First + i} {reason}\r\n") : null;
        }

        return lines;
    }
}
