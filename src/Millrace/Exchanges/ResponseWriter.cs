// A response body as a PipeWriter: bytes are written in place into what will be sent.

using System.IO.Pipelines;
using System.Runtime.CompilerServices;

namespace Millrace.Exchanges;

internal sealed class ResponseWriter(Exchange exchange, IResponseStarter start) : PipeWriter
{
    private ExpiryGuard _guard;
    private long _unflushed;
    private bool _completed;

    public void Expire() => _guard.Expire();

    public override bool CanGetUnflushedBytes => true;

    public override long UnflushedBytes => _unflushed;

    public override Memory<byte> GetMemory(int sizeHint = 0)
    {
        _guard.EnterToWrite();
        try
        {
            CheckOpen();
            return exchange.ReserveBody(sizeHint);
        }
        finally
        {
            _guard.Exit();
        }
    }

    public override Span<byte> GetSpan(int sizeHint = 0) => GetMemory(sizeHint).Span;

    public override void Advance(int bytes)
    {
        _guard.EnterToWrite();
        try
        {
            exchange.AdvanceBody(bytes);
            _unflushed += bytes;
        }
        finally
        {
            _guard.Exit();
        }
    }

    public override ValueTask<FlushResult> FlushAsync(CancellationToken cancellationToken = default)
    {
        cancellationToken.ThrowIfCancellationRequested();
        Task? starting;
        _guard.EnterToWrite();
        try
        {
            _unflushed = 0;
            starting = start.StartResponse();
            if (starting is null)
            {
                ValueTask flushed = exchange.FlushAsync();
                return flushed.IsCompletedSuccessfully ? new ValueTask<FlushResult>(Result) : Later(flushed);
            }
        }
        finally
        {
            _guard.Exit();
        }

        return FlushLater(starting);
    }

    public override ValueTask<FlushResult> WriteAsync(ReadOnlyMemory<byte> source, CancellationToken cancellationToken = default)
    {
        cancellationToken.ThrowIfCancellationRequested();
        ValueTask written = default;
        Task? starting;
        _guard.EnterToWrite();
        try
        {
            CheckOpen();
            starting = start.StartResponse();
            if (starting is null)
            {
                written = exchange.WriteAsync(source);
                if (written.IsCompletedSuccessfully)
                {
                    written = exchange.FlushAsync();
                    return written.IsCompletedSuccessfully ? new ValueTask<FlushResult>(Result) : Later(written);
                }
            }
        }
        finally
        {
            _guard.Exit();
        }

        // Outside the guard: what follows may run on another thread before this one has returned, and enters it again.
        return starting is null ? FlushAfter(written) : WriteLater(starting, source);
    }

    public override void CancelPendingFlush()
    {
    }

    public override void Complete(Exception? exception = null) => _completed = true;

    private FlushResult Result => new(isCanceled: false, isCompleted: false);

    private void CheckOpen()
    {
        if (_completed)
        {
            throw new InvalidOperationException("Writing is not allowed after the writer was completed.");
        }
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    private async ValueTask<FlushResult> Later(ValueTask flushed)
    {
        await flushed;
        return Result;
    }

    private async ValueTask<FlushResult> FlushAfter(ValueTask written)
    {
        await written;
        return await FlushAsync();
    }

    private async ValueTask<FlushResult> FlushLater(Task starting)
    {
        await starting;
        return await FlushAsync();
    }

    private async ValueTask<FlushResult> WriteLater(Task starting, ReadOnlyMemory<byte> source)
    {
        await starting;
        return await WriteAsync(source);
    }

    /// <summary>Serves the next request; only after one that never left its driver's turn.</summary>
    public void Reopen()
    {
        _unflushed = 0;
        _completed = false;
        _guard.Reopen();
    }
}
