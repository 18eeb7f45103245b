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
    /// <summary>FastCGI variables that stand in for those of the request, or are sent besides, in the user's order.</summary>
    public IReadOnlyList<KeyValuePair<string, string>> Variables { get; init; } = [];

    /// <summary>Reads variables as they are written on the command line, "NAME=VALUE".</summary>
    /// <exception cref="CommandFailure">One has no name.</exception>
    public static IEnumerable<KeyValuePair<string, string>> ParseVariables(IEnumerable<string> variables) => variables.Select(static text =>
        text.IndexOf('=', StringComparison.Ordinal) is > 0 and var end
            ? new KeyValuePair<string, string>(text[..end], text[(end + 1)..])
            : throw CommandFailure.Usage($"'{text}' is no variable. Write NAME=VALUE, such as -p REMOTE_USER=ann."));

    /// <summary>The variables that a web server sends for a script (RFC 3875 §4.1.5, §4.1.13; SCRIPT_FILENAME and DOCUMENT_ROOT are custom).</summary>
    /// <param name="script">The file, as the responder sees it; below <paramref name="root"/> where it is relative.</param>
    /// <param name="root">The folder that is "/" to visitors; null: that of the script.</param>
    /// <param name="target">What is asked for: what follows the script's own path is PATH_INFO.</param>
    /// <exception cref="CommandFailure">The script is not below the root.</exception>
    public static IEnumerable<KeyValuePair<string, string>> ScriptVariables(string script, string? root, string target)
    {
        root = Path.GetFullPath(root ?? (Path.IsPathRooted(script) ? Path.GetDirectoryName(script) ?? "/" : "."));
        string file = Path.GetFullPath(script, root);
        string folder = root.TrimEnd('/') + "/";
        if (!file.StartsWith(folder, StringComparison.Ordinal))
        {
            throw CommandFailure.Usage($"{file} is not below {root}. Name the folder that is '/' to visitors with --root.");
        }
        string name = "/" + file[folder.Length..];
        string path = Uri.UnescapeDataString(target.Split('?')[0]);
        yield return new("SCRIPT_FILENAME", file);
        yield return new("DOCUMENT_ROOT", root);
        yield return new("SCRIPT_NAME", name);
        if (path.StartsWith(name + "/", StringComparison.Ordinal))
        {
            yield return new("PATH_INFO", path[name.Length..]);
        }
    }

    /// <summary>In place of a body: standard input, which is sent as it comes.</summary>
    public const string StandardInput = "@standard input";

    private const string FormType = "application/x-www-form-urlencoded";

    /// <summary>Checks and completes what was written on the command line.</summary>
    /// <param name="method">Null for GET, or POST where there is data.</param>
    /// <param name="target">Path and query; characters beyond ASCII and spaces are escaped.</param>
    /// <param name="headerLines">Lines of the form "Name: value".</param>
    /// <param name="data">The body itself, "@FILE", "@-" for standard input that is read to its end first, <see cref="StandardInput"/>, or null.</param>
    /// <param name="host">The Host field where no line names one.</param>
    /// <exception cref="CommandFailure">Something of it cannot be sent.</exception>
    public static FetchRequest Create(string? method, string target, IEnumerable<string> headerLines, string? data, string host = "localhost")
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
        if (data is not null and not StandardInput && !Has(headers, "Content-Type"))
        {
            headers.Add(new("Content-Type", FormType));
        }
        if (!Has(headers, "Host"))
        {
            headers.Insert(0, new("Host", host));
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
        if (data == StandardInput)
        {
            return new StandardInputBody();
        }
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
