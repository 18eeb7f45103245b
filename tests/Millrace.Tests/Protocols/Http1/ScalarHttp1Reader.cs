// The HTTP/1.1 head reader as one would write it on the first day: byte by byte, from the grammar, with strings.
// It exists to be compared: the vectorised Http1Head must give the same answer for every input (see the differential tests).
// So it shares nothing with Http1Head but the enums, and its rules stand in the order in which they are checked.

using System.Text;
using Millrace.Protocols.Http1;

namespace Millrace.Tests.Protocols.Http1;

/// <summary>What the plain reader found: a status (200 for a good head, 0 for one that is not complete) and the values of a good one.</summary>
internal sealed class ScalarHead
{
    internal int Status;
    internal string Why = "";
    internal int Consumed;
    internal string Method = "";
    internal string Target = "";
    internal string Path = "";
    internal string Query = "";
    internal string Authority = "";
    internal TargetForm Form;
    internal HttpVersion Version;
    internal List<(string Name, string Value)> Headers = [];
    internal long ContentLength = -1;
    internal bool IsChunked;
    internal bool KeepAlive;
    internal bool ExpectsContinue;
    internal bool IsUpgrade;
    internal int HostIndex = -1;
}

/// <summary>The plain readers' way out: this status answers what they read.</summary>
internal sealed class ScalarRefusal(int status, string why) : Exception(why)
{
    internal int Status => status;
}

/// <summary>The plain readers' other way out: the text ends too early.</summary>
internal sealed class ScalarIncomplete : Exception;

/// <summary>A plain, slow reader of request heads.</summary>
internal static class ScalarHttp1Reader
{
    internal static ScalarHead Read(ReadOnlySpan<byte> input, in Http1Limits limits)
    {
        string text = Encoding.Latin1.GetString(input);
        var head = new ScalarHead();
        try
        {
            int at = text.StartsWith("\r\n", StringComparison.Ordinal) ? 2 : 0;
            at = ReadRequestLine(text, at, limits, head);
            head.Consumed = ReadFields(text, at, limits, head);
            Judge(head);
            head.Status = 200;
        }
        catch (ScalarRefusal refused)
        {
            head.Status = refused.Status;
            head.Why = refused.Message;
        }
        catch (ScalarIncomplete)
        {
            head.Status = 0;
        }

        return head;
    }

    // The line that starts at `from`, without its CRLF. Incomplete if the text ends before CRLF; any other control in it is refused.
    internal static string Line(string text, int from, long lengthMax, int tooLongStatus)
    {
        int at = from;
        while (at < text.Length && (text[at] == '\t' || (text[at] >= ' ' && text[at] != 0x7F)))
        {
            at++;
        }

        if (at - from + 2L > lengthMax)
        {
            throw new ScalarRefusal(tooLongStatus, "too long");
        }

        if (at == text.Length || (text[at] == '\r' && at + 1 == text.Length))
        {
            throw new ScalarIncomplete();
        }

        return text[at] == '\r' && text[at + 1] == '\n' ? text[from..at] : throw new ScalarRefusal(400, "control byte in line");
    }

    private static int ReadRequestLine(string text, int from, in Http1Limits limits, ScalarHead head)
    {
        if (text.Length == from || text is "\r")
        {
            throw new ScalarIncomplete();
        }

        // method SP
        int at = from;
        while (at < text.Length && IsTchar(text[at]))
        {
            at++;
        }

        Check(at - from <= 32, 501, "method too long");
        if (at < text.Length)
        {
            Check(at > from && text[at] == ' ', 400, "method");
            head.Method = text[from..at];
            Check(!head.Method.Any(char.IsAsciiLetterLower), 501, "method in lower case");
        }

        string line = Line(text, from, limits.RequestLineMax, 414);

        // request-target SP HTTP-version
        string rest = line[(head.Method.Length + 1)..];
        int space = rest.LastIndexOf(' ');
        Check(space > 0, 400, "no target or no version");
        string version = rest[(space + 1)..];
        bool isVersion = version.Length == 8 && version.StartsWith("HTTP/", StringComparison.Ordinal) &&
            char.IsAsciiDigit(version[5]) && version[6] == '.' && char.IsAsciiDigit(version[7]);
        Check(isVersion, 400, "version");
        Check(version is "HTTP/1.0" or "HTTP/1.1", 505, "version");
        head.Version = version == "HTTP/1.1" ? HttpVersion.Http11 : HttpVersion.Http10;
        head.Target = rest[..space];
        ReadTarget(head);
        Check(!limits.RefusesDotSegments || !HasDotSegment(head.Path), 400, "dot segment");
        return from + line.Length + 2;
    }

    private static void ReadTarget(ScalarHead head)
    {
        string target = head.Target;
        Check(target.All(c => c > ' ' && c < 0x7F && c != '#'), 400, "byte in target");
        if (head.Method == "CONNECT")
        {
            head.Form = TargetForm.Authority;
            head.Authority = target;
            CheckHost(target, portNeeded: true);
        }
        else if (target == "*")
        {
            head.Form = TargetForm.Asterisk;
            Check(head.Method == "OPTIONS", 400, "asterisk");
        }
        else if (target[0] == '/')
        {
            head.Form = TargetForm.Origin;
            ReadPathAndQuery(target, head);
        }
        else
        {
            head.Form = TargetForm.Absolute;
            string lower = target.ToLowerInvariant();
            Check(!lower.StartsWith("https://", StringComparison.Ordinal), 400, "https on a plain connection");
            int authority = lower.StartsWith("http://", StringComparison.Ordinal) ? 7 : 0;
            Check(authority > 0, 400, "target form");
            int end = target.IndexOfAny(['/', '?'], authority);
            end = end < 0 ? target.Length : end;
            head.Authority = target[authority..end];
            CheckHost(head.Authority, portNeeded: false);
            ReadPathAndQuery(target[end..], head);
        }
    }

    private static void ReadPathAndQuery(string text, ScalarHead head)
    {
        int question = text.IndexOf('?', StringComparison.Ordinal);
        head.Path = question < 0 ? text : text[..question];
        head.Query = question < 0 ? "" : text[question..];
        for (int i = 0; i < head.Path.Length; i++)
        {
            Check(head.Path[i] != '\\', 400, "backslash");
            Check(!head.Path.AsSpan(i).StartsWith("%00"), 400, "escaped NUL");
        }
    }

    // Every escape decoded once; slashes and backslashes end a segment, encoded ones too.
    private static bool HasDotSegment(string path)
    {
        var decoded = new StringBuilder();
        for (int i = 0; i < path.Length; i++)
        {
            bool isEscape = path[i] == '%' && i + 2 < path.Length && char.IsAsciiHexDigit(path[i + 1]) && char.IsAsciiHexDigit(path[i + 2]);
            decoded.Append(isEscape ? (char)Convert.ToInt32(path.Substring(i + 1, 2), 16) : path[i]);
            i += isEscape ? 2 : 0;
        }

        return decoded.ToString().Split('/', '\\').Skip(1).Any(segment => segment is "." or "..");
    }

    private static int ReadFields(string text, int from, in Http1Limits limits, ScalarHead head)
    {
        int at = from;
        while (true)
        {
            string line = Line(text, at, (long)limits.HeaderBytesMax - (at - from), 431);
            at += line.Length + 2;
            if (line.Length == 0)
            {
                return at;
            }

            Check(head.Headers.Count < limits.HeaderCountMax, 431, "too many");
            (string name, string value) = SplitField(line);
            head.Headers.Add((name, value));
            Note(head, name, value);
        }
    }

    internal static (string Name, string Value) SplitField(string line)
    {
        int colon = line.IndexOf(':', StringComparison.Ordinal);
        Check(colon > 0, 400, "no name");
        string name = line[..colon];
        Check(name.All(IsTchar), 400, "byte in name");
        return (name, line[(colon + 1)..].Trim(' ', '\t'));
    }

    private static void Note(ScalarHead head, string name, string value)
    {
        int count = head.Headers.Count(h => h.Name.Equals(name, StringComparison.OrdinalIgnoreCase));
        switch (name.ToLowerInvariant())
        {
            case "host":
                Check(count == 1, 400, "two hosts");
                head.HostIndex = head.Headers.Count - 1;
                Check(value.Length > 0 || head.Version == HttpVersion.Http10, 400, "empty host");
                if (value.Length > 0)
                {
                    CheckHost(value, portNeeded: false);
                }

                break;
            case "content-length":
                Check(count == 1, 400, "two lengths");
                Check(value.Length > 0 && value.All(char.IsAsciiDigit) && (value == "0" || value[0] != '0'), 400, "length");
                Check(System.Numerics.BigInteger.Parse(value, System.Globalization.CultureInfo.InvariantCulture) <= long.MaxValue, 400, "length too large");
                head.ContentLength = long.Parse(value, System.Globalization.CultureInfo.InvariantCulture);
                break;
            case "transfer-encoding":
                Check(count == 1, 400, "two codings");
                NoteCodings(head, value.Split(',').Select(c => c.Trim(' ', '\t').ToLowerInvariant()).ToList());
                break;
            case "connection":
                Check(value.Split(',').Select(o => o.Trim(' ', '\t')).All(o => o.All(IsTchar)), 400, "connection");
                break;
            case "expect":
                Check(value.Equals("100-continue", StringComparison.OrdinalIgnoreCase), 417, "expectation");
                break;
            default:
                break;
        }
    }

    private static void NoteCodings(ScalarHead head, List<string> codings)
    {
        Check(codings.All(c => c.Length > 0 && c.All(IsTchar)), 400, "coding");
        int chunked = codings.IndexOf("chunked");
        Check(chunked < 0 || chunked == codings.Count - 1, 400, "chunked is not the last");
        Check(codings.Count == 1 && chunked == 0, 501, "unknown coding");
        head.IsChunked = true;
    }

    private static void Judge(ScalarHead head)
    {
        Check(!(head.IsChunked && head.ContentLength >= 0), 400, "length and coding");
        Check(!(head.IsChunked && head.Version == HttpVersion.Http10), 400, "coding in 1.0");
        Check(head.HostIndex >= 0 || head.Version == HttpVersion.Http10, 400, "no host");
        Check(head.Version == HttpVersion.Http11 || head.ContentLength >= 0 || head.Method is not ("POST" or "PUT"), 400, "no length in 1.0");
        if (head.Form is TargetForm.Origin or TargetForm.Asterisk && head.HostIndex >= 0)
        {
            head.Authority = head.Headers[head.HostIndex].Value;
        }

        if (head.Form == TargetForm.Authority && head.HostIndex >= 0 && head.Headers[head.HostIndex].Value is { Length: > 0 } host)
        {
            string lower = host.ToLowerInvariant();
            string target = head.Target.ToLowerInvariant();
            Check(lower == target || lower == target[..target.LastIndexOf(':')], 400, "another host");
        }

        List<string> options = head.Headers.Where(h => h.Name.Equals("connection", StringComparison.OrdinalIgnoreCase))
            .SelectMany(h => h.Value.Split(',')).Select(o => o.Trim(' ', '\t').ToLowerInvariant()).ToList();
        bool is11 = head.Version == HttpVersion.Http11;
        head.KeepAlive = !options.Contains("close") && (is11 || options.Contains("keep-alive"));
        head.IsUpgrade = is11 && options.Contains("upgrade") && Has(head, "upgrade", emptyCounts: false);
        head.ExpectsContinue = is11 && Has(head, "expect", emptyCounts: true) && (head.IsChunked || head.ContentLength > 0);
    }

    private static bool Has(ScalarHead head, string name, bool emptyCounts) =>
        head.Headers.Any(h => h.Name.Equals(name, StringComparison.OrdinalIgnoreCase) && (emptyCounts || h.Value.Length > 0));

    // uri-host [ ":" port ]
    private static void CheckHost(string text, bool portNeeded)
    {
        int end = text.StartsWith('[') ? text.IndexOf(']', StringComparison.Ordinal) + 1 : text.IndexOf(':', StringComparison.Ordinal);
        end = end < 0 ? text.Length : end;
        string host = text[..end];
        string port = text[end..];
        Check(host.Length > 0, 400, "no host");
        Check(host[0] == '[' ? IsIPv6(host[1..^1]) : host.All(IsHostChar), 400, "host");
        Check(port.Length == 0 || (port.Length > 1 && port[0] == ':' && port[1..].All(char.IsAsciiDigit)), 400, "port");
        Check(port.Length <= 1 || System.Numerics.BigInteger.Parse(port[1..], System.Globalization.CultureInfo.InvariantCulture) <= 65535, 400, "port");
        Check(!portNeeded || port.Length > 1, 400, "port missing");
    }

    // The grammar of RFC 3986 §3.2.2, by making the address whole: "::" becomes the zeros it stands for, an IPv4 tail two groups.
    private static bool IsIPv6(string text)
    {
        if (text.Contains('.', StringComparison.Ordinal))
        {
            int tail = text.LastIndexOf(':') + 1;
            string[] parts = text[tail..].Split('.');
            bool isIPv4 = parts.Length == 4 && parts.All(p => p.Length is >= 1 and <= 3 && p.All(char.IsAsciiDigit) && (p == "0" || p[0] != '0') &&
                int.Parse(p, System.Globalization.CultureInfo.InvariantCulture) <= 255);
            if (!isIPv4 || tail == 0)
            {
                return false;
            }

            text = text[..tail] + "0:0";
        }

        string[] halves = text.Split("::");
        int groups = halves.Sum(h => h.Length == 0 ? 0 : h.Split(':').Length);
        return halves.Length <= 2 && (halves.Length == 1 ? groups == 8 : groups <= 7) &&
            halves.All(h => (h.Length == 0 && halves.Length == 2) || h.Split(':').All(g => g.Length is >= 1 and <= 4 && g.All(char.IsAsciiHexDigit)));
    }

    private static bool IsHostChar(char c) => char.IsAsciiLetterOrDigit(c) || "-._~!$&'()".Contains(c, StringComparison.Ordinal);

    internal static bool IsTchar(char c) => char.IsAsciiLetterOrDigit(c) || "!#$%&'*+-.^_`|~".Contains(c, StringComparison.Ordinal);

    internal static void Check(bool holds, int status, string why)
    {
        if (!holds)
        {
            throw new ScalarRefusal(status, why);
        }
    }
}
