// A response as a plain handler makes it: a handle with the ticket of its request (Exchanges/Uses.cs).

using System.Text;
using Microsoft.Extensions.Primitives;
using Microsoft.Net.Http.Headers;
using Millrace.Exchanges;

namespace Millrace;

/// <summary>
/// The response of a plain handler. Small bodies are sent when the handler ends, with their length; larger ones are streamed.
/// Whatever is asked of it once its request has ended, on any thread, answers <see cref="ObjectDisposedException"/>.
/// </summary>
public readonly struct Response
{
    private readonly Exchange? _exchange;
    private readonly long _ticket;

    internal Response(Exchange exchange, long ticket)
    {
        _exchange = exchange;
        _ticket = ticket;
    }

    /// <summary>Status code, 200 to 999 (RFC 9110 §15). Default 200.</summary>
    /// <exception cref="InvalidOperationException">The response has started.</exception>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public int StatusCode
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return exchange.Answer.StatusCode;
        }

        set
        {
            using ExchangeUse use = Use(out Exchange exchange);
            ArgumentOutOfRangeException.ThrowIfLessThan(value, 200);
            ArgumentOutOfRangeException.ThrowIfGreaterThan(value, 999);
            if (exchange.Answer.HasStarted)
            {
                throw new InvalidOperationException("The response has started; its status cannot be changed any more.");
            }

            exchange.Answer.StatusCode = value;
        }
    }

    /// <summary>Media type of the body.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public string? ContentType
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return exchange.Answer.Headers[HeaderNames.ContentType];
        }

        set
        {
            using ExchangeUse use = Use(out Exchange exchange);
            exchange.Answer.Headers[HeaderNames.ContentType] = value;
        }
    }

    /// <summary>Length of the body in bytes, when it is known before the body is written.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public long? ContentLength
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return exchange.Answer.Headers.ContentLength;
        }

        set
        {
            using ExchangeUse use = Use(out Exchange exchange);
            exchange.Answer.Headers.ContentLength = value;
        }
    }

    /// <summary>Whether the head has been sent or fixed.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public bool HasStarted
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return exchange.Answer.HasStarted;
        }
    }

    /// <summary>Adds a header field.</summary>
    /// <param name="name">A token (RFC 9110 §5.1).</param>
    /// <param name="value">Printable ASCII, spaces and tabs (RFC 9110 §5.5).</param>
    /// <exception cref="InvalidOperationException">Name or value are not allowed, or the response has started.</exception>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public void AddHeader(string name, string value)
    {
        ArgumentNullException.ThrowIfNull(value);
        using ExchangeUse use = Use(out Exchange exchange);
        exchange.Answer.Headers[name] = StringValues.Concat(exchange.Answer.Headers[name], value);
    }

    /// <summary>Appends bytes to the body. They are kept until the handler ends or flushes; write large bodies with <see cref="WriteAsync"/>.</summary>
    /// <param name="bytes">The bytes, copied.</param>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public void Write(ReadOnlySpan<byte> bytes)
    {
        Exchange exchange = Enter();
        try
        {
            exchange.Answer.Append(bytes);
        }
        finally
        {
            exchange.Gate.Exit(_ticket);
        }
    }

    /// <summary>Appends text as UTF-8. Without a content type, <c>text/plain; charset=utf-8</c> is set.</summary>
    /// <param name="text">The text.</param>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public void WriteText(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        Exchange exchange = Enter();
        try
        {
            if (!exchange.Answer.HasStarted && !exchange.Answer.Headers.ContainsKey(HeaderNames.ContentType))
            {
                exchange.Answer.Headers[HeaderNames.ContentType] = "text/plain; charset=utf-8";
            }

            Span<byte> room = exchange.Answer.ReserveBody(Encoding.UTF8.GetMaxByteCount(text.Length));
            exchange.Answer.AdvanceBody(Encoding.UTF8.GetBytes(text, room));
        }
        finally
        {
            exchange.Gate.Exit(_ticket);
        }
    }

    /// <summary>Appends bytes to the body and waits while the client does not keep up.</summary>
    /// <param name="bytes">The bytes; they may be used again when the task has ended.</param>
    /// <param name="cancellationToken">Ends the waiting. Once it waits for the client, the connection is cut with it: nobody knows what has arrived.</param>
    /// <returns>Ends when the bytes have been taken.</returns>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public ValueTask WriteAsync(ReadOnlyMemory<byte> bytes, CancellationToken cancellationToken = default)
    {
        Served.CheckWanted(_ticket, cancellationToken);
        ReadOnlySpan<byte> span = bytes.Span;
        ValueTask sent;
        int taken;
        Exchange exchange = Enter();
        try
        {
            sent = exchange.Writes.Write(span, out taken);
        }
        finally
        {
            exchange.Gate.Exit(_ticket);
        }

        ValueTask written = taken == span.Length ? sent : exchange.Writes.WriteRest(sent, bytes[taken..], _ticket);
        return exchange.Writes.While(written, _ticket, cancellationToken);
    }

    /// <summary>Sends what has been written so far.</summary>
    /// <param name="cancellationToken">The same.</param>
    /// <returns>Ends when the socket has taken the bytes.</returns>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public ValueTask FlushAsync(CancellationToken cancellationToken = default)
    {
        Served.CheckWanted(_ticket, cancellationToken);
        Exchange exchange = Enter();
        try
        {
            return exchange.Writes.While(exchange.Writes.FlushAsync(), _ticket, cancellationToken);
        }
        finally
        {
            exchange.Gate.Exit(_ticket);
        }
    }

    /// <summary>The body as a stream.</summary>
    /// <exception cref="ObjectDisposedException">The request has ended.</exception>
    public Stream Body
    {
        get
        {
            using ExchangeUse use = Use(out Exchange exchange);
            return new ResponseStream(exchange, _ticket, start: null);
        }
    }

    /// <summary>Cuts the connection: the client sees that the response is not whole. Nothing happens when the request has ended.</summary>
    public void Abort() => _exchange?.AbortByApplication(_ticket);

    private ExchangeUse Use(out Exchange exchange)
    {
        exchange = Served;
        return exchange.Use(_ticket);
    }

    private Exchange Enter()
    {
        Exchange exchange = Served;
        exchange.Gate.Enter(_ticket);
        return exchange;
    }

    private Exchange Served
    {
        get
        {
            if (_exchange is null)
            {
                Exchange.ThrowEnded();      // nobody's: a handle that was never given to a handler
            }

            return _exchange;
        }
    }
}
