// A response body as a Stream. One per request that asks for it: a stream kept beyond its request refuses to write, even
// when another thread is in the middle of a write at that moment.

namespace Millrace.Exchanges;

/// <summary>What must happen before the first byte: in ASP.NET Core the OnStarting callbacks.</summary>
internal interface IResponseStarter
{
    /// <summary>Null when there is nothing to wait for.</summary>
    Task? StartResponse();
}

internal sealed class ResponseStream(Exchange exchange, IResponseStarter? start) : SequentialStream
{
    private ExpiryGuard _guard;

    public void Expire() => _guard.Expire();

    public override bool CanRead => false;

    public override bool CanWrite => true;

    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        cancellationToken.ThrowIfCancellationRequested();
        ValueTask written = default;
        Task? starting;
        _guard.EnterToWrite();
        try
        {
            starting = start?.StartResponse();
            if (starting is null)
            {
                written = exchange.WriteAsync(buffer);
                if (start is null)
                {
                    return written;
                }

                // Applications count on what they wrote being on its way, as on other servers; the handler's own turn still leaves in one send.
                if (written.IsCompletedSuccessfully)
                {
                    return exchange.FlushAsync();
                }
            }
        }
        finally
        {
            _guard.Exit();
        }

        // Outside the guard: what follows may run on another thread before this one has returned, and enters it again.
        return starting is null ? FlushAfter(written) : WriteLater(starting, buffer);
    }

    private async ValueTask FlushAfter(ValueTask written)
    {
        await written;
        await FlushAsync(CancellationToken.None);
    }

    private async ValueTask WriteLater(Task starting, ReadOnlyMemory<byte> buffer)
    {
        await starting;
        await WriteAsync(buffer, CancellationToken.None);
    }

    public override Task FlushAsync(CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        Task? starting;
        _guard.EnterToWrite();
        try
        {
            starting = start?.StartResponse();
            if (starting is null)
            {
                ValueTask flushed = exchange.FlushAsync();
                return flushed.IsCompletedSuccessfully ? Task.CompletedTask : flushed.AsTask();
            }
        }
        finally
        {
            _guard.Exit();
        }

        return FlushLater(starting);
    }

    private async Task FlushLater(Task starting)
    {
        await starting;
        await FlushAsync(CancellationToken.None);
    }

    public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        ValueTask written = WriteAsync(buffer.AsMemory(offset, count), cancellationToken);
        return written.IsCompletedSuccessfully ? Task.CompletedTask : written.AsTask();
    }

    public override void Write(byte[] buffer, int offset, int count)
    {
        exchange.CheckSynchronousIO("WriteAsync");
        Wait(WriteAsync(buffer.AsMemory(offset, count)));
    }

    public override void Write(ReadOnlySpan<byte> buffer) => Write(buffer.ToArray(), 0, buffer.Length);

    public override void Flush()
    {
        exchange.CheckSynchronousIO("FlushAsync");
        Wait(new ValueTask(FlushAsync(CancellationToken.None)));
    }

    private static void Wait(ValueTask task)
    {
        if (task.IsCompleted)
        {
            task.GetAwaiter().GetResult();
        }
        else
        {
            task.AsTask().GetAwaiter().GetResult();
        }
    }

    public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();
}
