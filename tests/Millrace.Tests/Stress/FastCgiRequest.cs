// One request as the bytes a front server would send: BEGIN, PARAMS, STDIN. Not here: sockets (FastCgiPeer).

using System.Globalization;
using System.Text;
using Millrace.Protocols.FastCgi;

namespace Millrace.Tests.Stress;

internal sealed class FastCgiRequest(string target, string method = "GET")
{
    private readonly List<KeyValuePair<string, string>> _parameters = [];

    public ushort Id { get; init; } = 1;

    public bool KeepConnection { get; init; } = true;

    public byte[]? Body { get; init; }

    /// <summary>Bytes of body in one STDIN record.</summary>
    public int StdinSize { get; init; } = 32 * 1024;

    /// <summary>Whether CONTENT_LENGTH is sent with a body.</summary>
    public bool AnnouncesLength { get; init; } = true;

    /// <summary>Null for none.</summary>
    public string? Host { get; init; } = "example.com";

    /// <summary>Whether the client's and the front server's addresses are sent.</summary>
    public bool SaysAddresses { get; init; } = true;

    /// <summary>Adds a parameter of any name.</summary>
    public FastCgiRequest With(string name, string value)
    {
        _parameters.Add(new(name, value));
        return this;
    }

    /// <summary>Adds a header field of the client's.</summary>
    public FastCgiRequest WithHeader(string name, string value) => With("HTTP_" + name.ToUpperInvariant().Replace('-', '_'), value);

    /// <summary>All of it.</summary>
    public byte[] ToBytes()
    {
        var bytes = new List<byte>(1024);
        bytes.AddRange(Head());
        bytes.AddRange(Stdin(Body ?? []));
        bytes.AddRange(Record(RecordType.Stdin, []));
        return [.. bytes];
    }

    /// <summary>Everything before STDIN.</summary>
    public byte[] Head()
    {
        Span<byte> begin = stackalloc byte[BeginRequest.Size];
        new BeginRequest(Role.Responder, KeepConnection).Write(begin);
        return [.. Record(RecordType.BeginRequest, begin), .. Record(RecordType.Params, Parameters()), .. Record(RecordType.Params, [])];
    }

    /// <summary>Part of the body.</summary>
    public byte[] Stdin(ReadOnlySpan<byte> content)
    {
        var bytes = new List<byte>(content.Length + 64);
        for (int at = 0; at < content.Length; at += StdinSize)
        {
            bytes.AddRange(Record(RecordType.Stdin, content.Slice(at, Math.Min(StdinSize, content.Length - at))));
        }

        return [.. bytes];
    }

    public byte[] EndOfStdin() => Record(RecordType.Stdin, []);

    public byte[] Abort() => Record(RecordType.AbortRequest, []);

    private byte[] Parameters()
    {
        int query = target.IndexOf('?', StringComparison.Ordinal);
        var all = new List<KeyValuePair<string, string>>
        {
            new("REQUEST_METHOD", method),
            new("REQUEST_URI", target),
            new("SCRIPT_NAME", query < 0 ? target : target[..query]),
            new("QUERY_STRING", query < 0 ? "" : target[(query + 1)..]),
            new("SERVER_PROTOCOL", "HTTP/1.1"),
            new("CONTENT_LENGTH", Body is not null && AnnouncesLength ? Body.Length.ToString(CultureInfo.InvariantCulture) : ""),
        };
        if (Host is not null)
        {
            all.Add(new("HTTP_HOST", Host));
        }

        if (SaysAddresses)
        {
            all.AddRange([new("REMOTE_ADDR", "198.51.100.4"), new("REMOTE_PORT", "51342"), new("SERVER_ADDR", "192.0.2.1"), new("SERVER_PORT", "8080")]);
        }

        all.AddRange(_parameters);
        var stream = new byte[all.Sum(static p => NameValuePairs.SizeOf(Encoding.UTF8.GetByteCount(p.Key), Encoding.UTF8.GetByteCount(p.Value)))];
        int at = 0;
        foreach ((string name, string value) in all)
        {
            at += NameValuePairs.Write(stream.AsSpan(at), Encoding.UTF8.GetBytes(name), Encoding.UTF8.GetBytes(value));
        }

        return stream;
    }

    private byte[] Record(RecordType type, ReadOnlySpan<byte> content)
    {
        int padding = RecordHeader.PaddingFor(content.Length);
        var record = new byte[RecordHeader.Size + content.Length + padding];
        RecordHeader.Write(record, type, Id, content.Length, padding);
        content.CopyTo(record.AsSpan(RecordHeader.Size));
        return record;
    }
}
