// What a program has answered and its visitor has not taken yet: kept in memory, up to a bound, so that the program is free for the next request while a slow reader has what has come. How much is kept
// for all visitors together is bounded too; who finds no room there holds the program as long as he reads.

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

internal sealed class AnswerAhead
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(5);

    private readonly HttpContext _context;
    private readonly Pipe _kept;
    private readonly CancellationTokenSource _stop;

    /// <param name="context">The visitor's.</param>
    /// <param name="bytesMax">That are kept.</param>
    /// <param name="flush">What has been given to the server already; nothing else is until it has gone.</param>
    /// <param name="stop">Ends the sending.</param>
    public AnswerAhead(HttpContext context, int bytesMax, Task flush, CancellationTokenSource stop)
    {
        (_context, _stop) = (context, stop);
        _kept = new Pipe(new PipeOptions(new FreshMemory(), pauseWriterThreshold: bytesMax, resumeWriterThreshold: Math.Max(1, bytesMax / 2), useSynchronizationContext: false));
        Sent = SendAsync(flush, stop.Token);
    }

    /// <summary>Ends when the visitor has all of it, or is not sent any more.</summary>
    public Task Sent { get; }

    public void Write(ReadOnlySpan<byte> content) => _kept.Writer.Write(content);

    /// <summary>Waits while as much is kept as may be.</summary>
    public async ValueTask WaitForRoomAsync(CancellationToken ct) => _ = await _kept.Writer.FlushAsync(ct).ConfigureAwait(false);

    /// <summary>There is no more.</summary>
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

    private async Task SendAsync(Task flush, CancellationToken stop)
    {
        Exception? failure = null;
        try
        {
            await flush.ConfigureAwait(false);
            while (true)
            {
                ReadResult read = await _kept.Reader.ReadAsync(stop).ConfigureAwait(false);
                foreach (ReadOnlyMemory<byte> part in read.Buffer)
                {
                    _context.Response.BodyWriter.Write(part.Span);
                    await _context.Response.BodyWriter.FlushAsync(stop).ConfigureAwait(false);
                }
                _kept.Reader.AdvanceTo(read.Buffer.End);
                if (read.IsCompleted)
                {
                    return;
                }
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
}
