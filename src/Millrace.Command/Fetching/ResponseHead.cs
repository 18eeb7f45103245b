// The head of a CGI response (RFC 3875 §6.2): header lines up to an empty one, the status among them. Collects bytes until
// the head is whole; the body is not touched.

using System.Globalization;
using System.Text;

namespace Millrace.Command.Fetching;

internal sealed class ResponseHead
{
    private const int SizeMax = 1 << 20;

    private readonly List<byte> _bytes = [];

    public bool IsComplete { get; private set; }

    /// <summary>Of the Status header; 302 with a Location and no Status (§6.2.3), else 200.</summary>
    public int StatusCode { get; private set; } = 200;

    /// <summary>The status as written, e.g. "404 Not Found".</summary>
    public string Status { get; private set; } = "200 OK";

    /// <summary>Bytes of the body, where the head says so in one number.</summary>
    public long? ContentLength
    {
        get
        {
            string[] values = [.. Lines.Where(static line => line.StartsWith("Content-Length:", StringComparison.OrdinalIgnoreCase)).Select(static line => line[(line.IndexOf(':', StringComparison.Ordinal) + 1)..].Trim())];
            return values.Length == 1 && long.TryParse(values[0], NumberStyles.None, CultureInfo.InvariantCulture, out long length) ? length : null;
        }
    }

    /// <summary>All header lines but the status.</summary>
    public List<string> Lines { get; } = [];

    /// <summary>Takes bytes until the head is complete.</summary>
    /// <returns>How many bytes of <paramref name="content"/> belong to the head.</returns>
    /// <exception cref="CommandFailure">What comes is not the head of a response.</exception>
    public int Read(ReadOnlySpan<byte> content)
    {
        for (int i = 0; i < content.Length; i++)
        {
            _bytes.Add(content[i]);
            if (content[i] == '\n' && EndsHere())
            {
                Parse(Encoding.Latin1.GetString([.. _bytes]));
                IsComplete = true;
                return i + 1;
            }
            if (_bytes.Count > SizeMax)
            {
                throw Broken("its header block is larger than 1 MB");
            }
        }
        return content.Length;
    }

    public static CommandFailure Broken(string why) =>
        new(ExitCode.BrokenResponse, $"The response is broken: {why}. -v shows the records; the server's log may say more.");

    private bool EndsHere() => _bytes is [(byte)'\n'] or [(byte)'\r', (byte)'\n'] or [.., (byte)'\n', (byte)'\n'] or [.., (byte)'\n', (byte)'\r', (byte)'\n'];

    private void Parse(string text)
    {
        bool hasStatus = false;
        foreach (string line in text.Split('\n').Select(l => l.TrimEnd('\r')).Where(l => l.Length > 0))
        {
            int colon = line.IndexOf(':', StringComparison.Ordinal);
            if (colon <= 0)
            {
                throw Broken($"the line '{line}' is not a header");
            }
            if (line.AsSpan(0, colon).Equals("Status", StringComparison.OrdinalIgnoreCase))
            {
                hasStatus = true;
                SetStatus(line[(colon + 1)..].Trim());
                continue;
            }
            Lines.Add(line);
            if (!hasStatus && line.AsSpan(0, colon).Equals("Location", StringComparison.OrdinalIgnoreCase))
            {
                SetStatus("302 Found");
            }
        }
    }

    private void SetStatus(string status)
    {
        if (status.Length < 3 || !int.TryParse(status.AsSpan(0, 3), NumberStyles.None, CultureInfo.InvariantCulture, out int code) || code < 100)
        {
            throw Broken($"'{status}' is not a status");
        }
        (Status, StatusCode) = (status, code);
    }
}
