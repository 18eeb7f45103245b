// A request as a plain handler sees it.

using System.Collections.ObjectModel;
using System.Net;
using System.Text;
using Microsoft.Extensions.Primitives;
using Millrace.Exchanges;
using Millrace.Protocols;
using Millrace.Protocols.FastCgi;

namespace Millrace;

/// <summary>A request given to a plain handler. It serves one request and then the next: do not keep it beyond the handler.</summary>
public sealed class Request
{
    private Exchange _exchange;
    private string? _path;
    private IReadOnlyDictionary<string, string>? _parameters;
    private RequestStream? _body;

    internal Request(Exchange exchange) => _exchange = exchange;

    private RequestHead Head => _exchange.Head;

    /// <summary>Request method, case-sensitive (RFC 9110 §9.1).</summary>
    public string Method => Head.MethodText;

    /// <summary>Request target as the client sent it, not decoded (RFC 9112 §3.2; FastCGI: REQUEST_URI).</summary>
    public string Target => Head.TargetText;

    /// <summary>Path of the target, percent-decoded as ASP.NET Core does it: <c>%2F</c> stays, dot segments are removed.</summary>
    public string Path => _path ?? "";

    /// <summary>Query with its question mark, not decoded; empty when there is none.</summary>
    public string QueryString => Head.QueryText;

    /// <summary><c>http</c> or <c>https</c>, as the client's connection to the front server was.</summary>
    public string Scheme => Head.IsHttps ? "https" : "http";

    /// <summary>Host and port the client asked for (RFC 9110 §7.2); empty when it did not say.</summary>
    public string Host => HostName.Of(Head);

    /// <summary>Protocol of the client, such as <c>HTTP/1.1</c>.</summary>
    public string Protocol => Head.ProtocolText;

    /// <summary>Length of the body in bytes; null when it was not announced.</summary>
    public long? ContentLength => Head.ContentLength >= 0 ? Head.ContentLength : null;

    /// <summary>Address of the client; null when the front server did not say.</summary>
    public IPAddress? RemoteAddress => Head.IsFastCgi ? Head.RemoteIPAddress : _exchange.Connection.RemoteEndPoint?.Address;

    /// <summary>Port of the client; 0 when unknown.</summary>
    public int RemotePort => Head.IsFastCgi ? Head.RemotePortNumber : _exchange.Connection.RemoteEndPoint?.Port ?? 0;

    /// <summary>Fires when the client has gone, aborted the request, or a time limit has passed.</summary>
    public CancellationToken Aborted => _exchange.RequestAborted;

    /// <summary>Header fields; names compare without case.</summary>
    public IEnumerable<KeyValuePair<string, StringValues>> Headers => _exchange.RequestHeaders;

    /// <summary>Value of a header field (several are joined by a comma); null when there is none.</summary>
    /// <param name="name">Name of the field, in any case.</param>
    /// <returns>The value or null.</returns>
    public string? Header(string name)
    {
        StringValues values = _exchange.RequestHeaders[name];
        return values.Count == 0 ? null : values.ToString();
    }

    /// <summary>All FastCGI parameters, the last of each name; empty over HTTP.</summary>
    public IReadOnlyDictionary<string, string> Parameters => _parameters ??= ParameterList.Read(Head);

    /// <summary>The body as a stream.</summary>
    public Stream Body => _body ??= new RequestStream((BodyReader)_exchange.Body.Reader, _exchange);

    /// <summary>The body as a pipe.</summary>
    public System.IO.Pipelines.PipeReader BodyReader => _exchange.Body.Reader;

    /// <summary>Reads bytes of the body.</summary>
    /// <param name="destination">Where they go.</param>
    /// <param name="cancellationToken">Ends the waiting.</param>
    /// <returns>Number of bytes, 0 at the end.</returns>
    /// <exception cref="Microsoft.AspNetCore.Http.BadHttpRequestException">The body breaks its Content-Length or a limit.</exception>
    public ValueTask<int> ReadAsync(Memory<byte> destination, CancellationToken cancellationToken = default) =>
        ((BodyReader)_exchange.Body.Reader).ReadAsync(destination, cancellationToken);

    internal bool Begin() => Head.TryGetPath(out _path);

    internal void End(bool reusable)
    {
        _path = null;
        _parameters = null;
        _body = null;
        if (!reusable)
        {
            _exchange = _exchange.Services.DeadExchange;    // the living one serves others
        }
    }
}
