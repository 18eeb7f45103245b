// The body of a request on its way to a program.

using System.Buffers;
using System.IO.Pipelines;
using System.Net.Sockets;
using System.Runtime.ExceptionServices;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.WebUtilities;
using Millrace.Protocols.FastCgi;

namespace Millrace.Connector;

internal sealed partial class ProgramRequest
{
    private const int TakenInMemoryMax = 64 * 1024;

    // Not that of the process, which the application has in common with it.
    private static readonly ArrayPool<byte> s_takenPool = ArrayPool<byte>.Create(TakenInMemoryMax, 64);

    // A program reads as many bytes as CONTENT_LENGTH says: a body is taken in first where the visitor has not said its length, or it is another one by now.
    private async ValueTask<long?> ReadLengthAsync(bool takesBodyFirst)
    {
        HttpRequest request = _context.Request;
        bool isKnown = request.ContentLength is not null && request.HasServersBody();
        if (isKnown && request.BodyReader.TryRead(out ReadResult read))
        {
            request.BodyReader.AdvanceTo(read.Buffer.Start);
            if (read.IsCompleted)
            {
                return read.Buffer.Length;      // it is all there, or what somebody has left of it
            }
        }
        if (isKnown && !takesBodyFirst)
        {
            return request.ContentLength;
        }
        long length = await TakeBodyAsync().ConfigureAwait(false);
        return length == 0 && request.ContentLength is null ? null : length;
    }

    private async ValueTask<long> TakeBodyAsync()
    {
        HttpRequest request = _context.Request;
        if (request.Body.CanSeek)
        {
            request.Body.Position = 0;      // somebody may have read of it
        }
        else
        {
            var taken = new FileBufferingReadStream(request.Body, TakenInMemoryMax, bufferLimit: null, TemporaryFile.Folder, s_takenPool);      // what is too long is noticed below
            request.Body = taken;
            _context.Response.RegisterForDispose(taken);
        }
        long lengthMax = Math.Max(request.ContentLength ?? 0, _options.UnknownLengthMax);       // the server has judged as much as has been announced
        byte[] buffer = new byte[PieceMax];
        long length = 0;
        for (int count; (count = await request.Body.ReadAsync(buffer, _context.RequestAborted).ConfigureAwait(false)) > 0;)
        {
            length += count;
            if (length > lengthMax)
            {
                throw new TooLargeException();
            }
        }
        request.Body.Position = 0;
        _taken = PipeReader.Create(request.Body, new StreamPipeReaderOptions(new FreshMemory(), PieceMax, leaveOpen: true));
        return length;
    }

    // A body that is there already goes with the head. Null: there is nothing left to send.
    private PipeReader? TakeSmallBody()
    {
        if (!_context.MayHaveBody())
        {
            _writer.EndEmptyStream(RecordType.Stdin);
            return null;
        }
        PipeReader body = _taken ?? _context.Request.BodyReader;
        if (body.TryRead(out ReadResult read))
        {
            if (read.IsCompleted && read.Buffer.Length <= PieceMax)
            {
                _writer.WriteBody(read.Buffer);
                long length = read.Buffer.Length;
                body.AdvanceTo(read.Buffer.End);
                ThrowIfShort(length);
                _writer.EndEmptyStream(RecordType.Stdin);
                return null;
            }
            body.AdvanceTo(read.Buffer.Start);
        }
        return body;
    }

    // The program waits for as much as it has been told, whatever the end of STDIN says (PHP does), and nothing else ends it.
    private void ThrowIfShort(long sent)
    {
        if (_announced is { } announced && sent < announced)
        {
            throw new InvalidOperationException($"Of the {announced} bytes of the request's body {sent} are left: something before MapFastCgi has read of it. Have the request buffered there, and set Request.Body.Position back to 0.");
        }
    }

    // The visitor's pace is the server's to judge.
    private async ValueTask<ReadResult> AwaitBodyAsync(PipeReader body)
    {
        BeginVisitorWait();
        try
        {
            return await body.ReadAsync(CancellationToken.None).ConfigureAwait(false);
        }
        finally
        {
            EndVisitorWait();
        }
    }

    private async Task UploadAsync(PooledConnection connection, PipeReader body)
    {
        using var writer = new RecordWriter(connection.RequestId);
        CancellationToken stop = StopToken;
        long sent = 0;
        try
        {
            while (true)
            {
                if (!body.TryRead(out ReadResult read))
                {
                    read = await AwaitBodyAsync(body).ConfigureAwait(false);
                }
                if (read.IsCanceled)
                {
                    body.AdvanceTo(read.Buffer.Start);
                    return;
                }
                ReadOnlySequence<byte> piece = read.Buffer.Length > PieceMax ? read.Buffer.Slice(0, PieceMax) : read.Buffer;
                writer.WriteBody(piece);
                sent += piece.Length;
                bool isLast = read.IsCompleted && piece.Length == read.Buffer.Length;
                body.AdvanceTo(piece.End);
                if (isLast)
                {
                    ThrowIfShort(sent);
                    writer.EndEmptyStream(RecordType.Stdin);
                }
                NoteLife();
                await connection.SendAsync(writer.Written, stop).ConfigureAwait(false);
                NoteLife();
                writer.Clear();
                if (isLast)
                {
                    _uploadIsOver = true;
                    return;
                }
            }
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException || stop.IsCancellationRequested)
        {
            // The program takes no more: it may have answered all the same. Or the request has been given up.
        }
        catch (Exception error)
        {
            _uploadFailure = ExceptionDispatchInfo.Capture(error);
            Stop(connection);       // what has come of the body must not pass for all of it
            throw;
        }
    }

    private async ValueTask EndUploadAsync()
    {
        if (_upload is { } upload)
        {
            StopReading(upload);
            await upload.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    // Where the upload is over the body may be another request's by now.
    private void StopReading(Task upload)
    {
        try
        {
            if (!upload.IsCompleted)
            {
                _body!.CancelPendingRead();
            }
        }
        catch (ObjectDisposedException)
        {
            // The request is over, and whoever reads of its body has been told.
        }
    }

    /// <summary>A body of unknown length is longer than <see cref="FastCgiProgramOptions.UnknownLengthMax"/>.</summary>
    internal sealed class TooLargeException : IOException;
}
