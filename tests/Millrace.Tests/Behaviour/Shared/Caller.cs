// A client that asks and reads answers without saying in what protocol: the bytes of requests in either, and what came back
// in the words both share.

using System.Globalization;
using System.Text;
using Millrace.Tests.Behaviour.Http1;
using Millrace.Tests.Simulation;

namespace Millrace.Tests.Behaviour.Shared;

/// <summary>A response, or as much of it as has come.</summary>
internal sealed record Answer(int Status, string Head, byte[] Body)
{
    public string BodyText => Encoding.UTF8.GetString(Body);

    public string? Field(string name) => Head.Split("\r\n").Where(line => line.StartsWith(name + ": ", StringComparison.OrdinalIgnoreCase))
        .Select(line => line[(name.Length + 2)..]).FirstOrDefault();
}

internal abstract class Caller(IClient end)
{
    public IClient End => end;

    public SimulatedSocket Socket => end.Socket;

    /// <summary>The server has ended the connection and everything has been read.</summary>
    public bool IsAtEnd => end.Socket.AtEnd;

    /// <summary>Whole responses, in the order in which they ended.</summary>
    public abstract IReadOnlyList<Answer> Answers { get; }

    /// <summary>The response that has begun, as far as it has come; null when there is none.</summary>
    public abstract Answer? Begun { get; }

    /// <summary>A request up to its body. <paramref name="length"/>: of the body; null when it is not announced, negative when there is none.</summary>
    public abstract byte[] Head(string target, string method = "GET", long? length = -1, bool keep = true, params (string Name, string Value)[] fields);

    /// <summary>Bytes of the body of the request whose head was made last.</summary>
    public abstract byte[] Part(byte[] bytes);

    /// <summary>The end of that body.</summary>
    public abstract byte[] EndOfBody();

    /// <summary>A whole request.</summary>
    public byte[] Request(string target, string method = "GET", byte[]? body = null, bool announced = true, bool keep = true, params (string Name, string Value)[] fields) =>
        [.. Head(target, method, body is null ? -1 : announced ? body.Length : null, keep, fields), .. body is { Length: > 0 } ? Part(body) : [], .. EndOfBody()];
}

internal sealed class FastCgiCaller(FrontEnd front) : Caller(front)
{
    public FrontEnd Front => front;

    public override IReadOnlyList<Answer> Answers => [.. front.Ended.Select(Of)];

    public override Answer? Begun => front.Open.Values.Where(static response => response.HasHead).Select(Of).FirstOrDefault();

    private static Answer Of(ReceivedResponse response) => response.HasHead ? new(response.Status, response.Head, response.Body.ToArray()) : new(0, "", []);

    public override byte[] Head(string target, string method, long? length, bool keep, params (string Name, string Value)[] fields)
    {
        (string, string)[] announced = length >= 0 ? [("CONTENT_LENGTH", length.Value.ToString(CultureInfo.InvariantCulture))] : [];
        return [.. Wire.BeginRequest(keep: keep), .. Wire.Stream(Wire.Params, 1, Wire.Pairs(Wire.Get(target, method, [.. announced, .. fields.Select(Parameter)])))];
    }

    // RFC 3875 §4.1.18
    private static (string, string) Parameter((string Name, string Value) field) => field.Name == "Content-Type"
        ? ("CONTENT_TYPE", field.Value)
        : ("HTTP_" + field.Name.Replace('-', '_').ToUpperInvariant(), field.Value);

    public override byte[] Part(byte[] bytes) => Wire.Stream(Wire.Stdin, 1, bytes, ends: false);

    public override byte[] EndOfBody() => Wire.Record(Wire.Stdin, 1, []);
}

internal sealed class HttpCaller(HttpPeer peer) : Caller(peer)
{
    private bool _chunked;

    public override IReadOnlyList<Answer> Answers => [.. peer.Answers.Select(Of)];

    public override Answer? Begun => peer.Begun is { } begun ? Of(begun) : null;

    private static Answer Of(HttpAnswer answer) => new(answer.Status, answer.Head, answer.Body);

    public override byte[] Head(string target, string method, long? length, bool keep, params (string Name, string Value)[] fields)
    {
        _chunked = length is null;
        var text = new StringBuilder($"{method} {target} HTTP/1.1\r\nHost: example.org\r\n");
        text.Append(keep ? "" : "Connection: close\r\n");
        text.Append(_chunked ? "Transfer-Encoding: chunked\r\n" : length >= 0 ? string.Create(CultureInfo.InvariantCulture, $"Content-Length: {length}\r\n") : "");
        foreach ((string name, string value) in fields)
        {
            text.Append(CultureInfo.InvariantCulture, $"{name}: {value}\r\n");
        }

        peer.Expect(method);
        return Encoding.Latin1.GetBytes(text.Append("\r\n").ToString());
    }

    public override byte[] Part(byte[] bytes) => _chunked ? [.. Encoding.ASCII.GetBytes($"{bytes.Length:x}\r\n"), .. bytes, 13, 10] : bytes;

    public override byte[] EndOfBody() => _chunked ? [.. "0\r\n\r\n"u8] : [];
}
