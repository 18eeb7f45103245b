// A request as a plain handler sees it: a handle with the ticket of its request (Exchanges/Uses.cs).

using System.Net;
using Microsoft.Extensions.Primitives;
using Millrace.Exchanges;

namespace Millrace;

/// <summary>A request given to a plain handler. It ends with the handler's response: whatever is asked of it afterwards, on any thread, answers
/// <see cref="ObjectDisposedException"/>. Strings and dictionaries it has given stay as they are.</summary>
public readonly struct Request
{
    private readonly Exchange? _exchange;
    private readonly long _ticket;

    internal Request(Exchange exchange, long ticket)
    {
        _exchange = exchange;
        _ticket = ticket;
    }

    /// <summary>Request method, case-sensitive (RFC 9110 §9.1).</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public string Method
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return exchange.Head.MethodText;
        }
    }

    /// <summary>Request target as the client sent it, not decoded (RFC 9112 §3.2; FastCGI: REQUEST_URI).</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public string Target
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return exchange.Head.TargetText;
        }
    }

    /// <summary>Path of the target, percent-decoded as ASP.NET Core does it: <c>%2F</c> stays. A request whose path has dot segments is refused;
    /// with <see cref="MillraceOptions.DotSegments"/> set to <see cref="DotSegments.Remove"/> they are removed.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public string Path
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return exchange.Head.PathText;
        }
    }

    /// <summary>Query with its question mark, not decoded; empty when there is none.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public string QueryString
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return exchange.Head.QueryText;
        }
    }

    /// <summary><c>http</c> or <c>https</c>, as the client's connection to the front server was.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public string Scheme
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return exchange.Head.IsHttps ? "https" : "http";
        }
    }

    /// <summary>Host and port the client asked for (RFC 9110 §7.2); empty when it did not say.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public string Host
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return HostName.Of(exchange.Head);
        }
    }

    /// <summary>Protocol of the client, such as <c>HTTP/1.1</c>.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public string Protocol
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return exchange.Head.ProtocolText;
        }
    }

    /// <summary>Length of the body in bytes; null when it was not announced.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public long? ContentLength
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return exchange.Head.ContentLength >= 0 ? exchange.Head.ContentLength : null;
        }
    }

    /// <summary>Address of the client; null when the front server did not say.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public IPAddress? RemoteAddress
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return exchange.Head.IsFastCgi ? exchange.Head.RemoteIPAddress : OwnAddress.Of(exchange.Connection.RemoteEndPoint?.Address);
        }
    }

    /// <summary>Port of the client; 0 when unknown.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public int RemotePort
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return exchange.Head.IsFastCgi ? exchange.Head.RemotePortNumber : exchange.Connection.RemoteEndPoint?.Port ?? 0;
        }
    }

    /// <summary>Fires when the client has gone, aborted the request, or a time limit has passed. The token stays as it is when the request ends.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public CancellationToken Aborted
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return exchange.Life.Token;
        }
    }

    /// <summary>Header fields; names compare without case.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended, or ends while the fields are enumerated.</exception>
    public IEnumerable<KeyValuePair<string, StringValues>> Headers
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return new HeaderView(exchange, _ticket, exchange.RequestHeaders);
        }
    }

    /// <summary>Value of a header field (several are joined by a comma); null when there is none.</summary>
    /// <param name="name">Name of the field, in any case.</param>
    /// <returns>The value or null.</returns>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public string? Header(string name)
    {
        using ExchangeUse use = Use(out Exchange exchange);
        StringValues values = exchange.RequestHeaders[name];
        return values.Count == 0 ? null : values.ToString();
    }

    /// <summary>All FastCGI parameters, the last of each name; empty over HTTP. Made anew each time.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public IReadOnlyDictionary<string, string> Parameters
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return ParameterList.Read(exchange.Head);
        }
    }

    /// <summary>The body as a stream.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public Stream Body
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return new RequestStream((BodyReader)exchange.Body.Reader, exchange, _ticket);
        }
    }

    /// <summary>The body as a pipe.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public System.IO.Pipelines.PipeReader BodyReader
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return exchange.Body.Reader;
        }
    }

    /// <summary>Reads bytes of the body.</summary>
    /// <param name="destination">Where they go.</param>
    /// <param name="cancellationToken">Ends the waiting.</param>
    /// <returns>Number of bytes, 0 at the end.</returns>
    /// <exception cref="Microsoft.AspNetCore.Http.BadHttpRequestException">The body breaks its Content-Length or a limit.</exception>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public ValueTask<int> ReadAsync(Memory<byte> destination, CancellationToken cancellationToken = default) =>
        ((BodyReader)BodyReader).ReadAsync(destination, cancellationToken);

    private ExchangeUse Use(out Exchange exchange)
    {
        if (_exchange is null)
        {
            Exchange.ThrowEnded();      // nobody's: a handle that was never given to a handler
        }

        exchange = _exchange;
        return exchange.Use(_ticket);
    }
}
