// What a program has answered and its visitor has not taken yet: kept in memory, up to a bound, and behind that in a file, so that the program is free for the next request while a slow reader has what has
// come. How much is kept for all visitors together is bounded too; who finds no room there holds the program as long as he reads.
//
//     program -> _kept -> visitor                   as long as there is room in memory, and again when the visitor has all that lies in the file
//     program -> _piece -> _file; _kept -> visitor  otherwise: what lies in memory has come before what lies in the file, and is sent first

using System.Buffers;
using System.IO.Pipelines;
using Microsoft.AspNetCore.Http;

namespace Millrace.Connector;

/// <summary>Room for what is kept, of one mapping.</summary>
/// <param name="bytesMax">For all visitors together.</param>
internal sealed class AnswerRoom(long bytesMax)
{
    private long _taken;

    public bool TryTake(long bytes)
    {
        if (Interlocked.Add(ref _taken, bytes) <= bytesMax)
        {
            return true;
        }
        Return(bytes);
        return false;
    }

    public void Return(long bytes) => Interlocked.Add(ref _taken, -bytes);
}

internal sealed class AnswerAhead : IDisposable
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(5);

    private readonly HttpContext _context;
    private readonly Pipe _kept;
    private readonly KeptFile? _file;       // null: there is none
    private readonly ArrayBufferWriter<byte> _piece = new();     // what has come last, and is to go into the file
    private readonly CancellationTokenSource _stop;
    private Task? _room;        // of the memory, which is full: what comes meanwhile goes into the file; null: it goes into the memory

    /// <param name="context">The visitor's.</param>
    /// <param name="bytesMax">That are kept in memory.</param>
    /// <param name="files">For what is kept beside that; null: nothing is.</param>
    /// <param name="flush">What has been given to the server already; nothing else is until it has gone.</param>
    /// <param name="stop">Ends the sending.</param>
    public AnswerAhead(HttpContext context, int bytesMax, AnswerFiles? files, Task flush, CancellationTokenSource stop)
    {
        (_context, _stop) = (context, stop);
        _kept = new Pipe(new PipeOptions(new FreshMemory(), pauseWriterThreshold: bytesMax, resumeWriterThreshold: Math.Max(1, bytesMax / 2), useSynchronizationContext: false));
        _file = files is null ? null : new KeptFile(files);
        Sent = SendAsync(flush, stop.Token);
    }

    /// <summary>Ends when the visitor has all of it, or is not sent any more.</summary>
    public Task Sent { get; }

    public void Write(ReadOnlySpan<byte> content)
    {
        if (_room is null)
        {
            _kept.Writer.Write(content);
            return;
        }
        _piece.Write(content);
    }

    /// <summary>Waits while as much is kept as may be.</summary>
    public async ValueTask WaitForRoomAsync(CancellationToken ct)
    {
        if (_room is { } room)
        {
            if (Sent.IsCompleted)
            {
                await Sent.ConfigureAwait(false);       // the visitor has left
            }
            if (!(room.IsCompleted && _file!.IsEmpty))
            {
                if (await _file!.TryWriteAsync(_piece.WrittenMemory).ConfigureAwait(false))
                {
                    _piece.ResetWrittenCount();
                    _kept.Reader.CancelPendingRead();       // there is something in the file
                    return;
                }
                _ = await Task.WhenAny(room, Sent).WaitAsync(ct).ConfigureAwait(false);
                _ = await Task.WhenAny(_file.WhenEmpty(), Sent).WaitAsync(ct).ConfigureAwait(false);
            }
            _room = null;
            await _file!.ClearAsync().ConfigureAwait(false);
            _kept.Writer.Write(_piece.WrittenSpan);
            _piece.ResetWrittenCount();
        }
        ValueTask<FlushResult> flush = _kept.Writer.FlushAsync(ct);
        if (flush.IsCompleted || _file is null or { IsBroken: true })
        {
            _ = await flush.ConfigureAwait(false);
            return;
        }
        _room = flush.AsTask();
        _ = _room.ContinueWith(static its => _ = its.Exception, CancellationToken.None, TaskContinuationOptions.OnlyOnFaulted | TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default);
    }

    /// <summary>There is no more. What has come last goes from where it lies.</summary>
    public void Complete() => _kept.Writer.Complete();

    /// <summary>What is left is not sent: the answer has broken off. The context is not touched any more behind it.</summary>
    public async ValueTask StopAsync()
    {
        await _stop.CancelAsync().ConfigureAwait(false);
        if (await Task.WhenAny(Sent, Task.Delay(s_patience)).ConfigureAwait(false) != Sent)
        {
            _context.Abort();       // a server that does not heed the token
        }
        await Sent.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    /// <summary>Nothing is written any more, and <see cref="Sent"/> has ended.</summary>
    public void Dispose() => _file?.Dispose();

    private async Task SendAsync(Task flush, CancellationToken stop)
    {
        Exception? failure = null;
        try
        {
            await flush.ConfigureAwait(false);
            while (await TrySendNextAsync(stop).ConfigureAwait(false))
            {
                // There is more.
            }
        }
        catch (Exception error)
        {
            failure = error;
            throw;
        }
        finally
        {
            await _kept.Reader.CompleteAsync(failure).ConfigureAwait(false);
        }
    }

    // False: that was all.
    private async ValueTask<bool> TrySendNextAsync(CancellationToken stop)
    {
        bool hasFile = _file is { IsEmpty: false };     // before the memory is looked at: what is found there then has come before what lies in the file
        if (!_kept.Reader.TryRead(out ReadResult read))
        {
            if (hasFile)
            {
                await SendOfFileAsync(stop).ConfigureAwait(false);
                return true;
            }
            read = await _kept.Reader.ReadAsync(stop).ConfigureAwait(false);
        }
        bool isEmpty = read.Buffer.IsEmpty;
        foreach (ReadOnlyMemory<byte> part in read.Buffer)
        {
            await SendAsync(part, stop).ConfigureAwait(false);
        }
        _kept.Reader.AdvanceTo(read.Buffer.End);
        if (isEmpty && hasFile)
        {
            await SendOfFileAsync(stop).ConfigureAwait(false);
            return true;
        }
        if (!isEmpty || !read.IsCompleted || _file is { IsEmpty: false })
        {
            return true;
        }
        await SendAsync(_piece.WrittenMemory, stop).ConfigureAwait(false);
        return false;
    }

    private async ValueTask SendOfFileAsync(CancellationToken stop)
    {
        ReadOnlyMemory<byte> part = await _file!.ReadAsync(stop).ConfigureAwait(false);
        await SendAsync(part, stop).ConfigureAwait(false);
        _file.Advance(part.Length);
    }

    private async ValueTask SendAsync(ReadOnlyMemory<byte> part, CancellationToken stop)
    {
        if (!part.IsEmpty)
        {
            _context.Response.BodyWriter.Write(part.Span);
            _ = await _context.Response.BodyWriter.FlushAsync(stop).ConfigureAwait(false);
        }
    }
}
