// One request on its way through a responder: the head, and a small body with it, in one send; a larger body beside the answer, as it comes and no faster than
// the responder reads it; the answer as it comes and no faster than the client reads that. Who leaves takes the other side with it.

using System.Buffers;
using System.IO.Pipelines;
using System.Net.Sockets;
using System.Runtime.ExceptionServices;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Exchanges;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connector;

internal sealed class ForwardedRequest : IDisposable
{
    private const int InlineMax = 32 * 1024;
    private const int StdinMax = 32 * 1024;

    private readonly HttpContext _context;
    private readonly ConnectionPool _pool;
    private readonly Action<string> _said;
    private readonly RecordWriter _writer = new();
    private readonly ResponseHead _head = new();
    private ResponseEnd _end;
    private Task? _upload;
    private ReadResult? _ahead;     // of the body, before there was a connection for it
    private SemaphoreSlim? _bodyPlaces;     // where it has one as long as its body is coming
    private long _written;
    private volatile bool _uploadIsOver;
    private volatile ExceptionDispatchInfo? _uploadFailure;     // the client's doing, as its body's reader says

    private ForwardedRequest(HttpContext context, ConnectionPool pool, Action<string> said)
    {
        _context = context;
        _pool = pool;
        _said = said;
    }

    /// <summary>Has a responder answer a request.</summary>
    /// <param name="context">The request, of a Millrace server's. Its response has not started.</param>
    /// <param name="pool">Connections to the responder.</param>
    /// <param name="route">What leads to it.</param>
    /// <param name="said">Takes what the responder prints.</param>
    /// <exception cref="ConnectorException">There is no whole answer. The response may have started.</exception>
    /// <exception cref="OperationCanceledException">The client has left.</exception>
    public static async Task SendAsync(HttpContext context, ConnectionPool pool, RelayRoute route, Action<string> said)
    {
        using var request = new ForwardedRequest(context, pool, said);
        request._writer.WriteBegin(keepConnection: true);
        request.WriteParameters(route);
        try
        {
            await request.RunAsync().ConfigureAwait(false);
        }
        catch (ConnectorException error)
        {
            error.IsMidway = request._written > 0;
            throw;
        }
    }

    public void Dispose()
    {
        _writer.Dispose();
        if (_ahead is { } ahead)
        {
            _context.Request.BodyReader.AdvanceTo(ahead.Buffer.Start, ahead.Buffer.End);      // nobody was there to take it
        }
    }

    private void WriteParameters(RelayRoute route)
    {
        var its = (RequestBound)_context.Features.GetRequiredFeature<IHttpRequestFeature>();
        using ExchangeUse use = its.Exchange.Use(its.Ticket);
        HeadParameters.Write(_writer, its.Exchange, _context.Request.Headers.Host.ToString(), route);
    }

    private async Task RunAsync()
    {
        PipeReader? body = TakeSmallBody();
        _bodyPlaces = body is null ? null : await TakeBodyPlaceAsync(body).ConfigureAwait(false);
        try
        {
            await RunAsync(_bodyPlaces is null ? null : body).ConfigureAwait(false);
        }
        finally
        {
            LeaveBodyPlace();
        }
    }

    // Null: the body needs none. It was small, has come meanwhile, and goes with the head.
    private async ValueTask<SemaphoreSlim?> TakeBodyPlaceAsync(PipeReader body)
    {
        if (_pool.EarlyBodies.Wait(0, CancellationToken.None))
        {
            return _pool.EarlyBodies;
        }
        if (await AwaitBodyAsync(body).ConfigureAwait(false))
        {
            return null;
        }
        await _pool.WaitForPartialBodyAsync(_context.RequestAborted).ConfigureAwait(false);
        return _pool.PartialBodies;
    }

    // The body is there, or nobody waits for it any more.
    private void LeaveBodyPlace() => Interlocked.Exchange(ref _bodyPlaces, null)?.Release();

    private async Task RunAsync(PipeReader? body)
    {
        for (bool fresh = false; ; fresh = true)
        {
            PooledConnection connection = await _pool.RentAsync(fresh, _context.RequestAborted).ConfigureAwait(false);
            bool isDone = false;
            try
            {
                if (await TryAnswerAsync(connection, body).ConfigureAwait(false))
                {
                    isDone = _uploadIsOver && !connection.HasRest;
                    return;
                }
            }
            finally
            {
                await EndAsync(connection, isDone).ConfigureAwait(false);
            }
        }
    }

    // False: the connection was one that its responder had just ended, and nothing of the request can have been acted upon, or may be twice.
    private async Task<bool> TryAnswerAsync(PooledConnection connection, PipeReader? body)
    {
        connection.BeginRequest();
        using CancellationTokenRegistration leaving = _context.RequestAborted.UnsafeRegister(static state => ((PooledConnection)state!).Dispose(), connection);
        try
        {
            bool isSent = await TrySendHeadAsync(connection).ConfigureAwait(false);
            if (!isSent && connection is { IsUsed: true, HasSent: false })
            {
                return false;
            }
            if (body is not null && isSent)
            {
                _upload = UploadAsync(connection, body);
            }
            else
            {
                _uploadIsOver = isSent;
            }
            await AnswerAsync(connection).ConfigureAwait(false);
            return true;
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException or ConnectorException or OperationCanceledException && _context.RequestAborted.IsCancellationRequested)
        {
            throw new OperationCanceledException("The client has left.", error, _context.RequestAborted);
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException or EndOfResponseException)
        {
            _uploadFailure?.Throw();
            if (connection.IsUsed && !connection.HasAnswered && _upload is null && IsRepeatable)
            {
                return false;
            }
            throw new ConnectorException(ConnectorFault.BrokenResponse, connection.HasAnswered
                ? "It has ended the connection in the middle of its response."
                : "It has ended the connection without an answer.", error);
        }
    }

    // A responder that takes no more may have answered all the same. Over a kept connection it has ended that before it had all of the head.
    private async ValueTask<bool> TrySendHeadAsync(PooledConnection connection)
    {
        try
        {
            await connection.SendAsync(_writer.Written).ConfigureAwait(false);
            return true;
        }
        catch (SocketException)
        {
            return false;
        }
    }

    // RFC 9110 §9.2.2: what may be sent twice.
    private bool IsRepeatable => _context.Request.Method is "GET" or "HEAD" or "OPTIONS";

    private async ValueTask EndAsync(PooledConnection connection, bool isDone)
    {
        if (isDone)
        {
            _pool.Return(connection);
            return;
        }
        _pool.Drop(connection);     // ends an upload that the responder does not take
        if (_upload is { } upload)
        {
            _context.Request.BodyReader.CancelPendingRead();
            await upload.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    // ---- the body ----

    // A body that is there already goes with the head. Null: there is nothing left to send.
    private PipeReader? TakeSmallBody()
    {
        if (!_context.MayHaveBody())
        {
            _writer.EndEmptyStream(RecordType.Stdin);
            return null;
        }
        PipeReader body = _context.Request.BodyReader;
        if (body.TryRead(out ReadResult read))
        {
            if (TryWriteWhole(body, read))
            {
                return null;
            }
            body.AdvanceTo(read.Buffer.Start);
        }
        return body;
    }

    private bool TryWriteWhole(PipeReader body, in ReadResult read)
    {
        if (!read.IsCompleted || read.Buffer.Length > InlineMax)
        {
            return false;
        }
        _writer.WriteBody(read.Buffer);
        _writer.EndEmptyStream(RecordType.Stdin);
        body.AdvanceTo(read.Buffer.End);
        return true;
    }

    // True: it is small, is there, and goes with the head.
    private async ValueTask<bool> AwaitBodyAsync(PipeReader body)
    {
        ReadResult read = await body.ReadAtLeastAsync(InlineMax, _context.RequestAborted).ConfigureAwait(false);
        if (TryWriteWhole(body, read))
        {
            return true;
        }
        _ahead = read;      // it has been looked at, and cannot be given back to be read once more
        return false;
    }

    private async Task UploadAsync(PooledConnection connection, PipeReader body)
    {
        using var writer = new RecordWriter();
        var turns = default(Turns);
        try
        {
            while (true)
            {
                if (turns.IsOver)
                {
                    await Turns.LetOthers();
                }
                ReadResult read = _ahead ?? await body.ReadAsync(CancellationToken.None).ConfigureAwait(false);
                _ahead = null;
                if (read.IsCanceled)
                {
                    body.AdvanceTo(read.Buffer.Start);
                    return;
                }
                ReadOnlySequence<byte> piece = read.Buffer.Length > StdinMax ? read.Buffer.Slice(0, StdinMax) : read.Buffer;
                writer.WriteBody(piece);
                bool isLast = read.IsCompleted && piece.Length == read.Buffer.Length;
                body.AdvanceTo(piece.End);
                if (isLast)
                {
                    writer.EndEmptyStream(RecordType.Stdin);
                }
                await connection.SendAsync(writer.Written).ConfigureAwait(false);
                writer.Clear();
                if (isLast)
                {
                    _uploadIsOver = true;
                    LeaveBodyPlace();
                    return;
                }
            }
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException)
        {
            // The responder takes no more: it may have answered all the same.
        }
        catch (Exception error)
        {
            _uploadFailure = ExceptionDispatchInfo.Capture(error);
            connection.Dispose();       // what has come of the body must not pass for all of it
            throw;
        }
    }

    // ---- the answer ----

    private async Task AnswerAsync(PooledConnection connection)
    {
        bool dropsBody = _context.Request.Method == HttpMethods.Head;
        var turns = default(Turns);
        while (true)
        {
            if (turns.IsOver)
            {
                await Turns.LetOthers();
            }
            while (!_end.HasCome && connection.TryRead(out RecordPart part, out ReadOnlyMemory<byte> content))
            {
                if (part.RequestId == RecordWriter.RequestId)
                {
                    Take(part, content.Span, ref dropsBody);
                }
            }
            if (_end.HasCome)
            {
                _end.Check(_head.IsRead, missing: !dropsBody && _context.Response.ContentLength is { } length && length != _written);
                return;
            }
            if (_head.IsRead)
            {
                await _context.Response.BodyWriter.FlushAsync(_context.RequestAborted).ConfigureAwait(false);
            }
            if (!await connection.ReceiveAsync().ConfigureAwait(false))
            {
                throw new EndOfResponseException();
            }
        }
    }

    private void Take(in RecordPart part, ReadOnlySpan<byte> content, ref bool dropsBody)
    {
        switch (part.Type)
        {
            case RecordType.Stdout:
                if (!_head.IsRead)
                {
                    content = content[_head.Take(content, new HttpResponseFields(_context.Response))..];
                    dropsBody |= _head.IsRead && _context.Response.StatusCode is 204 or 205 or 304;
                    ConnectorException.ThrowIfBodyless(_head.IsRead, _context.Response.StatusCode, _context.Response.ContentLength ?? 0);
                }
                if (!content.IsEmpty && !dropsBody)
                {
                    WriteBody(content);
                }
                break;
            case RecordType.Stderr when !content.IsEmpty:
                _said(System.Text.Encoding.UTF8.GetString(content));
                break;
            case RecordType.EndRequest:
                _end.Take(part, content);
                break;
        }
    }

    private void WriteBody(ReadOnlySpan<byte> content)
    {
        if (_written + content.Length > (_context.Response.ContentLength ?? long.MaxValue))
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, "Its response is broken: it has more bytes than its Content-Length says.");
        }
        _context.Response.BodyWriter.Write(content);
        _written += content.Length;
    }

    private sealed class EndOfResponseException : IOException;
}
