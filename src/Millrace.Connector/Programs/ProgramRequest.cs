// One request on its way through a program: head and small body in one send, a larger body beside the answer, as it comes and no faster than the program reads it; the answer as it comes and no
// faster than the visitor reads that. Who leaves takes the other side with it: the program is told (ABORT_REQUEST), and the connection is closed.

using System.Buffers;
using System.IO.Pipelines;
using System.Net.Sockets;
using System.Runtime.ExceptionServices;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connector;

internal sealed class ProgramRequest : IDisposable
{
    private const int PieceMax = 32 * 1024;

    private readonly HttpContext _context;
    private readonly FastCgiProgramOptions _options;
    private readonly ConnectionPool _pool;
    private readonly RecordWriter _writer = new();
    private readonly ProgramHead _head;
    private readonly byte[] _endRequest = new byte[EndRequest.Size];
    private readonly CancellationTokenSource _silence = new();
    private int _endLength;
    private EndRequest? _ended;
    private Task? _upload;
    private long _written;
    private bool _dropsBody;
    private volatile bool _uploadIsOver;
    private volatile ExceptionDispatchInfo? _uploadFailure;     // the visitor's doing, as the body's reader says

    public ProgramRequest(HttpContext context, FastCgiProgramOptions options, ConnectionPool pool)
    {
        _context = context;
        _options = options;
        _pool = pool;
        _head = new ProgramHead(options.HeadBytesMax, options.HeadFieldsMax);
        Errors = new ProgramErrors(options.ErrorBytesMax);
    }

    /// <summary>What the program has printed.</summary>
    public ProgramErrors Errors { get; }

    /// <summary>What a script has asked to be sent instead of its own body; null: nothing.</summary>
    public (string? Path, string? File)? HandedOver => _head.Redirect is null && _head.SendFile is null ? null : (_head.Redirect, _head.SendFile);

    /// <summary>Has the program answer. Where it hands over to a file nothing of a body has been written.</summary>
    /// <param name="prefix">See <see cref="ProgramVariables.Write"/>.</param>
    /// <param name="target">The script.</param>
    /// <exception cref="ConnectorException">There is no whole answer. The response may have started.</exception>
    /// <exception cref="TimeoutException">The program has said nothing for too long. The response may have started.</exception>
    /// <exception cref="OperationCanceledException">The visitor has left.</exception>
    public async Task RunAsync(string prefix, ScriptTarget target)
    {
        _dropsBody = HttpMethods.IsHead(_context.Request.Method);
        _writer.WriteBegin(_options.KeepConnections);
        ProgramVariables.Write(_writer, _context, _options, prefix, target, await LengthAsync().ConfigureAwait(false));
        PipeReader? body = TakeSmallBody();
        for (bool fresh = !_options.KeepConnections; ; fresh = true)
        {
            PooledConnection connection = await _pool.RentAsync(fresh, _context.RequestAborted).ConfigureAwait(false);
            bool isDone = false;
            try
            {
                if (await TryAnswerAsync(connection, body).ConfigureAwait(false))
                {
                    isDone = _uploadIsOver && _ended is not null && !connection.HasRest && _options.KeepConnections;
                    return;
                }
            }
            finally
            {
                await EndAsync(connection, isDone).ConfigureAwait(false);
            }
        }
    }

    public void Dispose()
    {
        _writer.Dispose();
        _silence.Dispose();
    }

    // False: the connection was one that the program had just ended, and nothing of the request can have been acted upon, or may be twice.
    private async Task<bool> TryAnswerAsync(PooledConnection connection, PipeReader? body)
    {
        connection.BeginRequest();
        using CancellationTokenRegistration leaving = _context.RequestAborted.UnsafeRegister(static state => _ = AbortAsync((PooledConnection)state!), connection);
        using CancellationTokenRegistration silence = _silence.Token.UnsafeRegister(static state => ((PooledConnection)state!).Dispose(), connection);
        try
        {
            NoteLife();
            bool isSent = await TrySendAsync(connection).ConfigureAwait(false);
            if (!isSent && connection.IsUsed)
            {
                return false;
            }
            if (body is not null)
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
            throw new OperationCanceledException("The visitor has left.", error, _context.RequestAborted);
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException && _silence.IsCancellationRequested)
        {
            throw new TimeoutException(FormattableString.Invariant($"It has said nothing for {_options.ReadTimeout.TotalSeconds:0.###} s (ReadTimeout)."), error);
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException or EndOfAnswerException)
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

    // Sending that may have been broken off leaves no place for a record: only one that is not busy sending is told.
    private static async Task AbortAsync(PooledConnection connection)
    {
        byte[] record = new byte[RecordHeader.Size];
        RecordHeader.Write(record, RecordType.AbortRequest, RecordWriter.RequestId, 0, 0);
        try
        {
            await connection.SendAsync(record).AsTask().WaitAsync(TimeSpan.FromMilliseconds(100)).ConfigureAwait(false);
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException or TimeoutException)
        {
            // It has gone itself, or takes nothing.
        }
        connection.Dispose();
    }

    private void NoteLife() => _silence.CancelAfter(_options.ReadTimeout);

    // A program that takes no more may have answered all the same.
    private async ValueTask<bool> TrySendAsync(PooledConnection connection)
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
        _pool.Drop(connection);     // ends an upload that the program does not take
        if (_upload is { } upload)
        {
            _context.Request.BodyReader.CancelPendingRead();
            await upload.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    // ---- the body ----

    private bool HasBody => _context.Features.Get<IHttpRequestBodyDetectionFeature>() is not { CanHaveBody: false } && _context.Request.ContentLength != 0;

    // A program reads as many bytes as CONTENT_LENGTH says: a body of unknown length is taken in first.
    private async ValueTask<long?> LengthAsync()
    {
        HttpRequest request = _context.Request;
        if (!HasBody)
        {
            return request.ContentLength;
        }
        if (request.ContentLength is { } known)
        {
            return known;
        }
        request.EnableBuffering(64 * 1024, long.MaxValue);        // what is too long is noticed below
        byte[] buffer = ArrayPool<byte>.Shared.Rent(PieceMax);
        long length = 0;
        try
        {
            for (int count; (count = await request.Body.ReadAsync(buffer, _context.RequestAborted).ConfigureAwait(false)) > 0;)
            {
                length += count;
                if (length > _options.UnknownLengthMax)
                {
                    throw new TooLargeException();
                }
            }
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(buffer);
        }
        request.Body.Position = 0;
        return length;
    }

    // A body that is there already goes with the head. Null: there is nothing left to send.
    private PipeReader? TakeSmallBody()
    {
        if (!HasBody)
        {
            _writer.EndEmptyStream(RecordType.Stdin);
            return null;
        }
        PipeReader body = _context.Request.BodyReader;
        if (body.TryRead(out ReadResult read))
        {
            if (read.IsCompleted && read.Buffer.Length <= PieceMax)
            {
                _writer.AppendPiece(read.Buffer);
                body.AdvanceTo(read.Buffer.End);
                _writer.EndEmptyStream(RecordType.Stdin);
                return null;
            }
            body.AdvanceTo(read.Buffer.Start);
        }
        return body;
    }

    private async Task UploadAsync(PooledConnection connection, PipeReader body)
    {
        using var writer = new RecordWriter();
        try
        {
            while (true)
            {
                ReadResult read = await body.ReadAsync(CancellationToken.None).ConfigureAwait(false);
                if (read.IsCanceled)
                {
                    body.AdvanceTo(read.Buffer.Start);
                    return;
                }
                ReadOnlySequence<byte> piece = read.Buffer.Length > PieceMax ? read.Buffer.Slice(0, PieceMax) : read.Buffer;
                writer.AppendPiece(piece);
                bool isLast = read.IsCompleted && piece.Length == read.Buffer.Length;
                body.AdvanceTo(piece.End);
                if (isLast)
                {
                    writer.EndEmptyStream(RecordType.Stdin);
                }
                NoteLife();     // the visitor's pace is the server's to judge
                await connection.SendAsync(writer.Written).ConfigureAwait(false);
                NoteLife();
                writer.Clear();
                if (isLast)
                {
                    _uploadIsOver = true;
                    return;
                }
            }
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException)
        {
            // The program takes no more: it may have answered all the same.
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
        while (true)
        {
            while (_ended is null && connection.TryRead(out RecordPart part, out ReadOnlyMemory<byte> content))
            {
                if (part.RequestId == RecordWriter.RequestId)
                {
                    Take(part, content.Span);
                }
                if (HandedOver is not null)
                {
                    return;     // its body is nobody's
                }
            }
            if (_ended is { } end)
            {
                Conclude(end);
                return;
            }
            if (_head.IsRead)
            {
                _silence.CancelAfter(Timeout.InfiniteTimeSpan);       // it is the visitor who is waited for
                await _context.Response.BodyWriter.FlushAsync(_context.RequestAborted).ConfigureAwait(false);
                NoteLife();
            }
            if (!await connection.ReceiveAsync().ConfigureAwait(false))
            {
                throw new EndOfAnswerException();
            }
            NoteLife();
        }
    }

    private void Take(in RecordPart part, ReadOnlySpan<byte> content)
    {
        switch (part.Type)
        {
            case RecordType.Stdout:
                if (!_head.IsRead)
                {
                    content = content[_head.Take(content, _context.Response)..];
                    _dropsBody |= _head.IsRead && (HandedOver is not null || _context.Response.StatusCode is 204 or 205 or 304);
                }
                if (!content.IsEmpty && !_dropsBody)
                {
                    WriteBody(content);
                }
                break;
            case RecordType.Stderr:
                Errors.Take(content);
                break;
            case RecordType.EndRequest:
                TakeEnd(part, content);
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

    private void TakeEnd(in RecordPart part, ReadOnlySpan<byte> content)
    {
        if (part.ContentLength != EndRequest.Size)
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, "Its END_REQUEST has not 8 bytes.");
        }
        content.CopyTo(_endRequest.AsSpan(_endLength));
        _endLength += content.Length;
        if (part.IsLast)
        {
            _ended = EndRequest.Read(_endRequest);
        }
    }

    private void Conclude(EndRequest end)
    {
        if (end.Status != ProtocolStatus.RequestComplete)
        {
            throw new ConnectorException(end.Status == ProtocolStatus.Overloaded ? ConnectorFault.Busy : ConnectorFault.BrokenResponse, $"It has refused the request: {end.Status}.");
        }
        if (!_head.IsRead)
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, "It has ended the request without a head of a response.");
        }
        if (!_dropsBody && _context.Response.ContentLength is { } length && length != _written)
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, "Its response is broken: it has fewer bytes than its Content-Length says.");
        }
    }

    /// <summary>A body of unknown length is longer than <see cref="FastCgiProgramOptions.UnknownLengthMax"/>.</summary>
    internal sealed class TooLargeException : IOException;

    private sealed class EndOfAnswerException : IOException;
}
