// The parameters of one request (RFC 3875 §4.1), as a web server would derive them. The way back, from parameters to a
// request, is the server's.

using System.Globalization;

namespace Millrace.Command.Fetching;

internal static class CgiParameters
{
    /// <summary>All that is sent: what a variable of the user's says stands in for what follows from the request.</summary>
    public static IEnumerable<KeyValuePair<string, string>> Of(FetchRequest request) =>
        Derived(request).Where(its => request.Variables.All(variable => variable.Key != its.Key)).Concat(request.Variables);

    private static IEnumerable<KeyValuePair<string, string>> Derived(FetchRequest request)
    {
        int query = request.Target.IndexOf('?', StringComparison.Ordinal);
        string host = request.Headers.First(h => h.Key.Equals("Host", StringComparison.OrdinalIgnoreCase)).Value;
        int port = host.LastIndexOf(':');
        bool hasPort = port > host.LastIndexOf(']');
        yield return new("GATEWAY_INTERFACE", "CGI/1.1");
        yield return new("REQUEST_METHOD", request.Method);
        yield return new("REQUEST_URI", request.Target);
        yield return new("SCRIPT_NAME", query < 0 ? request.Target : request.Target[..query]);
        yield return new("QUERY_STRING", query < 0 ? "" : request.Target[(query + 1)..]);
        yield return new("SERVER_PROTOCOL", "HTTP/1.1");
        yield return new("SERVER_SOFTWARE", "millrace");
        yield return new("SERVER_NAME", hasPort ? host[..port] : host);
        yield return new("SERVER_PORT", hasPort ? host[(port + 1)..] : "80");
        yield return new("REMOTE_ADDR", "127.0.0.1");
        yield return new("REMOTE_PORT", "0");
        foreach (var (name, value) in request.Headers)
        {
            if (name.Equals("Content-Type", StringComparison.OrdinalIgnoreCase))
            {
                yield return new("CONTENT_TYPE", value);
            }
            else if (name.Equals("Content-Length", StringComparison.OrdinalIgnoreCase))
            {
                yield return new("CONTENT_LENGTH", value);
            }
            else
            {
                yield return new("HTTP_" + name.ToUpperInvariant().Replace('-', '_'), value);
            }
        }
        bool hasLength = request.Headers.Any(h => h.Key.Equals("Content-Length", StringComparison.OrdinalIgnoreCase));
        if (request.Body is { CanSeek: true } body && !hasLength)
        {
            yield return new("CONTENT_LENGTH", body.Length.ToString(CultureInfo.InvariantCulture));
        }
    }
}
