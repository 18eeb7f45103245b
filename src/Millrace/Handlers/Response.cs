// A response as a plain handler makes it.

using System.Text;
using Microsoft.Net.Http.Headers;
using Millrace.Exchanges;

namespace Millrace;

/// <summary>
/// The response of a plain handler. Small bodies are sent when the handler ends, with their length; larger ones are streamed.
/// It serves one request and then the next: do not keep it beyond the handler.
/// </summary>
public sealed class Response
{
    private Exchange _exchange;
    private ReusedTicket _ticket;
    private ResponseStream? _body;

    internal Response(Exchange exchange) => _exchange = exchange;

    /// <summary>Status code, 200 to 999 (RFC 9110 §15). Default 200.</summary>
    /// <exception cref="InvalidOperationException">The response has started.</exception>
    public int StatusCode
    {
        get => _exchange.StatusCode;
        set
        {
            ArgumentOutOfRangeException.ThrowIfLessThan(value, 200);
            ArgumentOutOfRangeException.ThrowIfGreaterThan(value, 999);
            CheckNotStarted();
            _exchange.StatusCode = value;
        }
    }

    /// <summary>Media type of the body.</summary>
    public string? ContentType
    {
        get => _exchange.ResponseHeaders[HeaderNames.ContentType];
        set => _exchange.ResponseHeaders[HeaderNames.ContentType] = value;
    }

    /// <summary>Length of the body in bytes, when it is known before the body is written.</summary>
    public long? ContentLength
    {
        get => _exchange.ResponseHeaders.ContentLength;
        set => _exchange.ResponseHeaders.ContentLength = value;
    }

    /// <summary>Whether the head has been sent or fixed.</summary>
    public bool HasStarted => _exchange.HasStarted;

    /// <summary>Adds a header field.</summary>
    /// <param name="name">A token (RFC 9110 §5.1).</param>
    /// <param name="value">Printable ASCII, spaces and tabs (RFC 9110 §5.5).</param>
    /// <exception cref="InvalidOperationException">Name or value are not allowed, or the response has started.</exception>
    public void AddHeader(string name, string value)
    {
        ArgumentNullException.ThrowIfNull(value);
        _exchange.ResponseHeaders[name] = Microsoft.Extensions.Primitives.StringValues.Concat(_exchange.ResponseHeaders[name], value);
    }

    /// <summary>Appends bytes to the body. They are kept until the handler ends or flushes; write large bodies with <see cref="WriteAsync"/>.</summary>
    /// <param name="bytes">The bytes, copied.</param>
    public void Write(ReadOnlySpan<byte> bytes)
    {
        long ticket = Enter();
        try
        {
            _exchange.Append(bytes);
        }
        finally
        {
            _exchange.Exit(ticket);
        }
    }

    /// <summary>Appends text as UTF-8. Without a content type, <c>text/plain; charset=utf-8</c> is set.</summary>
    /// <param name="text">The text.</param>
    public void WriteText(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        if (!_exchange.HasStarted && !_exchange.ResponseHeaders.ContainsKey(HeaderNames.ContentType))
        {
            ContentType = "text/plain; charset=utf-8";
        }

        long ticket = Enter();
        try
        {
            Memory<byte> room = _exchange.ReserveBody(Encoding.UTF8.GetMaxByteCount(text.Length));
            _exchange.AdvanceBody(Encoding.UTF8.GetBytes(text, room.Span));
        }
        finally
        {
            _exchange.Exit(ticket);
        }
    }

    /// <summary>Appends bytes to the body and waits while the client does not keep up.</summary>
    /// <param name="bytes">The bytes; they may be used again when the task has ended.</param>
    /// <param name="cancellationToken">Checked before writing.</param>
    /// <returns>Ends when the bytes have been taken.</returns>
    public ValueTask WriteAsync(ReadOnlyMemory<byte> bytes, CancellationToken cancellationToken = default)
    {
        cancellationToken.ThrowIfCancellationRequested();
        long ticket = Enter();
        try
        {
            return _exchange.WriteAsync(bytes, ticket);
        }
        finally
        {
            _exchange.Exit(ticket);
        }
    }

    /// <summary>Sends what has been written so far.</summary>
    /// <param name="cancellationToken">Checked before sending.</param>
    /// <returns>Ends when the socket has taken the bytes.</returns>
    public ValueTask FlushAsync(CancellationToken cancellationToken = default)
    {
        cancellationToken.ThrowIfCancellationRequested();
        long ticket = Enter();
        try
        {
            return _exchange.FlushAsync();
        }
        finally
        {
            _exchange.Exit(ticket);
        }
    }

    /// <summary>The body as a stream.</summary>
    public Stream Body => _body ??= new ResponseStream(_exchange, start: null);

    /// <summary>Cuts the connection: the client sees that the response is not whole.</summary>
    public void Abort() => _exchange.AbortByApplication(_ticket.For(_exchange));

    internal void Begin() => _ticket.Take(_exchange);

    /// <summary>True when no other thread has used it.</summary>
    internal bool End()
    {
        _body = null;
        _ticket.GiveBack();
        return !_ticket.WasUsedElsewhere;
    }

    internal void Abandon() => _exchange = _exchange.Services.DeadExchange;    // the living one serves others

    private long Enter()
    {
        long ticket = _ticket.For(_exchange);
        _exchange.Enter(ticket);
        return ticket;
    }

    private void CheckNotStarted()
    {
        if (_exchange.HasStarted)
        {
            throw new InvalidOperationException("The response has started; its status cannot be changed any more.");
        }
    }
}
