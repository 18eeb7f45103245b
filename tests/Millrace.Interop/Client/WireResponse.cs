// A response as the client read it from the wire: nothing joined, nothing decoded except the chunks.
using System.Globalization;
using System.Text;

namespace Millrace.Interop.Client;

/// <summary>The status line and the header lines, in the order they came.</summary>
public sealed record WireHead(int Status, IReadOnlyList<KeyValuePair<string, string>> Headers)
{
    public long? ContentLength => Header("Content-Length") is string text ? long.Parse(text, CultureInfo.InvariantCulture) : null;

    public bool IsChunked => Header("Transfer-Encoding") == "chunked";

    public bool ClosesConnection => Header("Connection") == "close";

    /// <summary>The only value of a header; null where it is missing.</summary>
    public string? Header(string name) => HeaderValues(name) switch
    {
        [] => null,
        [string only] => only,
        string[] several => throw new InvalidDataException($"{several.Length} lines of {name}: {string.Join(" | ", several)}"),
    };

    public string[] HeaderValues(string name) =>
        [.. Headers.Where(header => header.Key.Equals(name, StringComparison.OrdinalIgnoreCase)).Select(static header => header.Value)];
}

/// <summary>A response whose body was read to its end.</summary>
public sealed record WireResponse(WireHead Head, byte[] Body)
{
    public int Status => Head.Status;

    public string Text => Encoding.UTF8.GetString(Body);

    public string? Header(string name) => Head.Header(name);
}

/// <summary>The connection ended before the response did: the client can tell that what it has is not all.</summary>
public sealed class CutResponseException : IOException
{
    public CutResponseException()
    {
    }

    /// <summary>Nothing of the response has come.</summary>
    public bool IsBeforeFirstByte { get; init; }

    public CutResponseException(string message) : base(message)
    {
    }

    public CutResponseException(string message, Exception inner) : base(message, inner)
    {
    }
}
