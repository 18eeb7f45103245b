// What a front server would make of the records it was answered with: CGI head, body, error line, end.

using System.Globalization;
using System.Text;
using Millrace.Protocols.FastCgi;

namespace Millrace.Tests.Stress;

internal sealed class FastCgiResponse
{
    private readonly int _headEnd;
    private readonly byte[] _stdout;

    public FastCgiResponse(byte[] stdout, string stderr, EndRequest? end, int stdoutEnds)
    {
        _stdout = stdout;
        Stderr = stderr;
        End = end;
        StdoutEnds = stdoutEnds;
        int separator = stdout.AsSpan().IndexOf("\r\n\r\n"u8);
        _headEnd = separator < 0 ? 0 : separator + 4;
        foreach (string line in Encoding.Latin1.GetString(stdout, 0, Math.Max(0, _headEnd - 4)).Split("\r\n", StringSplitOptions.RemoveEmptyEntries))
        {
            string[] parts = line.Split(": ", 2);
            Fields.Add(new(parts[0], parts.Length > 1 ? parts[1] : ""));
        }
    }

    /// <summary>END_REQUEST; null when the connection ended without one.</summary>
    public EndRequest? End { get; }

    /// <summary>The server has broken the framing off, so that nobody takes the answer for a whole one.</summary>
    public bool IsBroken { get; init; }

    /// <summary>Empty STDOUT records: one ends the stream.</summary>
    public int StdoutEnds { get; }

    public bool HasHead => _headEnd > 0;

    public string Stderr { get; }

    /// <summary>Fields of the head in order, Status among them.</summary>
    public List<KeyValuePair<string, string>> Fields { get; } = [];

    public int Status => HasHead ? int.Parse(this["Status"].AsSpan(0, 3), CultureInfo.InvariantCulture) : 0;

    public ReadOnlySpan<byte> Body => _stdout.AsSpan(_headEnd);

    public string Text => Encoding.UTF8.GetString(Body);

    /// <summary>The value of a field, null when there is none; several are joined by a bar.</summary>
    public string? this[string name]
    {
        get
        {
            string[] values = [.. Fields.Where(f => f.Key.Equals(name, StringComparison.OrdinalIgnoreCase)).Select(static f => f.Value)];
            return values.Length == 0 ? null : string.Join('|', values);
        }
    }

    public bool IsWhole => End is { AppStatus: 0, Status: ProtocolStatus.RequestComplete } && HasHead;

    public override string ToString() => $"status {Status}, {Body.Length} bytes of body, end {End}, stderr \"{Stderr}\"";
}
