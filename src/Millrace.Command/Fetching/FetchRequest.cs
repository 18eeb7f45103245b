// One request as the user asked for it, before a protocol gives it a form. Reads files and standard input for the body;
// opens no connection.

using System.Globalization;
using System.Text;

namespace Millrace.Command.Fetching;

/// <param name="Method">As sent, e.g. GET.</param>
/// <param name="Target">Path and query; ASCII, escaped.</param>
/// <param name="Headers">In the user's order; a name may repeat.</param>
/// <param name="Body">The body, or null for none.</param>
internal sealed record FetchRequest(string Method, string Target, IReadOnlyList<KeyValuePair<string, string>> Headers, Stream? Body)
{
    private const string FormType = "application/x-www-form-urlencoded";

    /// <summary>Checks and completes what was written on the command line.</summary>
    /// <param name="method">Null for GET, or POST where there is data.</param>
    /// <param name="target">Path and query; characters beyond ASCII and spaces are escaped.</param>
    /// <param name="headerLines">Lines of the form "Name: value".</param>
    /// <param name="data">The body itself, "@FILE", "@-" for standard input, or null.</param>
    /// <exception cref="CommandFailure">Something of it cannot be sent.</exception>
    public static FetchRequest Create(string? method, string target, IEnumerable<string> headerLines, string? data)
    {
        if (!target.StartsWith('/') && target != "*")
        {
            throw CommandFailure.Usage($"The path '{target}' does not start with '/'. Write the address and the path as two arguments: millrace get ADDRESS /PATH.");
        }
        method ??= data is null ? "GET" : "POST";
        if (!IsToken(method))
        {
            throw CommandFailure.Usage($"'{method}' is not a method. A method is one word such as GET.");
        }
        var headers = headerLines.Select(ParseHeader).ToList();
        if (data is not null && !Has(headers, "Content-Type"))
        {
            headers.Add(new("Content-Type", FormType));
        }
        if (!Has(headers, "Host"))
        {
            headers.Insert(0, new("Host", "localhost"));
        }
        if (!Has(headers, "User-Agent"))
        {
            headers.Add(new("User-Agent", "millrace"));
        }
        if (!Has(headers, "Accept"))
        {
            headers.Add(new("Accept", "*/*"));
        }
        return new FetchRequest(method, Escape(target), headers, data is null ? null : OpenBody(data));
    }

    private static bool Has(List<KeyValuePair<string, string>> headers, string name) => headers.Exists(h => h.Key.Equals(name, StringComparison.OrdinalIgnoreCase));

    private static KeyValuePair<string, string> ParseHeader(string line)
    {
        int colon = line.IndexOf(':', StringComparison.Ordinal);
        string name = colon < 0 ? "" : line[..colon];
        string value = line[(colon + 1)..].Trim(' ', '\t');
        return IsToken(name) && !value.Any(char.IsControl)
            ? new(name, value)
            : throw CommandFailure.Usage($"'{line}' is not a header. Write -H 'Name: value', the name without spaces.");
    }

    // token = 1*tchar (RFC 9110 §5.6.2)
    private static bool IsToken(string text) => text.Length > 0 && text.All(c => char.IsAsciiLetterOrDigit(c) || "!#$%&'*+-.^_`|~".Contains(c, StringComparison.Ordinal));

    private static string Escape(string target)
    {
        var escaped = new StringBuilder(target.Length);
        foreach (byte b in Encoding.UTF8.GetBytes(target))
        {
            _ = b is > 0x20 and < 0x7F ? escaped.Append((char)b) : escaped.Append(CultureInfo.InvariantCulture, $"%{b:X2}");
        }
        return escaped.ToString();
    }

    private static Stream OpenBody(string data)
    {
        if (!data.StartsWith('@'))
        {
            return new MemoryStream(Encoding.UTF8.GetBytes(data));
        }
        try
        {
            // FastCGI front ends announce the length, and standard input and pipes do not know their own: they are read first.
            var source = data == "@-" ? Console.OpenStandardInput() : File.OpenRead(data[1..]);
            if (source is FileStream { CanSeek: true, Length: > 0 })
            {
                return source;
            }
            var content = new MemoryStream();
            using (source)
            {
                source.CopyTo(content);
            }
            content.Position = 0;
            return content;
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException or ArgumentException)
        {
            throw CommandFailure.Usage($"The file '{data[1..]}' cannot be read: {error.Message}");
        }
    }
}
