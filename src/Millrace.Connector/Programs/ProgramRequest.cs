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

internal sealed partial class ProgramRequest : WatchedRequest, ISilent, IDisposable
{
    private const int PieceMax = 32 * 1024;

    private static readonly TimeSpan s_abortLimit = TimeSpan.FromMilliseconds(100);

    private readonly HttpContext _context;
    private readonly FastCgiProgramOptions _options;
    private readonly RecordWriter _writer = new();
    private readonly ProgramHead _head;
    private ResponseEnd _end;
    private Task? _upload;
    private PipeReader? _body;
    private ArrayBufferWriter<byte>? _first;        // of the response's body, until it begins: what fails before that leaves nothing behind
    private ReadOnlyMemory<byte> _piece;            // what comes behind that, where it lies in the connection's input
    private PipeReader? _taken;     // of a body that has been taken in
    private CancellationTokenSource? _stopping;     // of a connection whose end is waited for; null: it is closed to stop
    private bool _hasAnswered;
    private long _written;
    private long? _announced;       // bytes of the body, to the program
    private bool _dropsBody;
    private volatile bool _uploadIsOver;
    private volatile ExceptionDispatchInfo? _uploadFailure;     // the visitor's doing, as the body's reader says

    /// <param name="context">Whose.</param>
    /// <param name="options">The program's.</param>
    /// <param name="given">See <see cref="ProgramVariables.Write"/>.</param>
    public ProgramRequest(HttpContext context, FastCgiProgramOptions options, IReadOnlyDictionary<string, string>? given)
        : base(context)
    {
        _context = context;
        _options = options;
        Given = given;
        _head = new ProgramHead(options.HeadBytesMax, options.HeadFieldsMax) { HasFrontServer = HeadParameters.AreOfWebServer(given) };
    }

    /// <summary>See <see cref="ProgramVariables.Write"/>.</summary>
    public IReadOnlyDictionary<string, string>? Given { get; }

    /// <summary>What the program has printed; null: nothing.</summary>
    public ProgramErrors? Errors { get; private set; }

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
    public ValueTask PrepareAsync(string prefix, in ScriptTarget target, bool keepsConnection, bool takesBodyFirst)
    {
        _dropsBody = _context.Request.Method == HttpMethods.Head;
        _writer.WriteBegin(keepsConnection);
        if (_context.MayHaveBody())
        {
            return PrepareBodyAsync(prefix, target, takesBodyFirst);
        }
        ProgramVariables.Write(_writer, _context, _options, prefix, target, _announced = _context.Request.ContentLength, Given);
        _writer.EndEmptyStream(RecordType.Stdin);
        return default;
    }

    private async ValueTask PrepareBodyAsync(string prefix, ScriptTarget target, bool takesBodyFirst)
    {
        _announced = await ReadLengthAsync(takesBodyFirst).ConfigureAwait(false);
        ProgramVariables.Write(_writer, _context, _options, prefix, target, _announced, Given);
        _body = TakeSmallBody();
    }

    /// <summary>The same as <see cref="RunAsync"/> where there is no pool that could answer for the request meanwhile.</summary>
    /// <param name="connections">To the program.</param>
    /// <param name="program">Whose endpoint is done with the request then; null: somebody else sees to it.</param>
    // All that a usual request waits for it waits for here: each method more that waits is a state machine more for every request.
    public async Task AskAsync(IProgramConnections connections, FastCgiProgram? program = null)
    {
        try
        {
            var kind = TransportKind.For(_context);
            bool goesOn;        // over another connection
            bool fresh = !connections.KeepsConnections;
            do
            {
                PooledConnection connection = (fresh ? null : connections.TryRent(kind)) ?? await connections.RentAsync(fresh, kind, Leaving).ConfigureAwait(false);
                bool isDone = false;
                goesOn = false;
                bool isWhole = false;
                try
                {
                    CancellationTokenRegistration watch = Begin(connection, connections.Settles);
                    try
                    {
                        ThrowIfLeft();      // nothing of it is begun for nobody
                        bool isSent = await TrySendAsync(connection).ConfigureAwait(false);
                        goesOn = !isSent && connection is { IsUsed: true, HasSent: false };
                        if (!goesOn)
                        {
                            BeginUpload(connection, isSent);
                            while (!TryTakeAnswer(connection, connections.Settles))
                            {
                                if (_head.IsRead)
                                {
                                    await ShowAsync(connections.Settles).ConfigureAwait(false);
                                }
                                if (!connection.Take(await connection.ReceivePieceAsync(StopToken).ConfigureAwait(false)))
                                {
                                    throw new EndOfAnswerException();
                                }
                                NoteLife();
                            }
                            isWhole = true;
                        }
                    }
                    catch (Exception error) when (IsOfConnection(error, connection))
                    {
                        ThrowUnlessAgain(error, connection, connections.Settles);
                        goesOn = true;
                    }
                    finally
                    {
                        connection.Silence!.End();
                        EndWatch(watch);
                    }
                    if (!goesOn)
                    {
                        if (!_end.HasCome && connections.Settles)
                        {
                            await LetEndAsync(connection).ConfigureAwait(false);
                        }
                        isDone = _uploadIsOver && _end.HasCome && !connection.HasRest && !connection.HasForeign && !HasLeft;    // the program may be on its way to hear that the visitor has left
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
                fresh = true;
            }
            while (goesOn);
            if (program?.Conclude(_context, this) is { } concluding)
            {
                await concluding.ConfigureAwait(false);
            }
        }
        catch (Exception error) when (program is not null)
        {
            if (!program.TryFail(_context, this, error))
            {
                throw;
            }
        }
        finally
        {
            program?.Leave(_context, this);
        }
    }

    public void Dispose()
    {
        _writer.Dispose();
        _taken?.Complete();
        DisposeOfAhead();
    }

    private CancellationTokenRegistration Begin(PooledConnection connection, bool settles)
    {
        _writer.Readdress(connection.BeginNextRequest());
        _stopping = settles ? CancellationTokenSource.CreateLinkedTokenSource(Leaving) : null;
        BeginSilence(connection);
        return settles ? default : BeginWatch();
    }

    private void BeginUpload(PooledConnection connection, bool isSent)
    {
        if (_body is not null && isSent)
        {
            _upload = UploadAsync(connection, _body);
        }
        else
        {
            _uploadIsOver = isSent;
        }
    }

    // Sending that may have been broken off leaves no place for a record: only one that is not busy sending is told.
    protected override async Task AbortAsync()
    {
        PooledConnection connection = _asked!;
        if (!connection.IsTorn)
        {
            using var limit = new CancellationTokenSource(s_abortLimit, _options.Clock);
            try
            {
                await connection.SendAsync(RecordWriter.Abort(connection.RequestId), limit.Token).ConfigureAwait(false);
            }
            catch (Exception error) when (error is SocketException or ObjectDisposedException or OperationCanceledException)
            {
                // It has gone itself, or takes nothing.
            }
        }
        connection.Dispose();
    }

    private CancellationToken StopToken => _stopping?.Token ?? CancellationToken.None;

    // A program that takes no more may have answered all the same.
    private ValueTask<bool> TrySendAsync(PooledConnection connection)
    {
        ValueTask sending;
        try
        {
            sending = connection.SendAsync(_writer.Written, StopToken);
        }
        catch (SocketException)
        {
            return new ValueTask<bool>(false);
        }
        return sending.IsCompletedSuccessfully ? new ValueTask<bool>(true) : AwaitSentAsync(sending);
    }

    private static async ValueTask<bool> AwaitSentAsync(ValueTask sending)
    {
        try
        {
            await sending.ConfigureAwait(false);
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

    private ValueTask EndAsync(IProgramConnections connections, PooledConnection connection, bool isDone, bool goesOn)
    {
        if (!isDone)
        {
            return StopAsync(connections, connection, goesOn);
        }
        connections.Return(connection);
        _stopping?.Dispose();
        return default;
    }

    private async ValueTask StopAsync(IProgramConnections connections, PooledConnection connection, bool goesOn)
    {
        using CancellationTokenSource? stopping = _stopping;
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
        await connections.SettleAsync(connection, hasEnded: _end.HasCome).ConfigureAwait(false);
    }
}
