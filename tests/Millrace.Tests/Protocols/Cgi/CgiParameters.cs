// Builds PARAMS streams for tests, and the request heads that web servers really send.
using System.Text;
using Millrace.Protocols.FastCgi;

namespace Millrace.Tests.Protocols.Cgi;

internal static class CgiParameters
{
    /// <summary>A browser's GET behind nginx with the distribution's fastcgi_params.</summary>
    public static (string Name, string Value)[] NginxGet { get; } =
    [
        ("QUERY_STRING", "x=1&y=2"), ("REQUEST_METHOD", "GET"), ("CONTENT_TYPE", ""), ("CONTENT_LENGTH", ""), ("SCRIPT_NAME", "/api/items/42"),
        ("REQUEST_URI", "/api/items/42?x=1&y=2"), ("DOCUMENT_URI", "/api/items/42"), ("DOCUMENT_ROOT", "/usr/share/nginx/html"), ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("REQUEST_SCHEME", "http"), ("GATEWAY_INTERFACE", "CGI/1.1"), ("SERVER_SOFTWARE", "nginx/1.22.1"), ("REMOTE_ADDR", "198.51.100.4"), ("REMOTE_PORT", "51342"),
        ("REMOTE_USER", ""), ("SERVER_ADDR", "192.0.2.1"), ("SERVER_PORT", "8080"), ("SERVER_NAME", ""), ("REDIRECT_STATUS", "200"),
        ("HTTP_HOST", "example.com:8080"), ("HTTP_USER_AGENT", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
        ("HTTP_ACCEPT", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), ("HTTP_ACCEPT_LANGUAGE", "en-US,en;q=0.5"),
        ("HTTP_ACCEPT_ENCODING", "gzip, deflate, br"), ("HTTP_CONNECTION", "keep-alive"), ("HTTP_COOKIE", "session=0123456789abcdef0123456789abcdef"),
    ];

    public static byte[] Write(params IEnumerable<(string Name, string Value)> pairs)
    {
        var stream = new List<byte>();
        foreach ((string name, string value) in pairs)
        {
            byte[] nameBytes = Encoding.Latin1.GetBytes(name);
            byte[] valueBytes = Encoding.Latin1.GetBytes(value);
            var pair = new byte[NameValuePairs.SizeOf(nameBytes.Length, valueBytes.Length)];
            NameValuePairs.Write(pair, nameBytes, valueBytes);
            stream.AddRange(pair);
        }

        return [.. stream];
    }

    /// <summary>The records of a request: BEGIN, PARAMS padded to 8, end of PARAMS, end of STDIN.</summary>
    public static byte[] WriteRequest(byte[] parameters)
    {
        int padding = RecordHeader.PaddingFor(parameters.Length);
        var wire = new byte[(4 * RecordHeader.Size) + BeginRequest.Size + parameters.Length + padding];
        Span<byte> rest = wire;
        RecordHeader.Write(rest, RecordType.BeginRequest, 1, BeginRequest.Size, 0);
        new BeginRequest(Role.Responder, KeepConnection: true).Write(rest[RecordHeader.Size..]);
        rest = rest[(RecordHeader.Size + BeginRequest.Size)..];
        RecordHeader.Write(rest, RecordType.Params, 1, parameters.Length, padding);
        parameters.CopyTo(rest[RecordHeader.Size..]);
        rest = rest[(RecordHeader.Size + parameters.Length + padding)..];
        RecordHeader.Write(rest, RecordType.Params, 1, 0, 0);
        RecordHeader.Write(rest[RecordHeader.Size..], RecordType.Stdin, 1, 0, 0);
        return wire;
    }
}
