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

internal sealed partial class ProgramRequest : ISilent, IDisposable
{
    private const int PieceMax = 32 * 1024;

    private static readonly TimeSpan s_abortLimit = TimeSpan.FromMilliseconds(100);

    private readonly HttpContext _context;
    private readonly FastCgiProgramOptions _options;
    private readonly RecordWriter _writer = new();
    private readonly ProgramHead _head;
    private readonly byte[] _endRequest = new byte[EndRequest.Size];
    private int _endLength;
    private EndRequest? _ended;
    private Task? _upload;
    private PipeReader? _body;
    private ArrayBufferWriter<byte>? _first;        // of the response's body, until it begins: what fails before that leaves nothing behind
    private PipeReader? _taken;     // of a body that has been taken in
    private CancellationToken _leaving;
    private CancellationTokenSource? _stopping;     // of a connection whose end is waited for; null: it is closed to stop
    private bool _hasAnswered;
    private long _written;
    private long? _announced;       // bytes of the body, to the program
    private bool _dropsBody;
    private volatile bool _uploadIsOver;
    private volatile ExceptionDispatchInfo? _uploadFailure;     // the visitor's doing, as the body's reader says

    public ProgramRequest(HttpContext context, FastCgiProgramOptions options, IReadOnlyDictionary<string, string>? given)
    {
        _context = context;
        _options = options;
        Given = given;
        _head = new ProgramHead(options.HeadBytesMax, options.HeadFieldsMax) { HasFrontServer = HeadParameters.AreOfWebServer(given) };
        Errors = new ProgramErrors(options.ErrorBytesMax);
    }

    /// <summary>See <see cref="ProgramVariables.Write"/>.</summary>
    public IReadOnlyDictionary<string, string>? Given { get; }

    /// <summary>What the program has printed.</summary>
    public ProgramErrors Errors { get; }

    /// <inheritdoc cref="ProgramHead.LeftOut"/>
    public IReadOnlyList<string> LeftOut => _head.LeftOut;

    /// <summary>What a script has asked to be sent instead of its own body; null: nothing.</summary>
    public (string? Path, string? File)? HandedOver => _head.Redirect is null && _head.SendFile is null ? null : (_head.Redirect, _head.SendFile);

    /// <summary>Whether the response has something of a body.</summary>
    public bool HasWritten => _written > 0;

    /// <summary>Whether the response has been given something of a body before it has started.</summary>
    public bool HasShown { get; private set; }

    /// <summary>Makes the request ready to be sent.</summary>
    /// <param name="prefix">See <see cref="ProgramVariables.Write"/>.</param>
    /// <param name="target">The script.</param>
    /// <param name="keepsConnection">Whether the program is to keep the connection.</param>
    /// <param name="takesBodyFirst">Whether all of the body is to be there before the program begins.</param>
    /// <exception cref="TooLargeException">The body is too long.</exception>
    public async Task PrepareAsync(string prefix, ScriptTarget target, bool keepsConnection, bool takesBodyFirst)
    {
        _dropsBody = _context.Request.Method == HttpMethods.Head;
        _writer.WriteBegin(keepsConnection);
        _announced = await ReadLengthAsync(takesBodyFirst).ConfigureAwait(false);
        ProgramVariables.Write(_writer, _context, _options, prefix, target, _announced, Given);
        _body = TakeSmallBody();
    }

    /// <summary>The same as <see cref="RunAsync"/> where there is no pool that could answer for the request meanwhile.</summary>
    public async Task AskAsync(IProgramConnections connections, CancellationToken leaving)
    {
        _leaving = leaving;
        var kind = TransportKind.For(_context);
        for (bool fresh = !connections.KeepsConnections; ; fresh = true)
        {
            PooledConnection connection = await connections.RentAsync(fresh, kind, leaving).ConfigureAwait(false);
            bool isDone = false;
            bool goesOn = false;
            bool isWhole = false;
            try
            {
                isWhole = await TryAnswerAsync(connection, connections.Settles).ConfigureAwait(false);
                goesOn = !isWhole;
                if (!goesOn)
                {
                    if (_ended is null && connections.Settles)
                    {
                        await LetEndAsync(connection).ConfigureAwait(false);
                    }
                    isDone = _uploadIsOver && _ended is not null && !connection.HasRest && !_leaving.IsCancellationRequested;    // the program may be on its way to hear that the visitor has left
                    return;
                }
            }
            finally
            {
                _hasAnswered |= connection.HasAnswered;
                _timesSent += connection.HasSent ? 1 : 0;
                try
                {
                    if (!isWhole)
                    {
                        await StopSendingAsync().ConfigureAwait(false);
                    }
                }
                finally
                {
                    await EndAsync(connections, connection, isDone, goesOn).ConfigureAwait(false);
                }
            }
        }
    }

    public void Dispose()
    {
        _writer.Dispose();
        _taken?.Complete();
        DisposeOfAhead();
    }

    // False: the connection was one that the program had just ended, and nothing of the request can have been acted upon, or may be twice.
    private async Task<bool> TryAnswerAsync(PooledConnection connection, bool settles)
    {
        connection.BeginRequest();
        _stopping = settles ? CancellationTokenSource.CreateLinkedTokenSource(_leaving) : null;
        SilenceTimer silence = BeginSilence(connection);
        using CancellationTokenRegistration leaving = settles ? default : _leaving.UnsafeRegister(static request => _ = ((ProgramRequest)request!).AbortAsync(), this);
        try
        {
            bool isSent = await TrySendAsync(connection).ConfigureAwait(false);
            if (!isSent && connection is { IsUsed: true, HasSent: false })
            {
                return false;
            }
            if (_body is not null && isSent)
            {
                _upload = UploadAsync(connection, _body);
            }
            else
            {
                _uploadIsOver = isSent;
            }
            await AnswerAsync(connection, settles).ConfigureAwait(false);
            return true;
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException or ConnectorException or OperationCanceledException && _leaving.IsCancellationRequested)
        {
            throw new OperationCanceledException("The visitor has left.", error, _leaving);
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException or OperationCanceledException && _isSilent)
        {
            throw new TimeoutException(FormattableString.Invariant($"It has said nothing for {_options.ReadTimeout.TotalSeconds:0.###} s (ReadTimeout)."), error);
        }
        catch (Exception error) when (error is SocketException or EndOfAnswerException or OperationCanceledException || (error is ObjectDisposedException && connection.IsClosed))
        {
            _uploadFailure?.Throw();
            if (error is OperationCanceledException)
            {
                throw;
            }
            if (connection.IsUsed && MayBeSentAgain(connection, settles))
            {
                return false;
            }
            throw new ConnectorException(ConnectorFault.BrokenResponse, connection.HasAnswered
                ? "It has ended the connection in the middle of its response."
                : "It has ended the connection without an answer.", error);
        }
        finally
        {
            silence.End();
        }
    }

    // Sending that may have been broken off leaves no place for a record: only one that is not busy sending is told.
    private async Task AbortAsync()
    {
        PooledConnection connection = _asked!;
        using var limit = new CancellationTokenSource(s_abortLimit, _options.Clock);
        try
        {
            await connection.SendAsync(RecordWriter.Abort(), limit.Token).ConfigureAwait(false);
        }
        catch (Exception error) when (error is SocketException or ObjectDisposedException or OperationCanceledException)
        {
            // It has gone itself, or takes nothing.
        }
        connection.Dispose();
    }

    private CancellationToken StopToken => _stopping?.Token ?? CancellationToken.None;

    // A program that takes no more may have answered all the same.
    private async ValueTask<bool> TrySendAsync(PooledConnection connection)
    {
        try
        {
            await connection.SendAsync(_writer.Written, StopToken).ConfigureAwait(false);
            return true;
        }
        catch (SocketException)
        {
            return false;
        }
    }

    private void Stop(PooledConnection connection)
    {
        if (_stopping is { } stopping)
        {
            stopping.Cancel();
            return;
        }
        connection.Dispose();
    }

    private async ValueTask EndAsync(IProgramConnections connections, PooledConnection connection, bool isDone, bool goesOn)
    {
        using CancellationTokenSource? stopping = _stopping;
        if (isDone)
        {
            connections.Return(connection);
            return;
        }
        if (!connections.Settles)
        {
            connections.Drop(connection);     // ends an upload that the program does not take
            await EndUploadAsync().ConfigureAwait(false);
            return;
        }
        stopping!.Cancel();       // ends an upload that the process does not take
        await EndUploadAsync().ConfigureAwait(false);
        if (!goesOn)
        {
            _ = _turn!.TrySetResult();
        }
        await connections.SettleAsync(connection, hasEnded: _ended is not null).ConfigureAwait(false);
    }

    // ---- the answer ----

    private async Task AnswerAsync(PooledConnection connection, bool settles)
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
                _ahead?.Complete();
                return;
            }
            if (_head.IsRead)
            {
                BeginVisitorWait();
                try
                {
                    await ShowAsync(settles).ConfigureAwait(false);
                }
                finally
                {
                    EndVisitorWait();
                }
            }
            if (!connection.Take(await connection.ReceivePieceAsync(StopToken).ConfigureAwait(false)))
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
                    ConnectorException.ThrowIfBodyless(_head.IsRead, _context.Response.StatusCode, _head.ContentLength ?? 0);
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
        if (_written + content.Length > (_head.ContentLength ?? long.MaxValue))
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, "Its response is broken: it has more bytes than its Content-Length says.");
        }
        if (_ahead is { } ahead)
        {
            ahead.Write(content);
        }
        else if (_context.Response.HasStarted)
        {
            _context.Response.BodyWriter.Write(content);
        }
        else
        {
            (_first ??= new ArrayBufferWriter<byte>()).Write(content);
        }
        _written += content.Length;
    }

    /// <summary>What has come of the body, and has not been given to the response because there could have been no whole answer.</summary>
    public void ShowFirst()
    {
        if (_first is { WrittenCount: > 0 } first)
        {
            _context.Response.BodyWriter.Write(first.WrittenSpan);
            first.ResetWrittenCount();
            HasShown = true;
        }
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
        if (!_dropsBody && _head.ContentLength is { } length && length != _written)
        {
            throw new ConnectorException(ConnectorFault.BrokenResponse, "Its response is broken: it has fewer bytes than its Content-Length says.");
        }
    }

    private sealed class EndOfAnswerException : IOException;
}
